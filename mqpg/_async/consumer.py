"""The consumer: rounds of receive, effect and ack (protocols C1 and C2)."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from typing import Any

from mqpg._async._io import Event, Handled, wait_for
from mqpg._async.client import AsyncClient
from mqpg._async.here import EffectHere
from mqpg._async.there import EffectThere
from mqpg._async.waiting import Wake
from mqpg._consumption import FATAL, Options, reason_of
from mqpg.message import Message

__all__ = ["AsyncConsumer"]

logger = logging.getLogger("mqpg")


class AsyncConsumer:
    """A handler and what it reads. Made by mqpg.consumer; still callable as the handler that it was."""

    def __init__(self, handler: Callable[..., Handled], options: Options) -> None:
        self.handler = handler
        self.options = options
        self.effect = (EffectHere if options.database is None else EffectThere)(options, self._call)
        self.__doc__ = handler.__doc__
        self.__name__ = getattr(handler, "__name__", type(handler).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Handled:
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__} of {self.options.group}/{self.options.topic}>"

    async def step(self, mq: AsyncClient) -> int:
        """One round; returns how many messages it settled (applied, or sent to retry), 0 when there were none."""
        return await self.effect.step(mq)

    async def run(self, mq: AsyncClient, stop: Event) -> None:
        """Rounds until `stop` is set; the one under way is finished first.

        Goes on through restarts of both databases. Raises what repetition cannot mend: OffsetBeyondLog,
        LedgerError, ConfigurationError, NotFound, MissingBody, SchemaError.
        """
        wake, failures = Wake(mq), 0
        try:
            while not stop.is_set():
                try:
                    found = await self.step(mq)
                except FATAL:
                    raise
                except Exception as error:
                    failures += 1
                    pause = min(5.0, 0.05 * 2.0 ** min(failures, 10)) * random.uniform(0.7, 1.0)
                    logger.warning("%r: again in %.2f s after %s", self, pause, reason_of(error))
                    await wait_for(stop, pause)
                    continue
                failures = 0
                if found:
                    wake.busy()
                else:
                    await wake.wait(stop)
        finally:
            await wake.close()

    async def close(self) -> None:
        """Close the connections to the consumer's own database."""
        await self.effect.close()

    async def _call(self, messages: Sequence[Message], conn: Any) -> None:
        if self.options.batch:
            await self.handler(messages, conn)
            return
        for message in messages:
            await self.handler(message, conn)
