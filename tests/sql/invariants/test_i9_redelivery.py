"""I9: a message is redelivered only after the lease end, a nack or a release."""

import random
import time
from dataclasses import dataclass
from threading import Event, Lock
from typing import Any

import pytest

from tests.support.broker import Broker, Session, seconds, tolerating
from tests.support.waiting import eventually


def test_I9_nothing_comes_again_before_the_lease_ends(mq: Session, other: Session) -> None:
    mq.sent_batch("one", ["1"] * 5)
    start = time.monotonic()
    assert len(mq.receive("one", lease=seconds(0.3))) == 5
    again = eventually(lambda: other.receive("one"))
    assert time.monotonic() - start >= 0.3
    assert {m.attempt for m in again} == {2}


def test_I9_a_nacked_message_comes_again_after_its_delay_only(mq: Session) -> None:
    ids = mq.sent_batch("one", ["1"] * 3)
    receipt = mq.receive("one")[0].receipt
    start = time.monotonic()
    mq.nack(receipt, ids[:1], delay=seconds(0.2))
    mq.ack(receipt)
    (m,) = eventually(lambda: (mq.append(), mq.receive("one"))[1])
    assert time.monotonic() - start >= 0.2
    assert m.message_id == ids[0]


def test_I9_what_was_acked_never_comes_again(mq: Session) -> None:
    mq.sent_batch("one", ["1"] * 5)
    receipt = mq.receive("one", lease=seconds(0.01))[0].receipt
    mq.ack(receipt)
    mq.execute("select pg_sleep(0.03)")
    mq.append()
    assert mq.receive("one") == []


@dataclass
class Held:
    until: float  # monotonic; before that no other consumer may get it
    since: tuple[bool, int]  # by the retry lane, and the receipt's epoch: a later delivery has more
    done: bool = False


class Witness:
    """Watches deliveries to many consumers.

    No id may come twice while its lease runs, and none after its ack.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: dict[int, Held] = {}
        self.faults: list[str] = []
        self.acked: set[int] = set()

    def delivered(self, rows: list[object], asked_at: float, got_at: float, lease: float) -> None:
        """Note a delivery.

        Its lease began between `asked_at` and `got_at`, so it runs until asked_at + lease at least.
        """
        with self._lock:
            for m in rows:
                message_id = m.message_id  # type: ignore[attr-defined]
                held = self._held.get(message_id)
                since = (m.queue_id < 0, int(m.receipt.split(".")[2]))  # type: ignore[attr-defined]
                if held is not None and since < held.since:
                    continue  # reported so late that another consumer has taken it over meanwhile
                if held is not None and (held.done or got_at < held.until):
                    self.faults.append(f"{message_id} came again too early (acked: {held.done})")
                self._held[message_id] = Held(asked_at + lease, since)

    def freed(self, ids: list[int]) -> None:
        with self._lock:
            for i in ids:
                self._held[i].until = 0.0

    def finished(self, ids: list[int]) -> None:
        with self._lock:
            for i in ids:
                self._held[i].done = True
            self.acked.update(ids)


MODES: dict[str, dict[str, Any]] = {
    "exclusive": {},
    "shared": {"mode": "shared"},
    "filter": {"filter": "$ >= 0", "tags": ["yes"]},
    "shared filter": {"mode": "shared", "tags": ["yes"]},
    "block_key": {"on_failure": "block_key"},
    "block_queue": {"on_failure": "block_queue"},
}


def _kept(policy: str, got: list[Any], failed: list[Any]) -> list[int]:
    """Return what a delivery still has after its first messages, `failed`, were nacked.

    The others did not fail.
    """
    keys = {m.key for m in failed if m.key is not None}
    rest = got[len(failed) :] if policy != "block_queue" else []
    return [m.message_id for m in rest if policy != "block_key" or m.key not in keys]


def _consume(mq: Session, rng: random.Random, witness: Witness, stop: Event, policy: str = "skip") -> None:
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
                some = got[: max(1, len(ids) // 4)]
                kept = _kept(policy, got, some)
                witness.freed([i for i in ids if i not in kept])
                mq.nack(receipt, [m.message_id for m in some], delay=seconds(0))
                ids = kept
            elif fate < 0.6:
                witness.freed(ids)
                mq.call("release", receipt)
                continue
            if ids:
                mq.ack(receipt)
                witness.finished(ids)


@pytest.mark.parametrize("name", MODES)
def test_I9_no_early_redelivery_among_many_consumers(
    mq: Session, broker: Broker, rng: random.Random, name: str
) -> None:
    mq.call("unsubscribe", "g", "t")
    mq.call("subscribe", "g", "t", max_attempts=1000, **MODES[name])
    sent: set[int] = set()
    for _ in range(10):
        sent.update(mq.send_batch("t", ["1"] * 30, keys=[f"k{i % 7}" for i in range(30)], tags=["yes"] * 30))
        mq.send_batch("t", ["1"] * 5, tags=["no"] * 5 if "filter" in name else ["yes"] * 5)
    mq.append()
    if "filter" not in name:
        sent.update(
            r[0] for r in mq.rows("select (mqpg.fetch('t', q, 0, 1000)).message_id from generate_series(0, 3) q")
        )
    witness, stop = Witness(), Event()
    policy = MODES[name].get("on_failure", "skip")
    running = [
        broker.background(_consume, broker.session(), random.Random(rng.random()), witness, stop, policy)
        for _ in range(5)
    ]
    try:
        eventually(lambda: witness.acked == sent or any(f.done() for f in running))
    finally:
        stop.set()
    for f in running:
        f.result(45)
    assert witness.faults == []
    assert witness.acked == sent
