"""Rules of consumers: receive in all modes, and fetch."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.stateful.delivery import check_given, must_be_had
from tests.stateful.machine import PARTIES, QUEUES, Base, receipts, seconds
from tests.stateful.model import Cell, Claim, Lane, Span, Sub, Tx

__all__ = ["Consumers", "LEASES", "WHICH", "one_of"]

LEASES = st.sampled_from([0.01, 0.01, 600.0])
OWNERS = st.sampled_from(["x", "y"])
WHICH = st.integers(0, 1000)  # picks from what there is; drawn so that no bound depends on the clock

_LOCKED_BY_OTHERS = """
select count(*) > 0 from pg_locks l
where l.locktype = 'advisory' and l.pid <> all (%s) and (
        (l.classid = 1836150833 and l.objid = %s)
        or (l.classid = 1836150843 and l.objid = %s / 1024 and l.mode = 'ExclusiveLock'))
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
"""
_DEAD = "select message_id from mqpg.dead_letter where subscription_id = %s"
_MEMBER = "select subscription_id from mqpg.subscription where consumer_group = %s and member = %s and topic_id = %s"


def one_of(subs: dict[str, Sub], which: int) -> Sub:
    return subs[sorted(subs)[which % len(subs)]]


class Consumers(Base):
    """No consumer gets what another one holds (I9), nor anything too early (I2), nor what is done,
    and some consumer gets it.
    """

    @precondition(lambda self: self.model.subs)
    @rule(
        target=receipts,
        which=WHICH,
        who=PARTIES,
        most=st.integers(1, 6),
        lease=LEASES,
        owner=OWNERS,
        queue_id=st.sampled_from([None, None, None, -1, 0, 1]),
    )
    def receive(self, which: int, who: str, most: int, lease: float, owner: str, queue_id: int | None) -> str:
        """A receive always gives a receipt, even an empty one, because the number of choices must
        not depend on the clock.
        """
        group = one_of(self.model.subs, which)
        tx = self.parties[who].tx
        if self.closing(who) or (tx is not None and self.unseen_sub(group, tx)):
            return ""
        named: dict[str, object] = {} if queue_id is None else {"queue_id": queue_id}
        if group.mode in ("pinned", "broadcast"):
            named["consumer"] = owner
        with self.calling(who) as (_, tx):
            before = self.now()
            rows = self.attempt(
                who, set(), "receive", group.group, self.topic, max_messages=most, lease=seconds(lease), **named
            )
            if isinstance(rows, str):
                return ""
            return self.received(who, tx, group, rows, owner, queue_id, most, lease, before)

    def received(
        self, who: str, tx: Tx, group: Sub, rows: list[Any], owner: str, queue_id: int | None, most: int,
        lease: float, before: float,
    ) -> str:  # fmt: skip
        """Compare what a receive gave with the model, and return the receipt."""
        at = (before, self.now())
        sub = self._positions(who, tx, group, owner)
        if self._stands_still(group, tx, sub):
            assert not rows, f"{group.group} is paused, or somebody joins it under that name"
        if sub is None or not (rows or not tx.repeatable):
            return ""
        self._buried(who, tx, sub, at)
        if rows:
            self._given(tx, sub, rows, owner, (at[0] + lease, at[1] + lease), at, most)
        elif not self._stands_still(group, tx, sub):
            self._nothing_to_be_had(tx, sub, owner, queue_id, at)
        self._perhaps_taken_over(sub, at)
        return str(rows[0].receipt) if rows else ""

    def unseen_sub(self, sub: Sub, tx: Tx) -> bool:
        """Return whether the subscription was made after the snapshot that the transaction reads."""
        return tx.repeatable and any(one.made > tx.number for one in [sub, *sub.members.values()])

    def _stands_still(self, group: Sub, tx: Tx, sub: Sub | None) -> bool:
        return not tx.repeatable and (group.paused or self.paused or sub is None)

    def _positions(self, who: str, tx: Tx, group: Sub, owner: str) -> Sub | None:
        """Return the subscription whose positions the call used.

        In a broadcast group it is the member's, which may have joined just now.
        """
        if group.mode != "broadcast":
            return group
        if owner in group.members:
            hidden = self.model.locked(("member", group.subscription_id, owner), tx)
            return None if hidden else group.members[owner]
        found = self.parties[who].run(lambda session: session.rows(_MEMBER, group.group, owner, self.topic_id))
        if not found:
            locked = self.model.locked(("member", group.subscription_id, owner), tx)
            assert group.paused or self.paused or locked or tx.repeatable, f"{owner} is not let into {group.group}"
            return None
        member = Sub(
            group.group, "broadcast", group.max_attempts, found[0][0], group.on_failure, group.every, name=owner
        )
        member.made = self.model.stamp()
        for queue_id, lane in group.lanes.items():
            start = 0 if queue_id < 0 else max(lane.claimed, self.oldest(queue_id))
            member.lanes[queue_id] = Lane(member, queue_id, start)
        group.members[owner] = member
        tx.undo.append(lambda: group.members.pop(owner))
        tx.locks.add(("member", group.subscription_id, owner))
        return member

    def _buried(self, who: str, tx: Tx, sub: Sub, at: Span) -> None:
        """Note that messages whose attempts a lease used up are dead letters now."""
        found = {row[0] for row in self.parties[who].run(lambda s: s.rows(_DEAD, sub.subscription_id))}
        known = self.model.dead_for(tx, sub)
        assert tx.repeatable or not known - found, "a dead letter is gone"
        for message_id in found - sub.dead:
            lane, offset = next(
                (lane, offset)
                for lane in sub.lanes.values()
                for offset, cell in lane.cells.items()
                if self.model.rows(lane)[offset].message_id == message_id
                and self.model.attempt(lane, offset) > sub.max_attempts
                and (cell.claim is None or cell.claim.end[0] <= at[1] or sub.mode == "pinned")
            )
            self.model.touch(tx, lane)
            claim = lane.cells.pop(offset).claim
            if claim is not None:
                self.take_over(claim)
            self.model.die(tx, sub, message_id)

    def _given(self, tx: Tx, sub: Sub, rows: list[Any], owner: str, end: Span, at: Span, most: int) -> None:
        lane = sub.lanes[rows[0].queue_id]
        offsets = [row.queue_offset for row in rows]
        assert len({(row.receipt, row.queue_id) for row in rows}) == 1
        assert len(rows) <= most
        lock = ("cursor", sub.subscription_id, lane.queue_id)
        assert not self.model.locked(lock, tx), "given out while another transaction holds the queue"
        assert lane.owner in (None, owner), "pinned to somebody else"
        for row in rows:
            assert row.queue_offset < len(self.model.rows(lane)), f"I2: {row} is not appended"
            message = self.model.rows(lane)[row.queue_offset]
            assert (row.message_id, row.payload, row.key) == (message.message_id, message.payload, message.key)
            assert row.attempt == self.model.attempt(lane, row.queue_offset) <= sub.max_attempts, "attempts"
        if any(row.attempt == sub.max_attempts for row in rows):
            assert len(rows) == 1, "the last attempt is delivered alone"
        check_given(self.model, lane, offsets, at, owner)
        self.model.touch(tx, lane)
        claim = Claim(rows[0].receipt, lane, end, consumer=owner)
        assert claim.receipt not in self.model.claims
        self.model.claims[claim.receipt] = claim
        for offset in offsets:
            old = lane.cells.get(offset)
            if old is not None and old.claim is not None:
                self.take_over(old.claim)
            lane.cells[offset] = Cell(old.tries + 1 if old is not None else 1, claim)
        lane.claims.append(claim)
        if lane.by_owner:
            self._owned(tx, lane, offsets, owner)
        elif sub.mode == "pinned":
            lane.owner = owner
        lane.claimed = max(lane.claimed, offsets[-1] + 1)

    def _owned(self, tx: Tx, lane: Lane, offsets: list[int], owner: str) -> None:
        """Note what others must fetch of the lane, and that retries bring their queues with them."""
        for offset in range(lane.claimed, offsets[-1] + 1):
            lane.cells.setdefault(offset, Cell(0, None))
        for offset in offsets:
            queue = self.model.queue_of(lane, offset)
            if queue.owner is None:
                self.model.touch(tx, queue)
                queue.owner = owner

    def take_over(self, claim: Claim) -> None:
        """Note that the claim's receipt is stale, and that what else it held is free."""
        claim.state = "stale"
        for cell in claim.lane.cells.values():
            if cell.claim is claim:
                cell.claim = None

    def _perhaps_taken_over(self, sub: Sub, at: Span) -> None:
        """Note that block_key packs expired claims again, whether it gives them out or not."""
        if sub.on_failure == "block_key":
            for claim in (claim for lane in sub.lanes.values() for claim in lane.claims):
                claim.doubtful = claim.doubtful or claim.end[0] <= at[1]

    def _nothing_to_be_had(self, tx: Tx, sub: Sub, owner: str, queue_id: int | None, at: Span) -> None:
        for lane in sub.lanes.values():
            if queue_id not in (None, lane.queue_id) or lane.owner not in (None, owner):
                continue
            if self.cursor_locked(lane, tx):
                continue
            left = must_be_had(self.model, lane, at, owner)
            assert not left, f"{sub.group} gets nothing of queue {lane.queue_id}, which has {left}"

    def cursor_locked(self, lane: Lane, tx: Tx) -> bool:
        """Return whether another transaction holds the lock.

        An open receive that got nothing may hold some that it looked at.
        """
        if self.model.locked(("cursor", lane.sub.subscription_id, lane.queue_id), tx):
            return True
        if not [other for other in self.model.open if other is not tx]:
            return False
        mine = [party.session.pid for party in self.parties.values() if party.tx is tx and party.session is not None]
        key = lane.sub.subscription_id * 1024 + lane.queue_id + 1
        return bool(self.mq.scalar(_LOCKED_BY_OTHERS, mine, key, key))

    @rule(who=PARTIES, queue_id=st.integers(0, QUEUES - 1), which=WHICH, most=st.integers(1, 5))
    def fetch(self, who: str, queue_id: int, which: int, most: int) -> None:
        """fetch is a pure read.

        All callers get the same offsets, and below the oldest one and beyond the tail an error.
        """
        queue = self.model.queues[queue_id]
        tx = self.parties[who].tx
        if self.closing(who) or (tx is not None and tx.repeatable):
            return
        start = which % (len(queue) + 2)
        with self.calling(who):
            if not self.oldest(queue_id) <= start <= len(queue):
                self.refused(who, {"MQ013"}, "fetch", self.topic, queue_id, start, most)
                return
            rows = self.attempt(who, set(), "fetch", self.topic, queue_id, start, most)
            expected = [(m.message_id, m.payload, None) for m in queue[start : start + most]]
            assert [(r.message_id, r.payload, r.receipt) for r in rows] == expected  # type: ignore[union-attr]

    def oldest(self, queue_id: int) -> int:
        sql = "select oldest_offset from mqpg.queue_depth where topic = %s and queue_id = %s"
        return int(self.mq.scalar(sql, self.topic, queue_id))
