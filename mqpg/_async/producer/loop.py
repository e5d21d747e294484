"""Running work periodically, until a stop is asked for."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Self

from sqlalchemy.exc import SQLAlchemyError

from mqpg._async._acompat import Event, Returns, cancellations, raise_cancellation, require_event, start, wait_for
from mqpg._async.closing import AsyncClosing
from mqpg.connection.stopping import stops_with
from mqpg.user_tables.drivers import message_of
from mqpg.values.errors import Error

__all__ = ["AsyncRecovering", "run_periodically"]

logger = logging.getLogger("mqpg")

_PAUSE = 5.0  # seconds from the start of a block to its first recovery
_PATIENCE = 5.0  # seconds that the end of a block waits for a recovery that has begun


class AsyncRecovering(AsyncClosing):
    """A producer that runs recovery by itself for as long as its `async with` block lasts."""

    def __init__(self) -> None:
        # Of each open block: what stops its recovery, and what waits for the end.
        self._blocks: list[tuple[Event, Callable[[float], Returns[None]]]] = []

    async def __aenter__(self) -> Self:
        stop = Event()
        self._blocks.append((stop, start(partial(self._recover_until, stop))))
        return self

    async def __aexit__(self, *exception: object) -> None:
        stop, ended = self._blocks.pop()
        stop.set()
        try:
            await ended(_PATIENCE)
        finally:
            await self.close()

    @abstractmethod
    async def run_recovery(self, stop: Event) -> None:
        """Run recovery periodically until `stop` is set."""

    async def _recover_until(self, stop: Event) -> None:
        with stops_with(stop):
            if not await wait_for(stop, _PAUSE):
                await self.run_recovery(stop)


async def run_periodically(
    work: Callable[[], Returns[int]],
    stop: Event,
    interval: float,
    what: str,
    *,
    fatal: tuple[type[Exception], ...] = (),
) -> None:
    """Run `work` every `interval` seconds until `stop` is set, through restarts of any database.

    While `work` returns more than 0 it runs again at once. An error is logged, with `what` for a
    name, and the loop continues. An error of a type in `fatal` ends it.
    """
    require_event(stop)
    before = cancellations()
    while not stop.is_set():
        try:
            while await work() and not stop.is_set():
                raise_cancellation(before)
        except fatal:
            raise
        except Exception as error:
            raise_cancellation(before)
            # An error of a database needs no traceback.
            unexpected = None if isinstance(error, (Error, SQLAlchemyError)) else error
            logger.warning("%s failed and is tried again: %s", what, message_of(error), exc_info=unexpected)
        raise_cancellation(before)
        await wait_for(stop, interval)
