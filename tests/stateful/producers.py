"""Rules of producers: sends, delayed sends, dedup ids, recalls."""

from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import multiple, rule

from tests.stateful.appender import Appender
from tests.stateful.machine import DELAYS, KEYS, LOCKED, PARTIES, delayed, seconds
from tests.stateful.model import Message

__all__ = ["Producers"]

DEDUP = st.sampled_from(["x", "y", "z", "w"])


class Producers(Appender):
    """A sent message waits for the appender once its transaction has committed, and never before
    (I1, I2).
    """

    @rule(who=PARTIES, key=KEYS)
    def send(self, who: str, key: str | None) -> None:
        if self.closing(who):
            return
        payload = self.payload()
        with self.calling(who) as (party, tx):
            (row,) = party.call("send", self.topic, str(payload), key=key)
            self.model.sent(tx, Message(row[0], key, payload))

    @rule(who=PARTIES, keys=st.lists(KEYS, max_size=5))
    def send_batch(self, who: str, keys: list[str | None]) -> None:
        if self.closing(who):
            return
        payloads = [self.payload() for _ in keys]
        with self.calling(who) as (party, tx):
            ids = [r[0] for r in party.call("send_batch", self.topic, [str(p) for p in payloads], keys=keys)]
            assert len(set(ids)) == len(keys)
            for message_id, key, payload in zip(ids, keys, payloads, strict=True):
                self.model.sent(tx, Message(message_id, key, payload))

    @rule(target=delayed, who=PARTIES, key=KEYS, delay=DELAYS, n=st.integers(1, 3))
    def send_delayed(self, who: str, key: str | None, delay: float, n: int) -> Any:
        """A delay of 0 is no delay, and its message cannot be recalled."""
        if self.closing(who):
            return multiple(*([0] * n if delay else []))
        payloads = [self.payload() for _ in range(n)]
        with self.calling(who) as (party, tx):
            before = self.now()
            rows = party.call(
                "send_batch", self.topic, [str(p) for p in payloads], keys=[key] * n, delay=seconds(delay)
            )
            due = (before + delay, self.now() + delay)
            for row, payload in zip(rows, payloads, strict=True):
                self.model.sent(tx, Message(row[0], key, payload), due if delay else None)
        return multiple(*(row[0] for row in rows if delay))

    @rule(who=PARTIES, ids=st.lists(DEDUP, min_size=1, max_size=3), key=KEYS)
    def send_with_dedup_ids(self, who: str, ids: list[str], key: str | None) -> None:
        """A dedup id that is known stores nothing and returns the first message's id.

        A send waits for one that is pending. A purge may free the id of a message that nobody received.
        """
        if self.closing(who):
            return
        payloads = [self.payload() for _ in ids]
        with self.calling(who) as (_, tx):
            waits = any(self.model.locked(("dedup", i), tx) for i in ids)
            arguments = (self.topic, [str(p) for p in payloads])
            named = {"keys": [key] * len(ids), "dedup_ids": ids}
            if waits and not tx.repeatable:
                self.refused(who, {LOCKED}, "send_batch", *arguments, **named)
                return
            rows = self.attempt(who, {LOCKED} if waits else set(), "send_batch", *arguments, **named)
            if isinstance(rows, str):
                return
            for row, dedup_id, payload in zip(rows, ids, payloads, strict=True):
                known = self.model.dedup.get(dedup_id)
                if row[0] == known:
                    continue
                assert known is None or known in self.model.purged, "a dedup id stored twice"
                self.model.dedup[dedup_id] = row[0]
                tx.undo.append(partial(self.model.dedup.__setitem__, dedup_id, known))
                tx.locks.add(("dedup", dedup_id))
                self.model.sent(tx, Message(row[0], key, payload))

    @rule(who=PARTIES, message_id=delayed)
    def recall(self, who: str, message_id: int) -> None:
        """After true the message never comes, and after false it is appended.

        The recall waits for another open recall or call of the appender.
        """
        if self.closing(who):
            return
        message = self.model.messages.get(message_id)
        with self.calling(who) as (_, tx):
            if message is None:
                self.refused(who, {"MQ001"}, "recall", message_id)
                return
            assert message.tx is not None
            unseen = message.tx is not tx and (
                message.tx.done is None or (tx.repeatable and message.tx.done > tx.number)
            )
            if self.model.locked(("recall", message_id), tx):
                self.refused(who, {LOCKED, "MQ001"}, "recall", message_id)
                return
            waits = any(other.passed for other in self.model.open)
            answer = self.attempt(who, {"MQ001"} if unseen else {LOCKED} if waits else set(), "recall", message_id)
            if isinstance(answer, str):
                return
            done = message_id in self.model.recalled
            assert answer[0][0] is (message.offset is None), "recall says what is not so"
            if answer[0][0] and not done:
                self.model.recalled[message_id] = tx
                tx.undo.append(lambda: self.model.recalled.pop(message_id))
                tx.effects.append(lambda: self.model.recall_committed(message_id))
            tx.locks.add(("recall", message_id))
