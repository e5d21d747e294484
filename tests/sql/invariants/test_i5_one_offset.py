"""I5: each committed message has exactly one offset, and nothing else has one."""

import random
from collections import Counter

from tests.support.broker import Broker, Session, positions, seconds
from tests.support.history import run_history
from tests.support.waiting import eventually


def test_I5_one_offset_each_after_a_random_history(mq: Session, broker: Broker, rng: random.Random) -> None:
    history = run_history(broker, rng, "t")
    count = Counter(m for _, _, m in positions(mq, "t"))
    assert [m for m, n in count.items() if n > 1] == []
    assert set(count) == set(history.ids)
    assert not set(count) & history.gone


def test_I5_also_with_one_queue_and_small_passes(mq: Session, broker: Broker, rng: random.Random) -> None:
    history = run_history(broker, rng, "one", producers=4, steps=12)
    assert sorted(m for _, _, m in positions(mq, "one")) == sorted(history.ids)


def test_I5_delayed_messages_get_one_offset(mq: Session, broker: Broker) -> None:
    slow = broker.session()
    ids = [mq.send("one", "1", delay=seconds(0.02 * i)) for i in range(5)]
    ids += mq.send_batch("one", ["1"] * 4, delay=seconds(0.05))
    handle = mq.prepare("one", "1", delay=seconds(0.05))
    mq.commit(handle)
    ids.append(int(handle.split(".")[2]))
    with slow.transaction():
        ids.append(slow.send("one", "1", delay=seconds(0.03)))  # commits after it was due
        mq.execute("select pg_sleep(0.1)")
        mq.append()
    eventually(lambda: (mq.append(), len(positions(mq, "one")) >= len(ids))[1])
    mq.append()
    assert sorted(m for _, _, m in positions(mq, "one")) == sorted(ids)


def test_I5_a_retry_gets_no_second_offset_on_the_topic(mq: Session) -> None:
    (message_id,) = mq.sent_batch("one", ["1"])
    mq.nack(mq.receive("one")[0].receipt, [message_id], delay=seconds(0))
    mq.append()
    mq.append()
    assert positions(mq, "one") == [(0, 0, message_id)]


def test_I5_a_commit_repeated_by_many_is_one_offset(mq: Session, broker: Broker) -> None:
    handle = mq.prepare("one", "1")
    running = [broker.background(broker.session().commit, handle) for _ in range(8)]
    outcomes = Counter(f.result(45) for f in running)
    assert outcomes == {"committed": 1, "already_committed": 7}
    mq.append()
    assert len(positions(mq, "one")) == 1


def test_I5_runs_of_halves_in_a_long_transaction_get_one_offset(mq: Session, broker: Broker) -> None:
    """Their decisions are written in subtransactions, one of which was undone."""
    slow, other = broker.session(), broker.session()
    runs = [[row[0] for row in mq.call("prepare_batch", "one", ["1"] * 5, "pg")] for _ in range(3)]
    ids = [int(handle.split(".")[2]) for handles in runs for handle in handles]
    with slow.transaction():
        slow.call("commit_batch", runs[0])
        with other.transaction():
            other.rollback(runs[1][3])
            racing = broker.blocked(slow, slow.call, "commit_batch", runs[1])
        assert [row.outcome for row in racing.result(45)].count("committed") == 4
        mq.sent("one", "1")
        slow.call("commit_batch", runs[2])
        mq.append()
        assert len(positions(mq, "one")) == 1, "decisions of an open transaction"
    assert mq.append() == 14
    del ids[8]
    assert [m for _, _, m in positions(mq, "one")][1:] == ids
