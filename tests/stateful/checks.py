"""Rules of check-backs: local transactions, the compensator with its fence, due_checks, parked halves."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.stateful.machine import LOCKED, PARTIES, RACED, handles, seconds
from tests.stateful.model import Half, Span, Tx
from tests.stateful.transactions import Transactions

__all__ = ["Checks", "MAX_CHECKS"]

_DECIDED = "select message_id, op::text, decided_by from mqpg.op_log where stage = 0 and message_id = any(%s)"
_PARKED = "select handle from mqpg.half_parked where topic = %s"
MAX_CHECKS = 2


class Checks(Transactions):
    """A verdict is final.

    What a fence rolled back never commits, and a local transaction is never overruled.
    """

    @rule(who=st.sampled_from(["ann", "bob", "kim", "main"]), handle=handles)
    def local_begin(self, who: str, handle: str) -> None:
        """Write the ledger row, in a transaction that stays open and may commit late or never."""
        half = self.model.halves.get(handle)
        if self.closing(who):
            return
        with self.calling(who) as (_, tx):
            if half is None or self.unseen_half(half, tx):
                # An old snapshot cannot tell a handle of an open transaction from a newer one.
                stale = {RACED} if tx.repeatable else set()
                self.refused(who, {"MQ006"} | stale | (set() if handle else {"MQ001"}), "local_begin", handle)
            elif self.model.locked(("ledger", handle), tx):
                self.refused(who, {LOCKED}, "local_begin", handle)
            elif half.ledger is not None:
                self.refused(
                    who, {"MQ017" if half.ledger == "fence" else "MQ018"} | self._raced(tx), "local_begin", handle
                )
            elif half.decision is not None and not self._hides_decision(half, tx):
                self.refused(who, {"MQ018"}, "local_begin", handle)
            elif not isinstance(self.attempt(who, {"MQ018"} if tx.repeatable else set(), "local_begin", handle), str):
                half.ledger = "local"
                tx.locks.add(("ledger", handle))
                tx.undo.append(lambda: setattr(half, "ledger", None))

    def _raced(self, tx: Tx) -> set[str]:
        return {"40001", "P0002"} if tx.repeatable else set()

    def _hides_decision(self, half: Half, tx: Tx) -> bool:
        """Return whether the decision is another open transaction's, or newer than the snapshot."""
        return tx.repeatable or self.model.locked(("op", half.message_id), tx)

    def _open_halves(self, *groups: str) -> list[Half]:
        """Return the undecided halves that the compensator can see."""
        return [
            half
            for half in self.model.halves.values()
            if half.decision is None and half.prepared.done is not None and half.group in groups
        ]

    @rule(rarely=st.integers(0, 1))
    def compensate(self, rarely: int) -> None:
        """Compensate with the ledger in this database.

        A local row commits, an open one makes it wait, and without a row the half is fenced and
        rolled back.
        """
        if rarely:
            return
        halves = self._open_halves("ledger")
        with self.calling("main") as (party, tx):
            before = self.now()
            party.call("compensate", 10000)
            at = (before, self.now())
            decided = self._decided(halves)
            for half in sorted(halves, key=lambda half: half.message_id):
                self._checked(tx, half, decided.get(half.message_id), at)

    def _in_the_way(self, half: Half, tx: Tx) -> bool:
        """Return whether the half's local transaction or a decision over it is open."""
        return self.model.locked(("ledger", half.handle), tx) or self.model.locked(("op", half.message_id), tx)

    def _decided(self, halves: list[Half]) -> dict[int, Any]:
        return {row[0]: row for row in self.mq.rows(_DECIDED, [half.message_id for half in halves])}

    def _checked(self, tx: Tx, half: Half, row: Any, at: Span) -> None:
        waits = self._in_the_way(half, tx)
        if row is None:
            overdue = half.check_at[1] <= at[0]
            assert waits or self.model.locked("append", tx) or not overdue, (
                f"an overdue half was not decided: {half.handle}, ledger {half.ledger}"
            )
            if overdue or half.check_at[0] <= at[1]:  # asked: back-off
                half.asked += 1
                pause = 0.01 * 2 ** (half.asked - 1)
                half.check_at = (half.check_at[0], at[1] + max(pause * 2, 0.1))
            return
        assert half.check_at[0] <= at[1], "checked before it was overdue"
        assert not waits, "decided while its local transaction was open"
        expected = "c" if half.ledger == "local" else "b"
        assert (row[1], row[2]) == (expected, "checker"), f"{row} with ledger {half.ledger}"
        if half.ledger is None:
            half.ledger = "fence"
        self.model.decide(tx, half, "committed" if expected == "c" else "rolled_back", None, at)

    # apps that poll

    @rule(
        who=PARTIES,
        group=st.sampled_from(["polled", "polled_rollback"]),
        lease=st.sampled_from([0.01, 600.0]),
        answer=st.sampled_from(["commit", "rollback", "wait", "nothing"]),
    )
    def due_checks(self, who: str, group: str, lease: float, answer: str) -> None:
        """due_checks hands out what is overdue.

        Each hand-out is a check, unless it is answered with wait in time.
        """
        if self.in_transaction() and self.parties[who].tx is not None:
            return
        halves = self._open_halves(group)
        with self.calling(who) as (party, tx):
            before = self.now()
            rows = party.call("due_checks", group, 10000, seconds(lease))
            at = (before, self.now())
            mine = [row for row in rows if row.topic == self.topic]
            for row in mine:
                half = self.model.halves[row.handle]
                # A decision that is not committed yet is not seen. The answer then waits for it.
                pending = self.model.locked(("op", half.message_id), tx)
                assert half in halves or pending, "a decided half was handed out"
                assert half.check_at[0] <= at[1], "handed out before it was overdue"
                assert (row.payload, row.key) == (half.payload, half.message.key)
                assert row.attempt == half.checks + 1 <= MAX_CHECKS
                half.checks += 1
                half.check_at = (at[0] + lease, at[1] + lease)
            self._exhausted(tx, group, {row.handle for row in mine}, halves, at)
        for row in mine:
            self._answer(who, row.handle, answer, lease)

    def _exhausted(self, tx: Tx, group: str, given: set[str], halves: list[Half], at: Span) -> None:
        """Halves that were asked about often enough are parked, or fenced and rolled back.

        The others had to be handed out.
        """
        decided = self._decided(halves)
        parked = {row[0] for row in self.mq.rows(_PARKED, self.topic)}
        for half in halves:
            if half.handle in given:
                continue
            gone = half.message_id in decided or half.handle in parked
            if half.parked:
                assert gone, "a parked half is gone"
                continue
            if not gone:
                busy = self._in_the_way(half, tx) or self.model.locked("append", tx)
                assert busy or half.check_at[1] > at[0], f"an overdue half was not handed out: {half.handle}"
                half.check_at = (half.check_at[0], max(half.check_at[1], at[1] + 1.0) if busy else half.check_at[1])
                continue
            assert half.checks >= MAX_CHECKS, "given up too early"
            assert half.check_at[0] <= at[1]
            if group == "polled":
                half.parked = True
                continue
            half.ledger = half.ledger or "fence"
            meant = "committed" if half.ledger == "local" else "rolled_back"
            assert decided[half.message_id][1] == meant[0].replace("r", "b"), "I3"
            self.model.decide(tx, half, meant, None, at)

    def _answer(self, who: str, handle: str, answer: str, lease: float) -> None:
        half = self.model.halves[handle]
        if answer == "wait":
            with self.calling(who) as (_, tx):
                before = self.now()
                if self.model.locked(("op", half.message_id), tx):
                    return
                self.attempt(who, set(), "check_wait", handle, seconds(0.02))
                at = (before, self.now())
                half.check_at = (at[0] + 0.02, at[1] + 0.02)
                half.asked += 1
                if lease > 1:
                    half.checks -= 1
                else:  # it may have come too late to count
                    checks = "select checks from mqpg._check_count(%s)"
                    half.checks = self.mq.scalar(checks, half.message_id)
        elif answer != "nothing":
            self.decide(who, handle, answer, False)

    # parked ones

    @rule(handle=handles)
    def rearm(self, handle: str) -> None:
        half = self.model.halves.get(handle)
        with self.calling("main") as (_, tx):
            if half is None or self.unseen_half(half, tx):
                self.refused("main", {"MQ006", "MQ001"}, "rearm", handle)
            elif half.decision is not None or not half.parked:
                self.refused("main", {"MQ018"} | ({LOCKED} if self.model.open[1:] else set()), "rearm", handle)
            else:
                self.attempt("main", set(), "rearm", handle)
                half.parked, half.checks = False, 0
                half.check_at = (0.0, self.now())

    @rule(who=PARTIES, handle=handles, verdict=st.sampled_from(["commit", "rollback"]))
    def settle(self, who: str, handle: str, verdict: str) -> None:
        """An administrator's decision counts like any other one, and the first decision remains."""
        half = self.model.halves.get(handle)
        tx = self.parties[who].tx
        if half is None or tx is not None:
            return
        with self.calling(who) as (_, tx):
            if self.unseen_half(half, tx):
                return
            if self.model.locked(("op", half.message_id), tx):
                self.refused(who, {LOCKED}, "settle", handle, verdict, "said so")
                return
            before = self.now()
            rows = self.attempt(who, set(), "settle", handle, verdict, "said so")
            assert not isinstance(rows, str)
            meant = "committed" if verdict == "commit" else "rolled_back"
            assert rows[0][0] == self.model.outcome(half, meant), "I3"
            if half.decision is None:
                self.model.decide(tx, half, meant, None, (before, self.now()))
