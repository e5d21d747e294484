"""I3 under a race: sessions decide the same record batches whole, in part and singly, some of them
in transactions that roll back, while halves expire and the appender works.

MQPG_RACE_ROUNDS says how many record batches they decide.
"""

import os
import random
from collections import Counter
from threading import Barrier, Event

from tests.support.broker import Broker, Session, message_id, positions

ROUNDS = int(os.environ.get("MQPG_RACE_ROUNDS", "60"))
HALVES = 12  # in a record batch
STANDING = {"committed": "already_committed", "rolled_back": "already_rolled_back"}

# What was decided at once was written in a subtransaction.
_AT_ONCE = "select count(*) from mqpg.op_log where xmin::text::bigint <> xid::text::bigint % 4294967296"


def decide_some(mq: Session, rng: random.Random, handles: list[str]) -> dict[str, str]:
    """Decide the record batch, a part of it, some of it in any order, or one half after another."""
    begin, end = sorted(rng.sample(range(len(handles) + 1), 2))
    mine = rng.choice([handles, handles, handles[begin:end], rng.sample(handles, end - begin), handles[::-1]])
    if rng.random() < 0.2:
        return {h: mq.value(rng.choice(["commit", "rollback"]), h) for h in mine}
    with mq.transaction() as tx:
        rows = mq.call(rng.choice(["commit_batch", "rollback_batch"]), mine)
        tx.force_rollback = rng.random() < 0.15
    return {} if tx.force_rollback else {row.handle: row.outcome for row in rows}


def decider(mq: Session, rng: random.Random, rounds: list[list[str]], barrier: Barrier) -> list[dict[str, str]]:
    answers = []
    for handles in rounds:
        barrier.wait(120)
        answers.append(decide_some(mq, rng, handles))
    return answers


def expirer(mq: Session, rng: random.Random, rounds: list[list[str]], barrier: Barrier) -> None:
    for _ in rounds:
        barrier.wait(120)
        mq.call("_expire_halves", rng.randint(0, 4))


def appender(mq: Session, stop: Event) -> None:
    while not stop.wait(0.005):
        mq.append()


def overdue(mq: Session, n_rounds: int) -> list[list[str]]:
    """Prepare record batches whose halves expire from now on."""
    rounds = [[row[0] for row in mq.call("prepare_batch", "t", ["1"] * HALVES, "pg")] for _ in range(n_rounds)]
    mq.execute("select mqpg._enqueue_halves_now('test')")
    mq.execute("update pgmq.q_mqpg_oplog set vt = enqueued_at, enqueued_at = enqueued_at - interval '8 days'")
    return rounds


def race(mq: Session, broker: Broker, rng: random.Random, deciders: int, rounds: list[list[str]]) -> list[Counter[str]]:
    """Return what the sessions were told about each half, in the order of their ids."""
    barrier, stop = Barrier(deciders + 1), Event()
    appending = broker.background(appender, broker.session(), stop)
    expiring = broker.background(expirer, broker.session(), random.Random(rng.random()), rounds, barrier)
    running = [
        broker.background(decider, broker.session(), random.Random(rng.random()), rounds, barrier)
        for _ in range(deciders)
    ]
    try:
        answers = [future.result(3600) for future in running]
        expiring.result(60)
    finally:
        stop.set()
    appending.result(60)
    return [
        Counter(answer[i][handle] for answer in answers if handle in answer[i])
        for i, handles in enumerate(rounds)
        for handle in handles
    ]


def test_I3_runs_decided_whole_in_part_singly_and_by_expiry(mq: Session, broker: Broker, rng: random.Random) -> None:
    rounds = overdue(mq, ROUNDS)
    said = race(mq, broker, rng, 3, rounds)
    stands = {
        row.message_id: ("committed" if row.op == "c" else "rolled_back", row.decided_by)
        for row in mq.rows("select message_id, op::text, decided_by from mqpg.op_log where stage = 0")
    }
    ids = [message_id(handle) for handles in rounds for handle in handles]
    for half, told in zip(ids, said, strict=True):
        if not told:
            assert stands.get(half, ("", "expiry"))[1] == "expiry"
            continue
        outcome, by = stands[half]
        won = 1 if by == "producer" else 0
        assert told == Counter({outcome: won, STANDING[outcome]: told.total() - won}), (half, by)
    assert mq.scalar("select count(*) from mqpg.expired_half") == sum(by == "expiry" for _, by in stands.values())
    assert 0 < mq.scalar(_AT_ONCE) < len(stands), "one of the two ways was never taken"
    mq.append()
    committed = sorted(half for half, (outcome, _) in stands.items() if outcome == "committed")
    assert sorted(m for _, _, m in positions(mq, "t")) == committed
    assert sorted(row.message_id for row in mq.drain("t", max_messages=1000)) == committed
