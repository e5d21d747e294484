"""Rules of what consumers do with a delivery: ack, nack, extend, release, unpin."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.stateful.consumers import LEASES, WHICH, Consumers, one_of
from tests.stateful.machine import LOCKED, PARTIES, receipts, seconds
from tests.stateful.model import Claim, Item, Lane, Span, Tx
from tests.stateful.producers import Producers

__all__ = ["Settling"]

STALE = {"MQ008", "MQ009"}
RETRY_DELAY = 0.01
_IN_NO_DELIVERY = 1024  # an id
HOW = st.sampled_from(["ack", "ack", "nack", "through", "singly", "release", "leave", "leave"])


class Settling(Consumers, Producers):
    """What is done remains done, and an old receipt changes nothing (I8). It errors, except that a delivery of which
    nothing is left may be acknowledged.
    """

    def _settle(
        self, who: str, receipt: str, function: str, *args: object, effect: Callable[[Tx, Claim], None]
    ) -> None:
        """Make one call with a receipt.

        It is refused where the receipt is old, and else has its effect.
        """
        claim = self.model.claims.get(receipt)
        if claim is None or self.closing(who):
            return
        lane = claim.lane
        with self.calling(who) as (_, tx):
            if lane.sub.gone:
                self.refused(who, {"MQ007"} | (STALE if tx.repeatable else set()), function, receipt, *args)
            elif self.cursor_locked(lane, tx):
                self.refused(who, {LOCKED, "MQ007"}, function, receipt, *args)
            elif claim.state != "open":
                self._refused(who, tx, claim, function, receipt, *args)
            else:
                may = (STALE if claim.doubtful else set()) | ({"MQ007"} if tx.repeatable else set())
                answer = self.attempt(who, may, function, receipt, *args)
                if isinstance(answer, str):
                    if answer in STALE:
                        self.model.touch(tx, lane)
                        self.take_over(claim)
                else:
                    self.model.touch(tx, lane)
                    effect(tx, claim)
                    if not claim.offsets:
                        claim.state = "released" if function == "release" else "spent"

    def acknowledged(self, who: str, lane: Lane, offsets: list[int]) -> None:
        """Called in the transaction that acknowledges these offsets, by whatever call does it."""

    def _refused(self, who: str, tx: Tx, claim: Claim, function: str, *args: object, **named: object) -> None:
        """Require that the call changes nothing, and is refused unless it acknowledges what is done.

        An old snapshot may show the claim as it was, and then the write fails (40001).
        """
        codes = STALE | ({"MQ007"} if claim.state == "void" or tx.repeatable else set())
        if tx.repeatable and [_IN_NO_DELIVERY] in args:  # such a snapshot shows that before anything is written
            codes |= {"MQ001"}
        before = self.mq.scalar("select count(*) from mqpg.cursor")
        answer = self.attempt(who, codes, function, *args, **named)
        if not isinstance(answer, str):
            assert (function, claim.state) == ("ack", "spent"), f"I8: {function}{args}{named} was accepted"
            self.model.touch(tx, claim.lane)
        assert self.mq.scalar("select count(*) from mqpg.cursor") == before, "I8: it was refused and changed something"

    @rule(who=PARTIES, receipt=receipts)
    def ack(self, who: str, receipt: str) -> None:
        def effect(tx: Tx, claim: Claim) -> None:
            for offset in claim.offsets:
                del claim.lane.cells[offset]

        self._settle(who, receipt, "ack", effect=effect)

    @rule(target=receipts, who=PARTIES, receipt=receipts, most=st.integers(1, 6), lease=LEASES)
    def ack_and_receive(self, who: str, receipt: str, most: int, lease: float) -> str:
        """One call ends a delivery and takes the next, or is refused and does neither."""
        claim = self.model.claims.get(receipt)
        tx = self.parties[who].tx
        if claim is None or self.closing(who) or claim.lane.sub.gone:
            return ""
        lane, group = claim.lane, self.model.subs.get(claim.lane.sub.group)
        if group is None or (tx is not None and (tx.repeatable or self.unseen_sub(group, tx))):
            return ""
        owner = lane.sub.name or lane.owner or "x"
        named: dict[str, object] = {"max_messages": most, "lease": seconds(lease), "ack": receipt}
        if group.mode in ("pinned", "broadcast"):
            named["consumer"] = owner
        with self.calling(who) as (_, tx):
            if self.cursor_locked(lane, tx):
                self.refused(who, {LOCKED, "MQ007"}, "receive", group.group, self.topic, **named)
                return ""
            if claim.state not in ("open", "spent"):
                self._refused(who, tx, claim, "receive", group.group, self.topic, **named)
                return ""
            before = self.now()
            may = STALE if claim.doubtful or claim.state == "spent" else set()
            rows = self.attempt(who, may, "receive", group.group, self.topic, **named)
            if claim.state == "open" or not isinstance(rows, str):
                self.model.touch(tx, lane)
            if isinstance(rows, str):
                if claim.state == "open":
                    self.take_over(claim)
                return ""
            if claim.state == "open":
                self.acknowledged(who, lane, sorted(claim.offsets))
                for offset in claim.offsets:
                    del lane.cells[offset]
                claim.state = "spent"
            return self.received(who, tx, group, rows, owner, None, most, lease, before)

    @rule(who=PARTIES, receipt=receipts, which=WHICH)
    def ack_through(self, who: str, receipt: str, which: int) -> None:
        if not receipt:
            return
        first, until = (int(part) for part in receipt.split(".")[3:5])
        through = first + which % (until - first)

        def effect(tx: Tx, claim: Claim) -> None:
            for offset in claim.offsets:
                if offset <= through:
                    del claim.lane.cells[offset]

        self._settle(who, receipt, "ack", through, effect=effect)

    @rule(who=PARTIES, receipt=receipts, which=WHICH)
    def ack_singly(self, who: str, receipt: str, which: int) -> None:
        """Only the chosen messages are done. Those before them stay claimed."""
        if not receipt:
            return
        first, until = (int(part) for part in receipt.split(".")[3:5])
        chosen = [o for n, o in enumerate(range(first, until)) if which >> n & 1] or [until - 1]

        def effect(tx: Tx, claim: Claim) -> None:
            for offset in claim.offsets:
                if offset in chosen:
                    del claim.lane.cells[offset]

        self._settle(who, receipt, "ack", None, chosen[::-1], effect=effect)

    @rule(who=PARTIES, receipt=receipts, which=WHICH, delay=st.sampled_from([None, 0.0, 0.02]))
    def nack(self, who: str, receipt: str, which: int, delay: float | None) -> None:
        """A nacked message goes to the retry lane or back to its place.

        After the last attempt it is a dead letter.
        """
        if not receipt:
            return
        claim = self.model.claims[receipt]
        rows = self.model.rows(claim.lane)
        held = sorted(rows[o].message_id for o in claim.offsets) if claim.state == "open" else []
        ids = [i for n, i in enumerate(held) if which >> n & 1] or held[:1] or [_IN_NO_DELIVERY]
        before = self.now()

        def effect(tx: Tx, claim: Claim) -> None:
            now = (before, self.now())
            if claim.lane.queue_id >= 0 and claim.lane.sub.on_failure != "skip":
                self._hold_back(tx, claim, ids, now, delay)
            else:
                self._give_up(tx, claim, ids, now, delay)

        self._settle(who, receipt, "nack", ids, "said so", None if delay is None else seconds(delay), effect=effect)

    def _due(self, now: Span, attempt: int, delay: float | None) -> Span:
        pause = RETRY_DELAY * 2 ** (attempt - 1) if delay is None else delay
        return (now[0] + pause, now[1] + pause)

    def _give_up(self, tx: Tx, claim: Claim, ids: list[int], now: Span, delay: float | None) -> None:
        lane, sub, rows = claim.lane, claim.lane.sub, self.model.rows(claim.lane)
        for offset in [o for o in claim.offsets if rows[o].message_id in ids]:
            attempt = self.model.attempt(lane, offset) - 1
            del lane.cells[offset]
            if attempt >= sub.max_attempts:
                self.model.die(tx, sub, rows[offset].message_id)
            else:
                self.model.wait(tx, Item(rows[offset], sub, attempt + 1, self._due(now, attempt, delay)))

    def _hold_back(self, tx: Tx, claim: Claim, ids: list[int], now: Span, delay: float | None) -> None:
        """Note that the message waits at its place.

        What must not overtake it is released with it, and its attempt does not count.
        """
        lane, sub, rows = claim.lane, claim.lane.sub, self.model.rows(claim.lane)
        by_key = sub.on_failure == "block_key"
        keys: set[str | None] = set()
        for offset in claim.offsets:
            message, cell = rows[offset], lane.cells[offset]
            behind = (message.key is not None and message.key in keys) if by_key else bool(keys)
            if not behind and message.message_id not in ids:
                continue
            if not behind and cell.tries >= sub.max_attempts:
                del lane.cells[offset]
                self.model.die(tx, sub, message.message_id)
                continue
            cell.claim = None
            cell.until = (0.0, 0.0) if behind and not by_key else self._due(now, cell.tries, delay)
            cell.tries -= behind
            keys.add(message.key)

    @rule(who=PARTIES, receipt=receipts, lease=LEASES)
    def extend(self, who: str, receipt: str, lease: float) -> None:
        before = self.now()

        def effect(tx: Tx, claim: Claim) -> None:
            claim.end = (before + lease, self.now() + lease)

        self._settle(who, receipt, "extend", seconds(lease), effect=effect)

    @rule(who=PARTIES, receipt=receipts)
    def release(self, who: str, receipt: str) -> None:
        """A released message is free at once, and the attempt does not count."""

        def effect(tx: Tx, claim: Claim) -> None:
            for offset in claim.offsets:
                cell = claim.lane.cells[offset]
                cell.tries, cell.claim = cell.tries - 1, None

        self._settle(who, receipt, "release", effect=effect)

    # what consumers do most of the time

    @precondition(lambda self: self.model.subs)
    @rule(target=receipts, which=WHICH, who=PARTIES, most=st.integers(1, 6), how=HOW, lease=LEASES)
    def consume(self, which: int, who: str, most: int, how: str, lease: float) -> Any:
        """Receive, then acknowledge, nack or release, or do nothing."""
        receipt = self.receive(which, who, most, lease, "xy"[which % 2], None)
        if receipt and how == "nack":
            self.nack(who, receipt, which, 0.0)
        elif receipt and how == "through":
            self.ack_through(who, receipt, which)
        elif receipt and how == "singly":
            self.ack_singly(who, receipt, which)
        elif receipt and how != "leave":
            {"ack": self.ack, "release": self.release}[how](who, receipt)
        return receipt

    @rule(target=receipts, which=WHICH, who=PARTIES, how=HOW)
    def send_and_consume(self, which: int, who: str, how: str) -> Any:
        """Send first, so that there is something to consume."""
        self.send_batch("main", [None, "a", "b", "a"][which % 3 :])
        self.append("main", None)
        return self.consume(which, who, 3, how, 600.0) if self.model.subs else ""

    @rule(which=WHICH, who=PARTIES, owner=st.sampled_from([None, "x", "y"]))
    def unpin(self, which: int, who: str, owner: str | None) -> None:
        pinned = {group: sub for group, sub in self.model.subs.items() if sub.mode == "pinned"}
        if not pinned:
            return
        sub = one_of(pinned, which)
        tx = self.parties[who].tx
        if self.closing(who) or (tx is not None and self.unseen_sub(sub, tx)):
            return
        named = {} if owner is None else {"consumer": owner}
        with self.calling(who) as (_, tx):
            if any(self.cursor_locked(lane, tx) for lane in sub.lanes.values()):
                self.refused(who, {LOCKED}, "unpin", sub.group, self.topic, **named)
                return
            if isinstance(self.attempt(who, set(), "unpin", sub.group, self.topic, **named), str):
                return
            for lane in sub.lanes.values():
                self.model.touch(tx, lane)
                if not lane.by_owner and (lane.owner is None or (owner is not None and lane.owner != owner)):
                    continue
                for claim in lane.claims:
                    if claim.state == "open" and (not lane.by_owner or owner in (None, claim.consumer)):
                        self.take_over(claim)
                lane.owner = None
