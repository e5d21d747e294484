# Generated from mqpg/_async/consumer.py by tools/async_to_sync.py: change that file.
"""The consumer: rounds of receive, effect and ack (protocols C1 and C2)."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from typing import Any

from mqpg._consumption import FATAL, Options, reason_of
from mqpg._sync._io import Event, Handled, wait_for
from mqpg._sync.client import Client
from mqpg._sync.here import EffectHere
from mqpg._sync.there import EffectThere
from mqpg._sync.waiting import Wake
from mqpg.message import Message

__all__ = ["Consumer"]

logger = logging.getLogger("mqpg")


class Consumer:
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

    def step(self, mq: Client) -> int:
        """One round; returns how many messages it settled (applied, or sent to retry), 0 when there were none."""
        return self.effect.step(mq)

    def run(self, mq: Client, stop: Event) -> None:
        """Rounds until `stop` is set; the one under way is finished first.

        Goes on through restarts of both databases. Raises what repetition cannot mend: OffsetBeyondLog,
        LedgerError, ConfigurationError, NotFound, MissingBody, SchemaError.
        """
        wake, failures = Wake(mq), 0
        try:
            while not stop.is_set():
                try:
                    found = self.step(mq)
                except FATAL:
                    raise
                except Exception as error:
                    failures += 1
                    pause = min(5.0, 0.05 * 2.0 ** min(failures, 10)) * random.uniform(0.7, 1.0)
                    logger.warning("%r: again in %.2f s after %s", self, pause, reason_of(error))
                    wait_for(stop, pause)
                    continue
                failures = 0
                if found:
                    wake.busy()
                else:
                    wake.wait(stop)
        finally:
            wake.close()

    def close(self) -> None:
        """Close the connections to the consumer's own database."""
        self.effect.close()

    def _call(self, messages: Sequence[Message], conn: Any) -> None:
        if self.options.batch:
            self.handler(messages, conn)
            return
        for message in messages:
            self.handler(message, conn)
