"""Rules of transactions: halves and their decisions, and transactions that stay open over many
calls.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import multiple, rule

from tests.stateful.machine import KEYS, LOCKED, PARTIES, Base, handles, seconds
from tests.stateful.model import Half, Message, Tx, message_id

__all__ = ["Transactions"]

GROUPS = st.sampled_from(["pg", "ledger", "polled", "polled_rollback"])
CHECK_AFTER = {"pg": 3600.0, "ledger": 0.01, "polled": 0.01, "polled_rollback": 0.01}


class Transactions(Base):
    """The first decision remains, and repetitions say so (I3)."""

    @rule(who=st.sampled_from(["ann", "bob", "kim"]), repeatable=st.sampled_from([False, False, True]))
    def begin(self, who: str, repeatable: bool) -> None:
        party = self.parties[who]
        if party.tx is not None:
            return
        party.connected()
        party.execute(f"begin isolation level {'repeatable read' if repeatable else 'read committed'}")
        if repeatable:
            party.execute("select 1 from mqpg.topic")
        party.tx = self.model.begin(repeatable=repeatable)

    @rule(who=st.sampled_from(["ann", "bob", "kim"]), commit=st.sampled_from([True, True, False]))
    def end_transaction(self, who: str, commit: bool) -> None:
        if self.parties[who].tx is not None:
            self.end(who, commit=commit)

    @rule(
        target=handles,
        who=PARTIES,
        group=GROUPS,
        keys=st.lists(KEYS, min_size=1, max_size=3),
        delay=st.sampled_from([None, None, 0.03]),
    )
    def prepare(self, who: str, group: str, keys: list[str | None], delay: float | None) -> Any:
        if self.closing(who):
            return multiple(*([""] * len(keys)))
        payloads = [self.payload() for _ in keys]
        named = {} if delay is None else {"delay": seconds(delay)}
        with self.calling(who) as (party, tx):
            before = self.now()
            if len(keys) == 1:
                rows = party.call("prepare", self.topic, str(payloads[0]), group, key=keys[0], **named)
            else:
                keyed = {"keys": keys} if any(keys) else {}
                rows = party.call("prepare_batch", self.topic, [str(p) for p in payloads], group, **keyed, **named)
            after = CHECK_AFTER[group]
            check_at = (before + after, self.now() + after + 0.1)  # entries go by tenths of a second
            for row, key, payload in zip(rows, keys, payloads, strict=True):
                message = Message(message_id(row[0]), key, payload)
                self.model.prepared(tx, Half(row[0], message, group, tx, check_at, delay))
        return multiple(*(row[0] for row in rows))

    def _blocked(self, half: Half, tx: Tx) -> bool:
        return self.model.locked(("op", half.message_id), tx)

    def unseen_half(self, half: Half, tx: Tx) -> bool:
        """Return whether the half was prepared by a transaction that this one cannot see.

        Its handle is then unknown.
        """
        made = half.prepared
        return made is not tx and (made.done is None or (tx.repeatable and made.done > tx.number))

    @rule(who=PARTIES, handle=handles, decision=st.sampled_from(["commit", "commit", "rollback"]), final=st.booleans())
    def decide(self, who: str, handle: str, decision: str, final: bool) -> None:
        half = self.model.halves.get(handle)
        if self.closing(who):
            return
        payload = self.payload() if final and decision == "commit" else None
        with self.calling(who) as (_, tx):
            arguments = (handle,) if payload is None else (handle, str(payload))
            if half is None or self.unseen_half(half, tx):
                answer = self.attempt(who, set(), decision, *arguments)
                assert isinstance(answer, str) or answer[0][0] == "unknown"
                return
            if self._blocked(half, tx):
                self.refused(who, {LOCKED}, decision, *arguments)
                return
            before = self.now()
            answer = self.attempt(who, set(), decision, *arguments)
            if isinstance(answer, str):
                return
            meant = "committed" if decision == "commit" else "rolled_back"
            assert answer[0][0] == self.model.outcome(half, meant), "I3"
            if half.decision is None:
                self.model.decide(tx, half, meant, payload, (before, self.now()))

    @rule(who=PARTIES, handle=handles, decision=st.sampled_from(["commit", "rollback"]), skipped=st.integers(0, 1))
    def decide_together(self, who: str, handle: str, decision: str, skipped: int) -> None:
        """Half messages that one call prepared without keys are in one record batch."""
        half = self.model.halves.get(handle)
        if half is not None:
            batch = sorted(
                (other.message_id, name)
                for name, other in self.model.halves.items()
                if other.message_id // 1024 == half.message_id // 1024
            )
            self.decide_batch(who, [name for _, name in batch][skipped:], decision, False)

    @rule(
        who=PARTIES,
        some=st.lists(handles, max_size=5),
        decision=st.sampled_from(["commit", "rollback"]),
        final=st.booleans(),
    )
    def decide_batch(self, who: str, some: list[str], decision: str, final: bool) -> None:
        """A batch is decided in the order of message ids.

        A handle that is named twice is decided once.
        """
        if self.closing(who):
            return
        payloads = [self.payload() if final and n % 2 else None for n in range(len(some))]
        with self.calling(who) as (_, tx):
            known = {h: self.model.halves[h] for h in some if h in self.model.halves}
            seen = {h: half for h, half in known.items() if not self.unseen_half(half, tx)}
            arguments: tuple[object, ...] = (some,)
            if decision == "commit" and final and some:
                arguments = (some, [None if p is None else str(p) for p in payloads])
            if any(self._blocked(half, tx) for half in seen.values()):
                self.refused(who, {LOCKED}, f"{decision}_batch", *arguments)
                return
            before = self.now()
            rows = self.attempt(who, set(), f"{decision}_batch", *arguments)
            if isinstance(rows, str):
                return
            now = (before, self.now())
            meant = "committed" if decision == "commit" else "rolled_back"
            assert [row[0] for row in rows] == some
            first: dict[str, str] = {}
            for n, handle in enumerate(some):
                if handle not in seen:
                    expected = "unknown"
                elif handle in first:
                    expected = f"already_{first[handle].removeprefix('already_')}"
                else:
                    expected = first[handle] = self.model.outcome(seen[handle], meant)
                assert rows[n][1] == expected, "I3"
            news = [h for h in first if seen[h].decision is None]
            for handle in sorted(news, key=lambda h: seen[h].message_id):
                self.model.decide(tx, seen[handle], meant, payloads[some.index(handle)], now)
