"""Rules of the appender: calls that are whole or cut, alone or in a transaction that stays open."""

from collections import defaultdict
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.stateful.machine import LOCKED, PARTIES, Base
from tests.stateful.model import Item, Message, Span, Tx
from tests.support.broker import Session

__all__ = ["Appender"]

_NEW = """
select c.subscription_id, c.queue_id, c.base_offset + u.start + i as queue_offset, u.first_id + i as message_id,
    u.attempt
from mqpg.consume_queue c
cross join lateral unnest(c.first_ids, c.starts, c.attempts) with ordinality as u(first_id, start, attempt, nth)
cross join lateral generate_series(0, coalesce(c.starts[u.nth + 1], c.n) - u.start - 1) as i
where c.tick_id > %s and c.topic_id = (select t.topic_id from mqpg.topic t where t.name = %s)
order by c.subscription_id, c.queue_id, queue_offset
"""


class Appender(Base):
    """Offsets are dense (I4), each message has one (I5), in order (I6), and everything that waits
    comes (I1).
    """

    @rule(who=PARTIES, most=st.sampled_from([None, None, None, 1, 2, 5]))
    def append(self, who: str, most: int | None) -> None:
        party = self.parties[who]
        if self.closing(who) or self._not_here(who):
            return
        with self.calling(who) as (_, tx):
            if self.model.locked("append", tx):
                self.refused(who, {LOCKED}, "append")
                return
            tick = self.mq.scalar("select max(tick_id) from mqpg.tick")
            before = self.now()
            answer = self.attempt(who, set(), "append", *([] if most is None else [most]))
            at = (before, self.now())
            assert not isinstance(answer, str)
            new = party.run(lambda session: session.rows(_NEW, tick, self.topic))
            moved = answer[0][0]
            assert moved >= len(new)
            new = [row for row in new if row.subscription_id not in self.model.gone]
            assert moved or not self.model.due_items(at)[0], "a pass moved nothing of what waits"
            self._placed(tx, new, at, whole=most is None)
            if party.tx is not None:
                tx.passed = True
                tx.locks.add("append")

    def _not_here(self, who: str) -> bool:
        """The appender needs a READ COMMITTED transaction of its own.

        A transaction that has only read may still become it.
        """
        party = self.parties[who]
        if party.tx is None:
            return False
        written = party.run(lambda session: session.scalar("select pg_current_xact_id_if_assigned() is not null"))
        if party.tx.repeatable or written:
            self.refused(who, {"MQ015"}, "append")
            return True
        return False

    def _placed(self, tx: Tx, new: list[Any], at: Span, *, whole: bool) -> None:
        """Assert that the new rows are what had to come.

        Others see them when the call has committed.
        """
        must, may = self.model.due_items(at)
        places: list[tuple[Item, Any]] = []
        for row in new:
            item = next((i for i in may if self._names(i, row)), None)
            assert item is not None, f"I2, I5: {row} was appended and nothing like it waits"
            may.remove(item)
            places.append((item, row))
        taken = [item for item, _ in places]
        missing = [item.message.message_id for item in must if item not in taken]
        assert not (whole and missing), f"I1: {missing} were not appended"

        def at_commit() -> None:
            self.model.waiting = [item for item in self.model.waiting if item not in taken]
            for item, row in places:
                self._place(item, row)

        tx.effects.append(at_commit)
        self._put_off(at)

    def _names(self, item: Item, row: Any) -> bool:
        sub = item.sub.subscription_id if item.sub is not None else 0
        return item.message.message_id == row.message_id and sub == row.subscription_id

    def _place(self, item: Item, row: Any) -> None:
        message = item.message
        if item.sub is not None:
            assert row.queue_offset == len(item.sub.retries), "I4: retry lane"
            assert row.attempt == item.attempt
            item.sub.retries.append((message, item.attempt))
            return
        queue = self.model.queues[row.queue_id]
        assert row.queue_offset == len(queue), f"I4: {row} behind {len(queue)}"
        self._in_order(queue, message)
        queue.append(message)
        message.offset = (row.queue_id, row.queue_offset)

    def _in_order(self, queue: list[Message], message: Message) -> None:
        """Assert I6 against what already has its place.

        Delayed messages are ordered by when they are due.
        """
        assert message.tx is not None
        if message.delayed or message.key is None:
            return
        for other in queue:
            if other.key != message.key or other.delayed:
                continue
            assert other.tx is not None
            assert message.tx.done is not None
            assert message.tx.done > other.tx.begun, "I6: it had committed before the other took its xid"
            assert other.tx is not message.tx or other.place < message.place, "I6: order within a transaction"
        places = [q for q, m in enumerate(self.model.queues) for n in m if n.key == message.key]
        assert set(places) <= {self.model.queues.index(queue)}, "one key, one queue"

    def _put_off(self, at: Span) -> None:
        """Note that the message of an open recall was postponed by a second."""
        for item in self.model.waiting:
            if item.sub is None and item.message.message_id in self.model.recalled and item.due[0] <= at[1]:
                item.due = (item.due[0], at[1] + 1.05)


def appended(session: Session, topic: str) -> dict[int, list[int]]:
    """Return the message ids of each queue of the topic in offset order, read from the table."""
    queues: dict[int, list[int]] = defaultdict(list)
    for row in session.rows(_NEW, 0, topic):
        if row.subscription_id == 0:
            queues[row.queue_id].append(row.message_id)
    return queues
