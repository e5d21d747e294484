"""I7: a cursor moves forward."""

import random
from collections import defaultdict
from typing import Any

import pytest

from tests.support.broker import Broker, Session, seconds, tolerating


def assert_forward(mq: Session) -> int:
    """Assert that every cursor's versions are dense, and that neither committed nor claimed goes
    back. Returns the number of versions.
    """
    rows = mq.rows("select subscription_id, queue_id, version, committed, claimed from mqpg.cursor order by 1, 2, 3")
    last: dict[tuple[int, int], tuple[int, int, int]] = defaultdict(lambda: (0, 0, 0))
    for r in rows:
        version, committed, claimed = last[r.subscription_id, r.queue_id]
        assert r.version == version + 1
        assert r.committed >= committed
        assert r.claimed >= claimed
        assert r.committed <= r.claimed
        last[r.subscription_id, r.queue_id] = (r.version, r.committed, r.claimed)
    return len(rows)


MODES: dict[str, dict[str, Any]] = {
    "exclusive": {},
    "shared": {"mode": "shared"},
    "broadcast": {"mode": "broadcast"},
    "filter": {"tags": ["yes"]},
    "shared filter": {"mode": "shared", "tags": ["yes"]},
    "block_key": {"on_failure": "block_key"},
    "block_queue": {"on_failure": "block_queue"},
}


def _feed(mq: Session) -> None:
    mq.sent_batch("t", ["1"] * 20, keys=[f"k{i % 7}" for i in range(20)], tags=["yes", "no"] * 10)


def _consume(mq: Session, rng: random.Random, steps: int) -> None:
    """Take every possible action in any order, including late ones and ones that are refused."""
    consumer = rng.choice(["me", "you"])
    for _ in range(steps):
        lease = seconds(rng.choice([0.01, 30]))
        got = mq.receive("t", max_messages=rng.randint(1, 20), lease=lease, consumer=consumer)
        if not got:
            _feed(mq)
            continue
        receipt, some = got[0].receipt, rng.sample(got, max(1, len(got) // 3))
        action = rng.randrange(6)
        with tolerating("MQ008", "MQ009"):
            if action == 0:
                mq.ack(receipt, through=rng.choice(got).queue_offset)
            elif action == 1:
                mq.nack(receipt, [m.message_id for m in some], delay=seconds(0))
            elif action == 2:
                mq.call("release", receipt)
                continue
            elif action == 3:
                mq.call("extend", receipt, seconds(0.01))
            elif action == 4:
                with mq.transaction(force_rollback=True):
                    mq.ack(receipt)
            mq.ack(receipt)


@pytest.mark.parametrize("name", MODES)
def test_I7_cursors_move_forward_under_concurrent_consumers(
    mq: Session, broker: Broker, rng: random.Random, name: str
) -> None:
    mq.call("unsubscribe", "g", "t")
    mq.call("subscribe", "g", "t", max_attempts=4, retry_delay=seconds(0), **MODES[name])
    for _ in range(20):
        _feed(mq)
    running = [broker.background(_consume, broker.session(), random.Random(rng.random()), 40) for _ in range(5)]
    for f in running:
        f.result(60)
    assert assert_forward(mq) > 100


def test_I7_release_lets_no_position_go_back(mq: Session) -> None:
    mq.sent_batch("one", ["1"] * 10)
    receipt = mq.receive("one", max_messages=5)[0].receipt
    mq.ack(receipt, through=2)
    mq.call("release", receipt)
    assert_forward(mq)
    assert [m.queue_offset for m in mq.receive("one", max_messages=3)] == [3, 4]


def test_I7_an_acked_message_never_comes_again(mq: Session) -> None:
    mq.sent_batch("one", ["1"] * 30)
    done: list[int] = []
    while got := mq.receive("one", max_messages=7):
        middle = got[len(got) // 2]
        mq.ack(got[0].receipt, through=middle.queue_offset)
        done += [m.queue_offset for m in got if m.queue_offset <= middle.queue_offset]
        if middle is not got[-1]:
            mq.call("release", got[0].receipt)
    assert done == list(range(30))
    assert_forward(mq)
