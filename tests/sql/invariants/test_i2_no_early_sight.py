"""I2 no early sight: nothing of an uncommitted send or an undecided half is delivered or fetched."""

import random
import time
from threading import Event

from tests.support.broker import Broker, Session, seconds
from tests.support.waiting import eventually


def seen(mq: Session, topic: str = "one") -> list[int]:
    mq.append()
    return [m.message_id for m in mq.call("fetch", topic, 0, 0, 1000)]


def test_I2_an_uncommitted_send_is_not_seen(mq: Session, broker: Broker) -> None:
    with broker.transaction() as sender:
        message_id = sender.send("one", "1")
        assert seen(mq) == []
        assert mq.receive("one") == []
    assert seen(mq) == [message_id]


def test_I2_an_uncommitted_send_is_not_seen_by_its_own_transaction(mq: Session, other: Session) -> None:
    with mq.transaction():
        mq.send("one", "1")
        other.append()
        assert mq.receive("one") == []


def test_I2_an_undecided_half_is_not_seen(mq: Session) -> None:
    handle = mq.prepare("one", "1")
    for _ in range(3):
        assert seen(mq) == []
    mq.commit(handle)
    assert len(seen(mq)) == 1


def test_I2_an_undecided_half_is_not_seen_among_its_batch(mq: Session) -> None:
    handles = [r[0] for r in mq.call("prepare_batch", "one", ["0", "1", "2"], "pg")]
    mq.commit(handles[1])
    assert seen(mq) == [int(handles[1].split(".")[2])]


def test_I2_an_uncommitted_decision_is_not_seen(mq: Session, broker: Broker) -> None:
    decider = broker.session()
    handle = mq.prepare("one", "1")
    with decider.transaction(force_rollback=True):
        decider.commit(handle)
        assert seen(mq) == []
    assert seen(mq) == []


def test_I2_a_final_payload_is_not_seen_before_its_commit(mq: Session, broker: Broker) -> None:
    decider = broker.session()
    handle = mq.prepare("one", '"draft"')
    with decider.transaction():
        decider.commit(handle, '"final"')
        assert seen(mq) == []
    seen(mq)
    assert [m.payload for m in mq.receive("one")] == ["final"]


def test_I2_a_delayed_message_is_not_seen_before_its_time(mq: Session) -> None:
    due = time.monotonic() + 0.2
    mq.send("one", "1", delay=seconds(0.2))
    mq.commit(mq.prepare("one", "1", delay=seconds(0.2)))
    while True:
        early = seen(mq)
        if time.monotonic() >= due:  # A slow call may have ended after the time of the messages.
            break
        assert early == []
    eventually(lambda: len(seen(mq)) == 2)


def _reader(mq: Session, stop: Event) -> list[int]:
    """Return the ids that were delivered before their transaction could have committed."""
    early: list[int] = []
    while not stop.is_set():
        for m in mq.delivered("t"):
            open_now = mq.rows("select 1 from shown where message_id = %s", m.message_id)
            if not open_now:
                early.append(m.message_id)
    return early


def _writer(mq: Session, rng: random.Random) -> None:
    """Write each message's id as a row of the same transaction.

    A reader that sees one must see the other.
    """
    for _ in range(25):
        with mq.transaction() as tx:
            mq.execute("insert into shown select mqpg.send_batch('t', array['1', '2'])")
            time.sleep(rng.random() * 0.005)
            tx.force_rollback = rng.random() < 0.3
        handle = mq.prepare("t", "1")
        with mq.transaction() as tx:
            mq.execute("insert into shown values (%s)", int(handle.split(".")[2]))
            assert mq.commit(handle) == "committed"
            time.sleep(rng.random() * 0.005)
            tx.force_rollback = rng.random() < 0.3


def test_I2_what_is_delivered_is_committed_at_that_moment(mq: Session, broker: Broker, rng: random.Random) -> None:
    mq.execute("create table shown (message_id bigint primary key)")
    stop = Event()
    reader = broker.background(_reader, broker.session(), stop)
    writers = [broker.background(_writer, broker.session(), random.Random(rng.random())) for _ in range(5)]
    for writer in writers:
        writer.result(60)
    stop.set()
    assert reader.result(30) == []
