"""Transactions that were open while their topic or producer group was dropped get an error, and nothing is silent."""

from tests.support.broker import Broker, Session, refused, seconds
from tests.support.waiting import eventually


def orphans(mq: Session) -> list[tuple[str, int, int]]:
    return [(r.topic, r.messages, r.undecided) for r in mq.rows("select * from mqpg.orphans order by topic_id")]


def test_an_open_send_to_a_dropped_topic_is_reported(mq: Session, broker: Broker) -> None:
    with broker.transaction() as sender:
        sender.send_batch("one", ["1", "2"])
        mq.call("drop_topic", "one")
        assert orphans(mq) == [("one", 0, 0)]
    assert mq.append() == 2
    assert orphans(mq) == [("one", 2, 0)]
    mq.subscribed("one")
    assert mq.receive("one") == []
    with refused("MQ003"):
        mq.send("gone", "1")


def test_what_was_there_before_the_drop_is_no_orphan(mq: Session) -> None:
    mq.sent("one", "1")
    with refused("MQ012"):
        mq.call("drop_topic", "one")
    mq.call("drop_topic", "one", True)
    assert orphans(mq) == [("one", 0, 0)]
    assert mq.scalar("select forced from mqpg.dropped_topic")


def test_an_open_prepare_on_a_dropped_topic_is_reported_and_decided(mq: Session, broker: Broker) -> None:
    with broker.transaction() as sender:
        handle = sender.prepare("one", "1")
        mq.call("drop_topic", "one")
    mq.execute("select mqpg._enqueue_halves_now('test')")
    assert orphans(mq) == [("one", 0, 1)]
    assert mq.commit(handle) == "committed"
    assert mq.append() == 1
    assert orphans(mq) == [("one", 1, 0)]


def test_an_open_prepare_of_a_dropped_group_is_listed_and_decided(mq: Session, broker: Broker) -> None:
    mq.call("create_producer_group", "brief", check_after=seconds(0.01))
    with broker.transaction() as sender:
        handles = [sender.prepare("one", str(i), "brief") for i in range(2)]
        mq.call("drop_producer_group", "brief")
    mq.value("compensate")
    pending = eventually(lambda: mq.rows("select handle, producer_group from mqpg.half_pending order by handle"))
    assert [tuple(r) for r in pending] == [(h, None) for h in sorted(handles)]
    assert mq.commit(handles[0]) == "committed"
    assert mq.value("settle", handles[1], "rollback", "its group is gone") == "rolled_back"
    assert mq.rows("select from mqpg.half_pending") == []
    assert [m.payload for m in mq.delivered("one")] == [0]


def test_a_drop_waits_for_nobody(mq: Session, broker: Broker) -> None:
    """A drop and the locks of senders and receivers do not wait for each other."""
    sender, other = broker.session(), broker.session()
    with sender.transaction():
        sender.send("one", "1")
        with mq.transaction():
            mq.call("drop_topic", "one")
            broker.background(other.send, "one", "2").result(45)
            broker.background(other.receive, "one").result(45)
