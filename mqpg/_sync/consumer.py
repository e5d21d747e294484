# Generated from mqpg/_async/consumer.py by tools/async_to_sync.py: change that file.
"""The consumer: rounds of receive, effect and ack (protocols C1, C2 and C3)."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from mqpg._consumption import Options
from mqpg._failures import FATAL, reason_of
from mqpg._sync._io import Event, Handled, together, wait_for
from mqpg._sync.calling import Calls
from mqpg._sync.client import Client
from mqpg._sync.here import EffectHere
from mqpg._sync.outside import EffectOutside
from mqpg._sync.there import EffectThere
from mqpg._sync.waiting import Wake
from mqpg.errors import ConfigurationError

__all__ = ["Consumer"]

logger = logging.getLogger("mqpg")

Effect = EffectHere | EffectThere | EffectOutside
_EFFECTS: dict[str, Callable[[Options, Calls], Effect]] = {
    "broker": EffectHere,
    "database": EffectThere,
    "external": EffectOutside,
}


class Consumer:
    """A handler and what it reads. Made by mqpg.consumer; still callable as the handler that it was."""

    def __init__(self, handler: Callable[..., Handled], options: Options) -> None:
        self.handler = handler
        self.options = options
        self._client: Client | None = None
        self._begin()
        self.__doc__ = handler.__doc__
        self.__name__ = getattr(handler, "__name__", type(handler).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Handled:
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__} of {self.options.group}/{self.options.topic}>"

    def _begin(self) -> None:
        self.calls = Calls(self.handler, self.options)
        self.effect = _EFFECTS[self.options.where](self.options, self.calls)

    def _serve(self, mq: Client) -> None:
        """Forget what was learnt of another client's database: subscription, mode, tables."""
        if not isinstance(mq, Client):
            raise ConfigurationError(
                f"{self!r} runs with {Client.__name__}, as mqpg.connect gives it, not {type(mq).__name__}"
            )
        if self._client not in (None, mq):
            with suppress(Exception):  # of an event loop that is over, perhaps
                self.effect.close()
            self._begin()
        self._client = mq

    def step(self, mq: Client) -> int:
        """One round; returns how many messages it settled (applied, or sent to retry), 0 when there were none."""
        self._serve(mq)
        return self.effect.step(mq)

    def run(self, mq: Client, stop: Event) -> None:
        """Rounds until `stop` is set, `concurrency` of them at a time; those under way are finished first.

        Goes on through restarts of both databases. Raises what repetition cannot mend: OffsetBeyondLog,
        LedgerError, ConfigurationError, InvalidArgument, NotFound, WrongTopicKind, MissingBody, SchemaError,
        HandlerStuck. Serves one client at a time.
        """
        self._serve(mq)
        count = self.options.concurrency
        if self.options.where == "broker" and self.calls.wants_driver and count > mq.settings.pool_max_size:
            raise ConfigurationError(
                f"concurrency {count} needs as many connections: connect(pool_max_size={count}) "
                f"or more, not {mq.settings.pool_max_size}"
            )
        wakes = [Wake(mq, self.options.topic, self.options.group, self.options.name) for _ in range(count)]
        try:
            together([partial(self._work, mq, stop, worker, wakes) for worker in range(count)])
        finally:
            for wake in wakes:
                wake.close()

    def close(self) -> None:
        """Close the connections to the consumer's own database."""
        self.effect.close()

    def _work(self, mq: Client, stop: Event, worker: int, wakes: list[Wake]) -> None:
        """One worker; when it fails for good, `wakes` empties, and the others end too."""
        wake = wakes[worker]
        try:
            while wakes and not stop.is_set():
                self._round(mq, stop, worker, wake)
        except BaseException:
            others = wakes[:]
            wakes.clear()
            for other in others:
                other.wake()
            raise
        finally:
            wake.close()

    def _round(self, mq: Client, stop: Event, worker: int, wake: Wake) -> None:
        try:
            found = self.effect.step(mq, worker, stop)
            self.calls.check_stuck()
        except FATAL:
            raise
        except Exception as error:
            if mq.closed:
                raise
            pause = wake.failed() * random.uniform(0.7, 1.0)
            logger.warning("%r: again in %.2f s after %s", self, pause, reason_of(error))
            wait_for(stop, pause)
            return
        wake.succeeded()
        if not found:
            wake.wait(stop)
