"""find_by_key, trace and dead_letters find a message in every state."""

from typing import Any

from tests.support.broker import Broker, Session, make_due, message_id, positions, seconds, story
from tests.support.waiting import eventually


def found(mq: Session, key: str = "k", topic: str = "one") -> list[tuple[Any, ...]]:
    return [(r.state, r.queue_offset, r.payload) for r in mq.call("find_by_key", topic, key)]


def test_a_send_is_pending_then_appended(mq: Session) -> None:
    mq.send("one", "0", key="other")
    sent = mq.send("one", "1", key="k")
    assert found(mq) == [("pending", None, 1)]
    mq.append()
    (row,) = mq.call("find_by_key", "one", "k")
    assert (row.message_id, row.queue_id, row.queue_offset, row.state, row.payload) == (sent, 0, 1, "appended", 1)


def test_a_half_through_its_states(mq: Session) -> None:
    kept, dropped = mq.prepare("one", "1", key="k"), mq.prepare("one", "2", key="k")
    assert [f[0] for f in found(mq)] == ["prepared", "prepared"]
    mq.rollback(dropped)
    mq.commit(kept, '"final"')
    assert found(mq) == [("committed", None, "final"), ("rolled_back", None, 2)]
    mq.append()
    assert found(mq) == [("appended", 0, "final"), ("rolled_back", None, 2)]


def test_a_delayed_send_and_a_delayed_half(mq: Session) -> None:
    mq.send("one", "1", key="k", delay=seconds(3600))
    handle = mq.prepare("one", "2", key="k", delay=seconds(3600))
    assert [f[0] for f in found(mq)] == ["delayed", "prepared"]
    mq.commit(handle)
    mq.append()
    assert [f[0] for f in found(mq)] == ["delayed", "delayed"]
    make_due(mq)
    for i in range(5):
        mq.sent("one", str(i))
    eventually(lambda: (mq.append(), [f[0] for f in found(mq)] == ["appended"] * 2)[1])
    offsets = {mid: offset for _, offset, mid in positions(mq, "one")}
    for row in mq.call("find_by_key", "one", "k"):
        assert row.queue_offset == offsets[row.message_id]


def test_offsets_of_whole_batches_and_of_transactions_that_outlived_ticks(mq: Session, broker: Broker) -> None:
    """The tick that sees an xid is found by binary search where many ticks still have it running."""
    slow = broker.session()
    keys = ["k", None, "k", "j", "k"]
    with slow.transaction():
        slow.send_batch("t", ["1"] * 5, keys=keys)
        for i in range(20):
            mq.sent("t", str(i), key="k" if i % 3 else "j")
    mq.sent_batch("t", ["2"] * 5, keys=keys)
    for i in range(5):
        mq.sent("t", str(i))
    offsets = {mid: (queue_id, offset) for queue_id, offset, mid in positions(mq, "t")}
    rows = mq.call("find_by_key", "t", "k") + mq.call("find_by_key", "t", "j")
    assert len(rows) == 20 + 8
    for row in rows:
        assert (row.queue_id, row.queue_offset) == offsets[row.message_id]
        assert row.state == "appended"


def test_other_topics_are_not_searched(mq: Session) -> None:
    mq.send("t", "1", key="k")
    assert found(mq) == []


def test_find_uses_the_index_on_keys(mq: Session) -> None:
    mq.execute(
        "insert into mqpg.commit_log (batch_id, xid, born_at, topic_id, queue_id, n, kind, keys, payloads)"
        " select nextval('mqpg.batch_id'), '3', now(), 1, 0, 1, 'n', array['key' || i], array['1'::json]"
        " from generate_series(1, 20000) i; analyze mqpg.commit_log"
    )
    plan = "\n".join(
        row[0]
        for row in mq.rows("explain select from mqpg.commit_log l where l.keys @> array['key7'] and l.topic_id = 1")
    )
    assert "keys_idx" in plan
    assert len(mq.call("find_by_key", "t", "key7")) <= 1


# trace


def test_trace_of_a_delivered_message(mq: Session) -> None:
    sent = mq.send("one", "1", key="k", tag="x")
    assert story(mq, sent) == ["born"]
    mq.append()
    assert story(mq, sent) == ["born", "appended"]
    (message,) = mq.receive("one", consumer="c1")
    assert story(mq, sent) == ["born", "appended", "delivered"]
    mq.ack(message.receipt)
    rows = mq.call("trace", sent)
    assert [row.event for row in rows] == ["born", "appended", "delivered", "done"]
    assert rows[0].detail == {"topic": "one", "queue_id": 0, "key": "k", "tag": "x"}
    assert rows[1].detail["queue_offset"] == 0
    assert rows[2].detail.items() >= {"consumer_group": "g", "attempt": 1, "consumer": "c1", "queue_id": 0}.items()


def test_trace_of_redeliveries_among_many_versions(mq: Session) -> None:
    ids = mq.sent_batch("one", ["1"] * 40)
    for _ in range(15):
        mq.ack(mq.receive("one", max_messages=1)[0].receipt)
    assert len(mq.receive("one", max_messages=1, lease=seconds(0.05))) == 1
    (again,) = eventually(lambda: mq.receive("one", max_messages=1))
    mq.ack(again.receipt)
    mq.drain("one", max_messages=1)
    rows = [row for row in mq.call("trace", ids[15]) if row.event == "delivered"]
    assert [row.detail["attempt"] for row in rows] == [1, 2]
    assert story(mq, ids[14]) == ["born", "appended", "delivered", "done"]
    assert story(mq, ids[39]) == ["born", "appended", "delivered", "done"]


def test_trace_of_a_half_checked_and_decided(mq: Session) -> None:
    mq.call("create_producer_group", "app", check_after=seconds(0.01))
    handle = mq.prepare("one", "1", "app")
    eventually(lambda: mq.call("due_checks", "app"))
    mq.call("check_wait", handle, seconds(0))
    eventually(lambda: mq.call("due_checks", "app"))
    mq.commit(handle)
    mq.append()
    rows = mq.call("trace", message_id(handle))
    assert [row.event for row in rows] == ["prepared", "asked", "waited", "asked", "decided", "appended"]
    assert rows[0].detail["producer_group"] == "app"
    assert rows[4].detail == {"decision": "commit", "by": "producer"}


def test_trace_of_an_unknown_id(mq: Session) -> None:
    assert mq.call("trace", 1024 * 999) == []


# dead letters


def test_dead_letters_latest_first_with_the_final_payload(mq: Session) -> None:
    mq.call("subscribe", "strict", "one", max_attempts=1)
    handle = mq.prepare("one", "1", key="k")
    mq.commit(handle, '{"final":  true}')
    mq.sent("one", "2")
    while got := mq.receive("one", group="strict", max_messages=1):
        (message,) = got
        mq.nack(message.receipt, [message.message_id], reason=f"no {message.queue_offset}")
    rows = mq.call("dead_letters", "strict", "one")
    assert [(r.payload, r.key, r.attempts, r.reason) for r in rows] == [
        (2, None, 1, "no 1"),
        ({"final": True}, "k", 1, "no 0"),
    ]
    assert rows[1].message_id == message_id(handle)
    assert len(mq.call("dead_letters", "strict", "one", 1)) == 1
    assert mq.call("dead_letters", "g", "one") == []
