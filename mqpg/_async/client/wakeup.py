"""Waiting until a topic may have messages: woken by this process's listener, or by the clock."""

from __future__ import annotations

import random
import time
from typing import Self

from mqpg._async._acompat import Event, sleep, wait_any, wait_for, waker
from mqpg._async.client.connection import BaseClient
from mqpg._async.client.execute import scalar
from mqpg.connection.backoff import Backoff
from mqpg.connection.statements import function
from mqpg.values.errors import Error

__all__ = ["TopicWaiter"]

# Whether messages may be in flight at another consumer.
_BEHIND = function("_is_behind", "consumer_group text, topic text, consumer text", reads=True)

# The pauses between wakes that bring nothing, however often the appender notifies: the first one,
# and the longest. A first one is common, because the look after a delivery often finds the next
# message before its notification comes. A long pause would make the message after it wait.
_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02
_BEHIND_PAUSE = 1.0  # while another consumer has messages in flight
_IDLE_PAUSE = 300.0  # while no consumer has: the listener sees everything that changes that


class TopicWaiter:
    """Waits for ticks that touch one topic. Create it before the look that may find nothing."""

    def __init__(self, mq: BaseClient, topic: str, group: str | None = None, consumer: str | None = None) -> None:
        """With `group` it also looks for messages in flight at other consumers of that group."""
        self._mq, self._topic, self._group, self._consumer = mq, topic, group, consumer
        self._woken = Event()
        self._backoff = Backoff(0.1)
        self._fruitless = 0  # waits since something was found
        self._woken_at = 0.0
        self._listener = mq._ticks()
        self._interest = self._listener.add(topic, waker(self._woken))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def wait(self, stop: Event | None = None, seconds: float | None = None) -> bool:
        """Return when there may be new messages, when `stop` is set, or after `seconds`.

        Returns whether there seem to be unread messages.
        """
        limit = _IDLE_PAUSE if seconds is None else max(0.0, seconds)
        await self._pause(stop, limit)
        # The pauses differ, so that thousands of consumers do not look at the same moment.
        spread = 1.0 if seconds is not None else random.uniform(0.8, 1.0)
        soon = min(limit, _BEHIND_PAUSE)
        await wait_any(self._woken, stop, soon * spread)
        ended = self._woken.is_set() or (stop is not None and stop.is_set())
        is_behind = not ended and limit > soon and await self._is_behind()
        if not ended and limit > soon and not is_behind:
            await wait_any(self._woken, stop, (limit - soon) * spread)
        unread = is_behind or self._woken.is_set()
        self._woken.clear()
        self._woken_at = time.monotonic()
        return unread

    async def _pause(self, stop: Event | None, limit: float) -> None:
        """Pause where the last wake was just now and brought nothing."""
        self._fruitless += 1
        pause = min(_FIRST_PAUSE * 2.0 ** min(self._fruitless - 2, 10), _LONGEST_PAUSE)
        left = min(self._woken_at + pause - time.monotonic(), limit)
        if self._fruitless < 2 or left <= 0:
            return
        if stop is not None:
            await wait_for(stop, left)
        else:
            await sleep(left)

    def failed(self) -> float:
        """How many seconds to pause after a failed iteration. Each one in a row makes it longer."""
        return self._backoff.next()

    def succeeded(self, found: int) -> None:
        """Make the next failure count as the first one. `found` is how many messages there were."""
        self._backoff.reset()
        if found:
            self._fruitless = 0

    def wake(self) -> None:
        """End a wait from outside."""
        self._woken.set()

    def close(self) -> None:
        """Stop being woken."""
        self._listener.remove(self._interest)

    async def _is_behind(self) -> bool:
        if self._group is None:
            return False
        try:
            return bool(scalar(await self._mq._rows(_BEHIND, _BEHIND.values(self._group, self._topic, self._consumer))))
        except Error:
            return True
