"""What holds after each step, and what must come out at the end of a history."""

import time
from collections import Counter
from contextlib import nullcontext
from typing import Any

from hypothesis.stateful import invariant

from tests.stateful.appender import Appender, appended
from tests.stateful.machine import Base
from tests.stateful.model import Lane, Sub
from tests.support.broker import HOT_TABLES, tolerating
from tests.support.waiting import eventually

__all__ = ["Invariants"]

_LAG = """
select l.consumer_group, l.owner, l.mode, l.queue_id, l.committed, l.next_offset, l.claims
from mqpg.subscription_lag l where l.topic = %s
"""
_TOUCHED = """
select relname, n_tup_upd, n_tup_del from pg_stat_user_tables
where schemaname = 'mqpg' and relname ~ %s and n_tup_upd + n_tup_del > 0
"""


class Invariants(Appender):
    """Cheap comparisons of the tables with the model."""

    @invariant()
    def cursors_are_where_they_should_be(self) -> None:
        """Assert I7: a position is what the model says, and the model moves forward only."""
        Base.steps += 1
        subs = {(sub.group, sub.name): sub for sub in self.model.all_subs()}
        found = set()
        for row in self.mq.rows(_LAG, self.topic):
            name = row.owner if row.mode == "broadcast" else None
            found.add((row.consumer_group, name))
            self._position(subs[row.consumer_group, name], row)
        open_members = {(sub.group, sub.name) for sub in subs.values() if self.is_joining(sub)}
        assert found == set(subs) - open_members

    def is_joining(self, sub: Sub) -> bool:
        if sub.name is None:
            return False
        return self.model.locked(("member", self.model.subs[sub.group].subscription_id, sub.name), None)

    def _position(self, sub: Sub, row: Any) -> None:
        lane = sub.lanes[row.queue_id]
        rows = self.model.rows(lane)
        assert row.next_offset == len(rows), "I4"
        if self.model.locked(("cursor", sub.subscription_id, lane.queue_id), None):
            return
        highest = min(self.model.pending(lane), default=len(rows))
        where = f"{sub.group} queue {row.queue_id}: {row}, not {lane.committed} to {highest}"
        assert lane.committed <= row.committed <= highest, where
        if not lane.cells:  # the position moves over what a filter leaves out little by little
            lane.claimed = max(lane.claimed, row.committed)

    def finish(self) -> None:
        """End all transactions, decide all half messages, and append everything."""
        for name in self.in_transaction():
            self.end(name, commit=False)
        for handle in [h for h, half in self.model.halves.items() if half.decision is None]:
            self.decide_alone(handle)
        self._append_all()

    def the_end(self) -> None:
        """Require that everything that was committed comes out once."""
        self.finish()
        queues = appended(self.mq, self.topic)
        oldest = {row.queue_id: row.oldest_offset for row in self.depth()}
        for queue_id, queue in enumerate(self.model.queues):
            assert queues.get(queue_id, []) == [m.message_id for m in queue[oldest[queue_id] :]], "I4, I5"
        self.resume_all()
        for sub in self.model.all_subs():
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

        eventually(done)

    def resume_all(self) -> None:
        self.mq.call("resume", self.topic)
        for group in self.model.subs:
            self.mq.call("resume", self.topic, consumer_group=group)

    def _left(self, sub: Sub) -> Counter[int]:
        """Return the messages that a subscription has not delivered yet."""
        lanes = sub.lanes.values()
        return Counter(self.model.rows(lane)[o].message_id for lane in lanes for o in self.model.pending(lane))

    def _drain(self, sub: Sub) -> None:
        """Assert that each message that is not done comes, and that none that is done comes again."""
        for lane in sub.lanes.values():
            self.free(sub, lane)
        named = {"consumer": sub.name or "z"} if sub.mode in ("pinned", "broadcast") else {}
        expected, got = self._left(sub), Counter[int]()
        deadline = time.monotonic() + 45
        while got.total() < expected.total() and time.monotonic() < deadline:
            rows = self.mq.call("receive", sub.group, self.topic, max_messages=1000, **named)
            got.update(row.message_id for row in rows)
            if rows:
                self.mq.ack(rows[0].receipt)
            else:
                got.update(self._newly_dead(sub))
        assert got == expected, f"I12: {sub.group} got {got - expected} too much and {expected - got} not"
        assert self.mq.call("receive", sub.group, self.topic, **named) == []

    def _newly_dead(self, sub: Sub) -> list[int]:
        sql = "select message_id from mqpg.dead_letter where subscription_id = %s"
        dead = {row[0] for row in self.mq.rows(sql, sub.subscription_id)}
        new = list(dead - sub.dead)
        sub.dead |= dead
        return new

    def free(self, sub: Sub, lane: Lane) -> None:
        for claim in lane.claims:
            if claim.state == "open" and claim.offsets:
                with tolerating("MQ008", "MQ009") if claim.doubtful else nullcontext():
                    self.mq.call("release", claim.receipt)
        if lane.owner is not None:
            self.mq.call("unpin", sub.group, self.topic, queue_id=lane.queue_id)


def rewritten(session: Any) -> list[tuple[str, int, int]]:
    """Return the hot tables that saw an UPDATE or a DELETE, by the server's own statistics (I10)."""
    pattern = f"^({'|'.join(HOT_TABLES)})(_[0-9]+)?$"
    return [tuple(row) for row in session.rows(_TOUCHED, pattern)]
