"""Waiting until a topic may have something: woken by this process's watcher of ticks, else by the clock."""

from __future__ import annotations

import random
from types import TracebackType
from typing import Self

from mqpg._async._io import Event, sleep, wait_any, wait_for, waker
from mqpg._async.core import Core
from mqpg._sql import statement
from mqpg.errors import Error

__all__ = ["Wake"]

# What a subscription has not settled: in flight at somebody else's, whose lease may lapse or whose transaction
# may roll back, which no tick announces. And a member that could not join its broadcast group yet, as that was paused
# or being changed: no position of it is there to be behind.
_BEHIND = statement("""
    select exists (
        select from mqpg.subscription_lag l
        where l.consumer_group = cast(%(consumer_group)s as text) and l.topic = cast(%(topic)s as text) and l.lag > 0)
    or exists (
        select from mqpg.subscription g
        join mqpg.topic t on t.topic_id = g.topic_id
        where g.consumer_group = cast(%(consumer_group)s as text) and t.name = cast(%(topic)s as text)
            and g.mode = 'broadcast' and g.member = '' and not exists (
                select from mqpg.subscription m
                where m.member_of = g.subscription_id and m.member = cast(%(consumer)s as text)))
""")

_FLOOR = 0.02  # between two looks, however often the appender calls
_BEHIND_PAUSE = 1.0  # while somebody else has something in flight
_IDLE_PAUSE = 300.0  # while nobody has: everything that changes that is seen by the watcher


class Wake:
    """Woken by ticks that touch one topic. Make it before the look that may find nothing."""

    def __init__(self, mq: Core, topic: str, group: str | None = None, consumer: str | None = None) -> None:
        """With a consumer group, what others have in flight is looked after too."""
        self._mq, self._topic, self._group, self._consumer = mq, topic, group, consumer
        self._woken = Event()
        self._failures = 0
        self._watch = mq._ticks()
        self._interest = self._watch.add(topic, waker(self._woken))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def wait(self, stop: Event | None = None, seconds: float | None = None) -> None:
        """Return when there may be something new, when `stop` is set, or after `seconds`."""
        limit = _IDLE_PAUSE if seconds is None else max(0.0, seconds)
        if stop is not None:
            await wait_for(stop, min(_FLOOR, limit))
        else:
            await sleep(min(_FLOOR, limit))
        if not self._woken.is_set() and limit > _BEHIND_PAUSE and await self._is_behind():
            limit = _BEHIND_PAUSE
        # Spread, so that thousands do not look at once.
        await wait_any(self._woken, stop, limit if seconds is not None else limit * random.uniform(0.8, 1.0))
        self._woken.clear()

    def failed(self) -> float:
        """How many seconds to pause after a round that failed: more after several in a row."""
        self._failures += 1
        return float(min(5.0, 0.05 * 2.0 ** min(self._failures, 10)))

    def succeeded(self) -> None:
        """The next failure is a first one."""
        self._failures = 0

    def wake(self) -> None:
        """End a wait from the outside."""
        self._woken.set()

    def close(self) -> None:
        """No longer be woken."""
        self._watch.remove(self._interest)

    async def _is_behind(self) -> bool:
        if self._group is None:
            return False
        values = {"consumer_group": self._group, "topic": self._topic, "consumer": self._consumer}
        try:
            return bool(await self._mq._value(_BEHIND, values))
        except Error:
            return True
