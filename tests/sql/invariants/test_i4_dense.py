"""I4 dense: the offsets of a queue are 0..n-1, no gap, no repeat."""

import random
from collections import defaultdict

from tests.support.broker import Broker, Session, positions, seconds
from tests.support.history import run_history


def assert_dense(mq: Session, topic: str) -> None:
    queues: dict[int, list[int]] = defaultdict(list)
    for queue_id, offset, _ in positions(mq, topic):
        queues[queue_id].append(offset)
    for queue_id, offsets in queues.items():
        assert offsets == list(range(len(offsets))), f"queue {queue_id}"


def test_I4_offsets_are_dense_after_a_random_history(mq: Session, broker: Broker, rng: random.Random) -> None:
    history = run_history(broker, rng, "t")
    assert len(positions(mq, "t")) == len(history.ids)
    assert_dense(mq, "t")


def test_I4_fetch_sees_the_same_dense_offsets(mq: Session, broker: Broker, rng: random.Random) -> None:
    run_history(broker, rng, "t", producers=4, steps=10)
    expected = positions(mq, "t")
    got: list[tuple[int, int, int]] = []
    for queue_id in range(4):
        position = 0
        while rows := mq.call("fetch", "t", queue_id, position, rng.randint(1, 200)):
            got += [(m.queue_id, m.queue_offset, m.message_id) for m in rows]
            position = rows[-1].queue_offset + 1
    assert got == expected


def test_I4_rolled_back_transactions_and_halves_leave_no_gap(mq: Session) -> None:
    for i in range(30):
        with mq.transaction() as tx:
            mq.send("one", "1")
            mq.send_batch("one", ["1"] * 5)
            tx.force_rollback = i % 3 == 0
        handle = mq.prepare("one", "1")
        if i % 2:
            mq.rollback(handle)
        else:
            mq.commit(handle)
        mq.append()
    assert len(positions(mq, "one")) == 20 * 6 + 15
    assert_dense(mq, "one")


def test_I4_a_rolled_back_pass_leaves_no_gap(mq: Session) -> None:
    for i in range(6):
        mq.send_batch("one", ["1"] * 3)
        with mq.transaction() as tx:
            mq.append()
            tx.force_rollback = i % 2 == 0
    mq.append()
    assert len(positions(mq, "one")) == 18
    assert_dense(mq, "one")


def test_I4_retry_lanes_are_dense_too(mq: Session) -> None:
    mq.subscribed("s", retry_delay=seconds(0))
    ids = mq.send_batch("s", ["1"] * 10)
    offsets = []
    mq.append()
    for _ in range(3):
        got = mq.receive("s")
        if got[0].queue_id == -1:
            offsets += [m.queue_offset for m in got]
        mq.nack(got[0].receipt, [m.message_id for m in got], delay=seconds(0))
        mq.append()
    offsets += [m.queue_offset for m in mq.drain("s")]
    assert offsets == list(range(3 * len(ids)))
