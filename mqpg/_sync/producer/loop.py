# Generated from mqpg/_async/producer/loop.py by tools/async_to_sync.py: change that file.
"""Running work periodically, until a stop is asked for."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Self

from sqlalchemy.exc import SQLAlchemyError

from mqpg._sync._acompat import Event, Returns, cancellations, raise_cancellation, require_event, start, wait_for
from mqpg._sync.closing import Closing
from mqpg.connection.stopping import stops_with
from mqpg.user_tables.drivers import message_of
from mqpg.values.errors import Error

__all__ = ["Recovering", "run_periodically"]

logger = logging.getLogger("mqpg")

_PAUSE = 5.0  # seconds from the start of a block to its first recovery
_PATIENCE = 5.0  # seconds that the end of a block waits for a recovery that has begun


class Recovering(Closing):
    """A producer that runs recovery by itself for as long as its `with` block lasts."""

    def __init__(self) -> None:
        # Of each open block: what stops its recovery, and what waits for the end.
        self._blocks: list[tuple[Event, Callable[[float], Returns[None]]]] = []

    def __enter__(self) -> Self:
        stop = Event()
        self._blocks.append((stop, start(partial(self._recover_until, stop))))
        return self

    def __exit__(self, *exception: object) -> None:
        stop, ended = self._blocks.pop()
        stop.set()
        try:
            ended(_PATIENCE)
        finally:
            self.close()

    @abstractmethod
    def run_recovery(self, stop: Event) -> None:
        """Run recovery periodically until `stop` is set."""

    def _recover_until(self, stop: Event) -> None:
        with stops_with(stop):
            if not wait_for(stop, _PAUSE):
                self.run_recovery(stop)


def run_periodically(
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
            while work() and not stop.is_set():
                raise_cancellation(before)
        except fatal:
            raise
        except Exception as error:
            raise_cancellation(before)
            # An error of a database needs no traceback.
            unexpected = None if isinstance(error, (Error, SQLAlchemyError)) else error
            logger.warning("%s failed and is tried again: %s", what, message_of(error), exc_info=unexpected)
        raise_cancellation(before)
        wait_for(stop, interval)
