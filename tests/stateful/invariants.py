"""What holds after each step, and what must come out at the end of a history."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis.stateful import invariant

from tests.sql.harness import HOT_TABLES, eventually
from tests.stateful.appender import Appender, appended
from tests.stateful.machine import Base
from tests.stateful.model import Lane, Sub

__all__ = ["Invariants"]

_LAG = """
select l.queue_id, l.committed, l.next_offset, l.claims from mqpg.subscription_lag l
where l.topic = %s and l.consumer_group = %s order by l.queue_id
"""
_TOUCHED = """
select relname, n_tup_upd, n_tup_del from pg_stat_user_tables
where schemaname = 'mqpg' and relname ~ %s and n_tup_upd + n_tup_del > 0
"""


class Invariants(Appender):
    """Cheap looks at the tables, against the model."""

    def lag(self, group: str) -> list[Any]:
        return self.mq.rows(_LAG, self.topic, group)

    @invariant()
    def cursors_are_where_they_should_be(self) -> None:
        """I7: a position is what the model says, which moves forward only."""
        Base.steps += 1
        for group, sub in self.model.subs.items():
            for row in self.lag(group):
                self._position(sub, row)

    def _position(self, sub: Sub, row: Any) -> None:
        lane = sub.lanes[row.queue_id]
        if self.model.locked(("cursor", sub.subscription_id, lane.queue_id), None):
            return
        assert row.committed == lane.committed, f"{sub.group} queue {row.queue_id}: {row}, not {lane.committed}"
        assert row.next_offset == len(self.model.rows(lane)), "I4"

    def the_end(self) -> None:
        """Everybody goes home, and everything that was committed comes out once."""
        for name in self.in_transaction():
            self.end(name, commit=False)
        for handle in [h for h, half in self.model.halves.items() if half.decision is None]:
            self.decide_alone(handle)
        self._append_all()
        queues = appended(self.mq, self.topic)
        oldest = {row.queue_id: row.oldest_offset for row in self.depth()}
        for queue_id, queue in enumerate(self.model.queues):
            assert queues.get(queue_id, []) == [m.message_id for m in queue[oldest[queue_id] :]], "I4, I5"
        for sub in self.model.subs.values():
            self._drain(sub)
        self.mq.call("drop_topic", self.topic, force=True)

    def depth(self) -> list[Any]:
        return self.mq.rows("select * from mqpg.queue_depth where topic = %s", self.topic)

    def decide_alone(self, handle: str) -> None:
        outcome = self.mq.rollback(handle)
        assert outcome == "rolled_back", f"I3: {outcome} of an undecided half"

    def _append_all(self) -> None:
        def done() -> bool:
            self.append("main", None)
            return not self.model.waiting

        eventually(done, timeout=10)

    def _left(self, sub: Sub) -> Counter[int]:
        """The messages that a subscription has yet to deliver."""
        left: Counter[int] = Counter()
        for lane in sub.lanes.values():
            rows = self.model.rows(lane)
            left.update(rows[offset].message_id for offset in lane.cells)
            left.update(message.message_id for message in rows[lane.claimed :])
        return left

    def _drain(self, sub: Sub) -> None:
        """Each message that was not settled comes, from its front on; what was settled never does."""
        for lane in sub.lanes.values():
            self._free(sub, lane)
        owner = {"consumer": "z"} if sub.mode == "pinned" else {}
        expected, got = self._left(sub), Counter[int]()
        dead = len(sub.dead)
        while rows := self.mq.call("receive", sub.group, self.topic, max_messages=1000, **owner):
            got.update(row.message_id for row in rows)
            self.mq.ack(rows[0].receipt)
        sql = "select message_id from mqpg.dead_letter where subscription_id = %s"
        buried = [row[0] for row in self.mq.rows(sql, sub.subscription_id)]
        assert len(buried) >= dead
        got.update(message_id for message_id in buried if message_id not in sub.dead)
        assert got == expected, f"I12: {sub.group} got {got - expected} too much and {expected - got} not"

    def _free(self, sub: Sub, lane: Lane) -> None:
        for claim in lane.claims:
            if claim.state == "open" and claim.offsets:
                self.mq.call("release", claim.receipt)
        if lane.owner is not None:
            self.mq.call("unpin", sub.group, self.topic, queue_id=lane.queue_id)


def rewritten(session: Any) -> list[tuple[str, int, int]]:
    """I10: hot tables that saw an UPDATE or a DELETE, by the server's own statistics."""
    pattern = f"^({'|'.join(HOT_TABLES)})(_[0-9]+)?$"
    return [tuple(row) for row in session.rows(_TOUCHED, pattern)]
