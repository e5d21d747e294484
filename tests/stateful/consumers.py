"""Rules of consumers: receive, ack, nack, extend, release, unpin, fetch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.stateful.machine import LOCKED, PARTIES, QUEUES, Base, receipts, seconds
from tests.stateful.model import Cell, Claim, Item, Lane, Span, Sub, Tx

__all__ = ["Consumers"]

LEASES = st.sampled_from([0.01, 0.01, 600.0])
OWNERS = st.sampled_from(["x", "y"])
WHICH = st.integers(0, 1000)  # picks from what there is; drawn so that no bound depends on the clock
STALE = {"MQ008", "MQ009"}


_LOCKED_BY_OTHERS = """
select count(*) > 0 from pg_locks l
where l.locktype = 'advisory' and l.classid = 1836150833 and l.objid = %s and l.pid <> all (%s)
    and l.database = (select d.oid from pg_database d where d.datname = current_database())
"""


def one_of(subs: dict[str, Sub], which: int) -> Sub:
    return subs[sorted(subs)[which % len(subs)]]


class Consumers(Base):
    """Nobody gets what another holds (I9), old receipts are refused (I8), done is done."""

    # receive

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
        """Always a receipt, be it empty: how many there are to choose from must not depend on the clock."""
        sub = one_of(self.model.subs, which)
        if self.closing(who):
            return ""
        named: dict[str, object] = {"consumer": owner} if sub.mode == "pinned" else {}
        if queue_id is not None:
            named["queue_id"] = queue_id
        with self.calling(who) as (party, tx):
            if self._unseen_sub(sub, tx):
                return ""
            before = self.now()
            rows = self.attempt(
                who, set(), "receive", sub.group, self.topic, max_messages=most, lease=seconds(lease), **named
            )
            if isinstance(rows, str):
                return ""
            at = (before, self.now())
            self._buried(party, tx, sub, at)
            if not rows:
                if not tx.repeatable:
                    self._nothing_to_be_had(tx, sub, owner, queue_id, at)
                return ""
            self._given(tx, sub, rows, owner, (at[0] + lease, at[1] + lease), at, most)
        return str(rows[0].receipt)

    def _unseen_sub(self, sub: Sub, tx: Tx) -> bool:
        return tx.repeatable and sub.made > tx.begun

    def _buried(self, party: Any, tx: Tx, sub: Sub, at: Span) -> None:
        """Messages whose attempts a lease used up are dead letters now."""
        sql = "select message_id from mqpg.dead_letter where subscription_id = %s"
        found = {row[0] for row in party.run(lambda session: session.rows(sql, sub.subscription_id))}
        assert tx.repeatable or not sub.dead - found, "a dead letter is gone"
        for message_id in found - sub.dead:
            lane, offset = next(
                (lane, offset)
                for lane in sub.lanes.values()
                for offset, cell in lane.cells.items()
                if self.model.rows(lane)[offset].message_id == message_id
                and self.model.attempt(lane, offset) > sub.max_attempts
                and (cell.claim is None or not self._held(cell.claim, lane, at))
            )
            self.model.touch(tx, lane)
            del lane.cells[offset]
            self._die(tx, sub, message_id)

    def _held(self, claim: Claim, lane: Lane, at: Span) -> bool:
        """Whether the claim certainly kept others away; its owner takes a pinned one over at once."""
        return claim.state == "open" and claim.end[0] > at[1] and lane.owner is None

    def _die(self, tx: Tx, sub: Sub, message_id: int) -> None:
        sub.dead.add(message_id)
        tx.undo.append(lambda: sub.dead.discard(message_id))

    def _given(self, tx: Tx, sub: Sub, rows: list[Any], owner: str, end: Span, at: Span, most: int) -> None:
        lane = sub.lanes[rows[0].queue_id]
        offsets = [row.queue_offset for row in rows]
        assert len({(row.receipt, row.queue_id) for row in rows}) == 1
        assert len(rows) <= most
        assert not self.model.locked(self._lock(lane), tx), "given out while another transaction holds the queue"
        for row in rows:
            assert row.queue_offset < len(self.model.rows(lane)), f"I2: {row} is not appended"
            message = self.model.rows(lane)[row.queue_offset]
            assert (row.message_id, row.payload, row.key) == (message.message_id, message.payload, message.key)
            assert row.attempt == self.model.attempt(lane, row.queue_offset) <= sub.max_attempts, "attempts"
        if any(row.attempt == sub.max_attempts for row in rows):
            assert len(rows) == 1, "the last attempt is delivered alone"
        self._allowed(lane, offsets, owner, at)
        self.model.touch(tx, lane)
        claim = Claim(rows[0].receipt, lane, end)
        self.model.claims[claim.receipt] = claim
        for offset in offsets:
            old = lane.cells.get(offset)
            if old is not None and old.claim is not None:
                self._take_over(old.claim)
            lane.cells[offset] = Cell(old.tries + 1 if old is not None else 1, claim)
        lane.claims.append(claim)
        lane.claimed = max(lane.claimed, offsets[-1] + 1)
        lane.owner = owner if sub.mode == "pinned" else None

    def _allowed(self, lane: Lane, offsets: list[int], owner: str, at: Span) -> None:
        """I9, and order: what was given back or ran out comes first, from the front."""
        assert lane.owner in (None, owner), "pinned to somebody else"
        for claim in lane.claims:
            assert not self._held(claim, lane, at), "I9: the queue has an open claim"
        waiting = sorted(lane.cells)
        expected = waiting[: len(offsets)] if waiting else list(range(lane.claimed, lane.claimed + len(offsets)))
        assert offsets == expected, f"out of order: {offsets}, not {expected}"

    def _take_over(self, claim: Claim) -> None:
        """Its receipt is stale; what it held besides is free."""
        claim.state = "stale"
        for cell in claim.lane.cells.values():
            if cell.claim is claim:
                cell.claim = None

    def _nothing_to_be_had(self, tx: Tx, sub: Sub, owner: str, queue_id: int | None, at: Span) -> None:
        for lane in sub.lanes.values():
            if queue_id not in (None, lane.queue_id) or lane.owner not in (None, owner):
                continue
            if self._cursor_locked(lane, tx):
                continue
            if lane.owner is None and any(claim.alive(at[0]) for claim in lane.claims):
                continue
            left = [o for o in lane.cells if self.model.attempt(lane, o) <= sub.max_attempts]
            fresh = not lane.cells and len(self.model.rows(lane)) > lane.claimed
            has = left or fresh
            assert not has, f"{sub.group} gets nothing of queue {lane.queue_id}, which has {left or 'more'}"

    def _lock(self, lane: Lane) -> tuple[str, int, int]:
        return ("cursor", lane.sub.subscription_id, lane.queue_id)

    def _cursor_locked(self, lane: Lane, tx: Tx) -> bool:
        """Whether somebody else holds the lock; an open receive that got nothing may hold some that it looked at."""
        if self.model.locked(self._lock(lane), tx):
            return True
        if not [other for other in self.model.open if other is not tx]:
            return False
        mine = [party.session.pid for party in self.parties.values() if party.tx is tx and party.session is not None]
        key = lane.sub.subscription_id * 1024 + lane.queue_id + 1
        return bool(self.mq.scalar(_LOCKED_BY_OTHERS, key, mine))

    # settling

    def _settle(
        self, who: str, receipt: str, function: str, *args: object, effect: Callable[[Tx, Claim], None]
    ) -> None:
        """One call with a receipt: refused where it is old (I8), else its effect."""
        claim = self.model.claims.get(receipt)
        if claim is None or self.closing(who):
            return
        lane = claim.lane
        with self.calling(who) as (_, tx):
            if claim.lane.sub.gone:
                self.refused(
                    who, {"MQ007"} | ({"MQ008", "MQ009"} if tx.repeatable else set()), function, receipt, *args
                )
                return
            if self._cursor_locked(lane, tx):
                self.refused(who, {LOCKED, "MQ007"}, function, receipt, *args)
                return
            if claim.state != "open":
                codes = STALE | ({"MQ007"} if claim.state == "void" or tx.repeatable else set())
                if tx.repeatable:
                    self._refused_or_raced(who, codes, function, receipt, *args)
                else:
                    self.refused(who, codes, function, receipt, *args)
                return
            answer = self.attempt(who, {"MQ007"} if tx.repeatable else set(), function, receipt, *args)
            if not isinstance(answer, str):
                self.model.touch(tx, lane)
                effect(tx, claim)
                if not claim.offsets:
                    claim.state = "spent"

    def _refused_or_raced(self, who: str, codes: set[str], function: str, *args: object) -> None:
        """An old snapshot may show the claim as it was: then the write fails (40001), or nothing was to be written."""
        answer = self.attempt(who, codes, function, *args)
        assert isinstance(answer, str), f"I8: {function}{args} was accepted"

    @rule(who=PARTIES, receipt=receipts)
    def ack(self, who: str, receipt: str) -> None:
        def effect(tx: Tx, claim: Claim) -> None:
            for offset in claim.offsets:
                del claim.lane.cells[offset]

        self._settle(who, receipt, "ack", effect=effect)

    @rule(who=PARTIES, receipt=receipts, which=WHICH)
    def ack_through(self, who: str, receipt: str, which: int) -> None:
        if not receipt:
            return
        first, until = (int(part) for part in receipt.split(".")[3:])
        through = first + which % (until - first)

        def effect(tx: Tx, claim: Claim) -> None:
            for offset in claim.offsets:
                if offset <= through:
                    del claim.lane.cells[offset]

        self._settle(who, receipt, "ack", through, effect=effect)

    @rule(who=PARTIES, receipt=receipts, which=WHICH, delay=st.sampled_from([None, 0.0, 0.02]))
    def nack(self, who: str, receipt: str, which: int, delay: float | None) -> None:
        """To the retry lane, or to the dead letters when that was the last attempt."""
        if not receipt:
            return
        claim = self.model.claims[receipt]
        lane, sub = claim.lane, claim.lane.sub
        rows = self.model.rows(lane)
        of = {rows[o].message_id: o for o in claim.offsets} if claim.state == "open" else {}
        ids = [i for n, i in enumerate(sorted(of)) if which >> n & 1] or sorted(of)[:1] or [1024]
        before = self.now()

        def effect(tx: Tx, claim: Claim) -> None:
            at = (before, self.now())
            for message_id in ids:
                offset = of[message_id]
                attempt = self.model.attempt(lane, offset) - 1
                message = rows[offset]
                del lane.cells[offset]
                if attempt >= sub.max_attempts:
                    self._die(tx, sub, message_id)
                    continue
                pause = 0.01 * 2 ** (attempt - 1) if delay is None else delay
                due = (at[0] + pause, at[1] + pause)
                self.model.wait(tx, Item(message, sub, attempt + 1, due))

        arguments: tuple[object, ...] = (ids, "said so", None if delay is None else seconds(delay))
        self._settle(who, receipt, "nack", *arguments, effect=effect)

    @rule(who=PARTIES, receipt=receipts, lease=LEASES)
    def extend(self, who: str, receipt: str, lease: float) -> None:
        before = self.now()

        def effect(tx: Tx, claim: Claim) -> None:
            claim.end = (before + lease, self.now() + lease)

        self._settle(who, receipt, "extend", seconds(lease), effect=effect)

    @rule(who=PARTIES, receipt=receipts)
    def release(self, who: str, receipt: str) -> None:
        """Free at once, and the attempt does not count."""

        def effect(tx: Tx, claim: Claim) -> None:
            for offset in claim.offsets:
                cell = claim.lane.cells[offset]
                cell.tries, cell.claim = cell.tries - 1, None

        self._settle(who, receipt, "release", effect=effect)

    @precondition(lambda self: any(sub.mode == "pinned" for sub in self.model.subs.values()))
    @rule(which=WHICH, who=PARTIES, owner=st.sampled_from([None, "x", "y"]))
    def unpin(self, which: int, who: str, owner: str | None) -> None:
        sub = one_of({group: sub for group, sub in self.model.subs.items() if sub.mode == "pinned"}, which)
        if self.closing(who):
            return
        named = {} if owner is None else {"consumer": owner}
        with self.calling(who) as (_, tx):
            if self._unseen_sub(sub, tx):
                return
            if any(self._cursor_locked(lane, tx) for lane in sub.lanes.values()):
                self.refused(who, {LOCKED}, "unpin", sub.group, self.topic, **named)
                return
            if isinstance(self.attempt(who, set(), "unpin", sub.group, self.topic, **named), str):
                return
            for lane in sub.lanes.values():
                self.model.touch(tx, lane)
                if lane.owner is None or (owner is not None and lane.owner != owner):
                    continue
                for claim in lane.claims:
                    if claim.state == "open":
                        self._take_over(claim)
                lane.owner = None

    # reading without a claim

    @rule(who=PARTIES, queue_id=st.integers(0, QUEUES - 1), which=WHICH, most=st.integers(1, 5))
    def fetch(self, who: str, queue_id: int, which: int, most: int) -> None:
        queue = self.model.queues[queue_id]
        if self.closing(who):
            return
        start = which % (len(queue) + 2)
        with self.calling(who) as (_, tx):
            if tx.repeatable:
                return
            oldest = self.mq.scalar(
                "select mqpg._oldest(topic_id, %s, 0) from mqpg.topic where name = %s", queue_id, self.topic
            )
            if not oldest <= start <= len(queue):
                self.refused(who, {"MQ013"}, "fetch", self.topic, queue_id, start, most)
                return
            rows = self.attempt(who, set(), "fetch", self.topic, queue_id, start, most)
            expected = [(m.message_id, m.payload, None) for m in queue[start : start + most]]
            assert [(r.message_id, r.payload, r.receipt) for r in rows] == expected  # type: ignore[union-attr]
