"""A random history of calls on several connections against a model of the queue: I1 to I5, I8 and I9.

Hypothesis finds a short failing history by itself. Each run is new; MQPG_TEST_SEED repeats one.
"""

from __future__ import annotations

import os
import secrets
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.fixtures.databases import Databases
from tests.fixtures.server import Server
from tests.sql.harness import Broker, positions, seconds
from tests.stateful.model import Half, Held, Model

KEYS = st.sampled_from([None, "a", "b"])
EXAMPLES, STEPS = 40, 30


class QueueMachine(RuleBasedStateMachine):
    """Sends, halves, decisions, passes and consumers; two of the sessions hold transactions open."""

    broker: Broker
    run = 0

    handles: Bundle[str] = Bundle("handles")
    receipts: Bundle[str] = Bundle("receipts")

    @initialize()
    def begin(self) -> None:
        """A topic of its own for each history, on one database."""
        QueueMachine.run += 1
        self.topic = f"t{QueueMachine.run}"
        self.sessions = [self.broker.session() for _ in range(3)]
        self.mq = self.sessions[0]
        self.mq.call("create_topic", self.topic, queues=2)
        self.mq.call("subscribe", "g", self.topic, max_attempts=1000, retry_delay=seconds(0))
        self.model = Model()
        self.expired: set[str] = set()
        self.counter = 0
        self.open: dict[int, list[tuple[int, str | None, int]]] = {}  # by session: its uncommitted sends

    def teardown(self) -> None:
        for session in getattr(self, "sessions", []):
            session.conn.close()

    def _payload(self) -> int:
        self.counter += 1
        return self.counter

    # sends

    @rule(key=KEYS)
    def send(self, key: str | None) -> None:
        payload = self._payload()
        self.model.committed(self.mq.send(self.topic, str(payload), key=key), key, payload)

    @rule(keys=st.lists(KEYS, max_size=5))
    def send_batch(self, keys: list[str | None]) -> None:
        payloads = [self._payload() for _ in keys]
        ids = self.mq.send_batch(self.topic, [str(p) for p in payloads], keys=keys)
        assert len(set(ids)) == len(keys)
        for message_id, key, payload in zip(ids, keys, payloads, strict=True):
            self.model.committed(message_id, key, payload)

    @rule(who=st.sampled_from([1, 2]), key=KEYS)
    def send_in_an_open_transaction(self, who: int, key: str | None) -> None:
        session, payload = self.sessions[who], self._payload()
        if who not in self.open:
            session.execute("begin")
        message_id = session.send(self.topic, str(payload), key=key)
        self.open.setdefault(who, []).append((message_id, key, payload))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), commit=st.booleans())
    def end_a_transaction(self, data: st.DataObject, commit: bool) -> None:
        who = data.draw(st.sampled_from(sorted(self.open)))
        sent = self.open.pop(who)
        self.sessions[who].execute("commit" if commit else "rollback")
        for message in sent if commit else []:
            self.model.committed(*message)

    # halves

    @rule(target=handles, key=KEYS)
    def prepare(self, key: str | None) -> str:
        payload = self._payload()
        handle = self.mq.prepare(self.topic, str(payload), key=key)
        self.model.halves[handle] = Half(int(handle.split(".")[2]), key, payload=payload)
        return handle

    @rule(handle=handles, final=st.booleans())
    def commit(self, handle: str, final: bool) -> None:
        payload = self._payload() if final else None
        expected = self.model.decide(handle, "committed", payload)
        assert self.mq.commit(handle, *([str(payload)] if final else [])) == expected

    @rule(handle=handles)
    def rollback(self, handle: str) -> None:
        assert self.mq.rollback(handle) == self.model.decide(handle, "rolled_back", None)

    @rule(some=st.lists(handles, max_size=4, unique=True))
    def commit_batch(self, some: list[str]) -> None:
        in_id_order = sorted(some, key=lambda h: self.model.halves[h].message_id)
        expected = {h: self.model.decide(h, "committed", None) for h in in_id_order}
        assert {r.handle: r.outcome for r in self.mq.call("commit_batch", some)} == expected

    # passes

    @rule(most=st.sampled_from([None, None, 1, 3]))
    def append(self, most: int | None) -> None:
        """A cut pass moves a part; then one without a limit moves the rest."""
        moved = self.mq.append(*([most] if most else [])) + (self.mq.append() if most else 0)
        assert moved >= self.model.appended()

    # consumption

    @rule(target=receipts, most=st.integers(1, 6), lease=st.sampled_from([0.01, 600]))
    def receive(self, most: int, lease: float) -> str:
        got = self.mq.receive(self.topic, max_messages=most, lease=seconds(lease))
        if not got:
            return ""
        ids = [m.message_id for m in got]
        assert len({m.receipt for m in got}) == len({m.queue_id for m in got}) == 1
        assert not set(ids) & self.model.done, "an acknowledged message came again"
        assert set(ids) <= self.model.visible(), "seen early"
        for m in got:
            assert (m.payload, m.key) == (self.model.payloads[m.message_id], self.model.keys[m.message_id])
        self._take_over(got)
        held = Held(ids, {m.message_id: m.queue_offset for m in got}, got[0].queue_id)
        self.model.held[got[0].receipt] = held
        if lease < 1:
            self.mq.execute("select pg_sleep(0.012)")
            self.expired.add(got[0].receipt)
        return str(got[0].receipt)

    def _take_over(self, got: list[Any]) -> None:
        """Whoever held these before must have lost the lease; what was given up comes by the retry lane."""
        for m in got:
            if m.queue_id == -1:
                self.model.nacked.pop(m.message_id, None)
            for receipt, held in list(self.model.held.items()):
                if m.message_id in held.ids:
                    assert receipt in self.expired, "came again before its lease ended"
                    del self.model.held[receipt]

    @rule(receipt=receipts)
    def ack(self, receipt: str) -> None:
        held = self.model.held.get(receipt)
        if held is None:
            self._refused(receipt)
            return
        self.mq.ack(receipt)
        self.model.done |= set(held.ids)
        del self.model.held[receipt]

    @rule(receipt=receipts, data=st.data())
    def ack_through(self, receipt: str, data: st.DataObject) -> None:
        held = self.model.held.get(receipt)
        if held is None:
            return
        through = data.draw(st.sampled_from([held.offsets[i] for i in held.ids]))
        self.mq.ack(receipt, through=through)
        ids = [i for i in held.ids if held.offsets[i] <= through]
        self.model.done |= set(ids)
        self.model.settle(receipt, ids)

    @rule(receipt=receipts, data=st.data())
    def nack(self, receipt: str, data: st.DataObject) -> None:
        held = self.model.held.get(receipt)
        if held is None:
            return
        ids = data.draw(st.lists(st.sampled_from(held.ids), min_size=1, unique=True))
        self.mq.nack(receipt, ids, delay=seconds(0))
        for message_id in ids:
            self.model.nacked[message_id] = 1
        self.model.settle(receipt, ids)

    @rule(receipt=consumes(receipts))
    def release(self, receipt: str) -> None:
        if receipt not in self.model.held:
            self._refused(receipt)
            return
        self.mq.call("release", receipt)
        del self.model.held[receipt]

    def _refused(self, receipt: str) -> None:
        """I8: an old receipt changes nothing and errors."""
        if not receipt:
            return
        before = self.mq.scalar("select count(*) from mqpg.cursor")
        with pytest.raises(Exception) as caught:
            self.mq.ack(receipt)
        assert caught.value.sqlstate in ("MQ008", "MQ009")  # type: ignore[attr-defined]
        assert self.mq.scalar("select count(*) from mqpg.cursor") == before

    # what holds at any moment

    @invariant()
    def offsets_are_dense_and_each_message_has_one(self) -> None:
        if not hasattr(self, "model"):
            return
        found = positions(self.mq, self.topic)
        offsets: dict[int, list[int]] = defaultdict(list)
        for queue_id, offset, _ in found:
            offsets[queue_id].append(offset)
        assert all(o == list(range(len(o))) for o in offsets.values()), "I4"
        assert Counter(m for _, _, m in found) == Counter(self.model.visible()), "I1, I2, I5"
        place = {m: (q, o) for q, o, m in found}
        for key in ("a", "b"):
            mine = [place[m] for m in self.model.order if self.model.keys[m] == key and m in place]
            assert len({q for q, _ in mine}) <= 1, "one key, one queue"


@pytest.fixture(scope="module")
def machine(server: Server, databases: Databases, template: str) -> Iterator[type[QueueMachine]]:
    name = databases.create(template)
    QueueMachine.broker = Broker(server.dsn(name))
    QueueMachine.broker.session().call("create_producer_group", "pg")
    yield QueueMachine
    QueueMachine.broker.close()
    databases.drop(name)


def test_a_random_history_agrees_with_the_model(machine: type[QueueMachine]) -> None:
    seed = int(os.environ.get("MQPG_TEST_SEED") or secrets.randbits(32))
    print(f"MQPG_TEST_SEED={seed}")
    settings = hypothesis.settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    seeded = hypothesis.seed(seed)(machine)
    run_state_machine_as_test(seeded, settings=settings)
