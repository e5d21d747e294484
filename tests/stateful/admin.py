"""Rules of administration: subscriptions, the keeper."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.stateful.invariants import Invariants
from tests.stateful.machine import LOCKED, QUEUES, seconds
from tests.stateful.model import Lane, Sub

__all__ = ["Admin"]

MODES = ("exclusive", "pinned")
RETRY_DELAY = 0.01


class Admin(Invariants):
    """Changes that come and go while everything else goes on."""

    @initialize()
    def begin_history(self) -> None:
        self.mq.call("create_topic", self.topic, queues=QUEUES)
        for mode, most in (("exclusive", 1000), ("pinned", 1000), ("exclusive", 3)):
            self._subscribe(f"{mode}{most}", mode, "earliest", most)

    def _subscribe(self, group: str, mode: str, start: str, most: int) -> None:
        named = {"mode": mode, "start": start, "max_attempts": most, "retry_delay": seconds(RETRY_DELAY)}
        self.mq.call("subscribe", group, self.topic, **named)
        sql = "select subscription_id from mqpg.subscription join mqpg.topic using (topic_id) where name = %s"
        number = self.mq.scalar(f"{sql} and consumer_group = %s", self.topic, group)
        sub = self.model.subs[group] = Sub(group, self.topic, mode, most, number, made=self.model.stamp())
        for row in self.lag(group):
            rows = [] if row.queue_id < 0 else self.model.queues[row.queue_id]
            sub.lanes[row.queue_id] = Lane(sub, row.queue_id, row.committed)
            if start == "latest":
                assert row.committed == len(rows)

    @rule(mode=st.sampled_from(MODES), start=st.sampled_from(["earliest", "latest"]), most=st.sampled_from([2, 1000]))
    def subscribe(self, mode: str, start: str, most: int) -> None:
        group = f"late-{mode}"
        if group not in self.model.subs:
            self._subscribe(group, mode, start, most)

    @rule(mode=st.sampled_from(MODES))
    def unsubscribe(self, mode: str) -> None:
        """What it held is gone; receipts of it belong to nobody."""
        group = f"late-{mode}"
        sub = self.model.subs.get(group)
        if sub is None:
            return
        busy = any(self.model.locked(("cursor", sub.subscription_id, queue_id), None) for queue_id in sub.lanes)
        with self.calling("main"):
            answer = self.attempt("main", {LOCKED} if busy else set(), "unsubscribe", group, self.topic)
        if answer == LOCKED:
            return
        sub.gone = True
        del self.model.subs[group]
        self.model.waiting = [item for item in self.model.waiting if item.sub is not sub]

    @rule(rarely=st.integers(0, 7), old=st.booleans())
    def keep(self, rarely: int, old: bool) -> None:
        """A pass of the keeper; `old`: everything in use counts as old enough to be closed, and is past retention."""
        if rarely:
            return
        if old:
            self._age("0 s")
        try:
            for _ in range(2 if old else 1):
                self.mq.call("keep")
        finally:
            if old:
                self._age("6 hours", "7 days")

    def _age(self, age: str, retention: str = "0 s") -> None:
        sql = "update mqpg.settings set value = %s where name in ('segment_age', 'cursor_slot_age')"
        self.mq.execute(sql, age)
        self.mq.execute("update mqpg.topic set retention = %s::interval where name = %s", retention, self.topic)
