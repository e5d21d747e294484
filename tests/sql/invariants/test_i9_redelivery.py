"""I9: redelivered only after lease end or nack (or release)."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from threading import Event, Lock

from tests.sql.harness import Broker, Session, eventually, seconds, tolerating


def test_I9_nothing_comes_again_before_the_lease_ends(mq: Session, broker: Broker) -> None:
    other = broker.session()
    mq.send_batch("one", ["1"] * 5)
    mq.append()
    start = time.monotonic()
    assert len(mq.receive("one", lease=seconds(0.3))) == 5
    again = eventually(lambda: other.receive("one"))
    assert time.monotonic() - start >= 0.3
    assert {m.attempt for m in again} == {2}


def test_I9_a_nacked_message_comes_again_after_its_delay_only(mq: Session) -> None:
    ids = mq.send_batch("one", ["1"] * 3)
    mq.append()
    receipt = mq.receive("one")[0].receipt
    start = time.monotonic()
    mq.nack(receipt, ids[:1], delay=seconds(0.2))
    mq.ack(receipt)
    (m,) = eventually(lambda: (mq.append(), mq.receive("one"))[1])
    assert time.monotonic() - start >= 0.2
    assert m.message_id == ids[0]


def test_I9_what_was_acked_never_comes_again(mq: Session) -> None:
    mq.send_batch("one", ["1"] * 5)
    mq.append()
    receipt = mq.receive("one", lease=seconds(0.01))[0].receipt
    mq.ack(receipt)
    mq.execute("select pg_sleep(0.03)")
    mq.append()
    assert mq.receive("one") == []


@dataclass
class Held:
    until: float  # monotonic; before that nobody else may get it
    done: bool = False


class Witness:
    """Watches deliveries to many consumers: no id twice while its lease runs, none after its ack."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: dict[int, Held] = {}
        self.faults: list[str] = []
        self.acked: set[int] = set()

    def delivered(self, rows: list[object], asked_at: float, got_at: float, lease: float) -> None:
        """The lease began between `asked_at` and `got_at`: it surely runs until asked_at + lease."""
        with self._lock:
            for m in rows:
                message_id = m.message_id  # type: ignore[attr-defined]
                held = self._held.get(message_id)
                if held is not None and (held.done or got_at < held.until):
                    self.faults.append(f"{message_id} came again too early (acked: {held.done})")
                self._held[message_id] = Held(asked_at + lease)

    def freed(self, ids: list[int]) -> None:
        with self._lock:
            for i in ids:
                self._held[i].until = 0.0

    def finished(self, ids: list[int]) -> None:
        with self._lock:
            for i in ids:
                self._held[i].done = True
            self.acked.update(ids)


def _consume(mq: Session, rng: random.Random, witness: Witness, stop: Event) -> None:
    while not stop.is_set():
        lease = rng.choice([0.02, 0.05, 5.0])
        asked = time.monotonic()
        got = mq.receive("t", max_messages=rng.randint(1, 30), lease=seconds(lease))
        witness.delivered(got, asked, time.monotonic(), lease)
        if not got:
            mq.append()
            continue
        ids, receipt = [m.message_id for m in got], got[0].receipt
        fate = rng.random()
        if lease < 1 and fate < 0.3:
            continue  # forget it: the lease must end first
        with tolerating("MQ008", "MQ009"):
            if fate < 0.5:
                some = ids[: max(1, len(ids) // 4)]
                witness.freed(some)
                mq.nack(receipt, some, delay=seconds(0))
                ids = ids[len(some) :]
            elif fate < 0.6:
                witness.freed(ids)
                mq.call("release", receipt)
                continue
            if ids:
                mq.ack(receipt)
                witness.finished(ids)


def test_I9_no_early_redelivery_among_many_consumers(mq: Session, broker: Broker, rng: random.Random) -> None:
    mq.call("unsubscribe", "g", "t")
    mq.call("subscribe", "g", "t", max_attempts=1000)
    sent: set[int] = set()
    for _ in range(15):
        sent.update(mq.send_batch("t", ["1"] * 30))
    mq.append()
    witness, stop = Witness(), Event()
    running = [
        broker.background(_consume, broker.session(), random.Random(rng.random()), witness, stop) for _ in range(5)
    ]
    try:
        eventually(lambda: witness.acked == sent or any(f.done() for f in running), timeout=30)
    finally:
        stop.set()
    for f in running:
        f.result(10)
    assert witness.faults == []
    assert witness.acked == sent
