"""pause and resume of a topic and of one subscription.

Sends, acknowledgements and fetch continue.
"""

from tests.support.broker import Broker, Session, seconds


def test_a_paused_subscription_gets_nothing_and_others_do(mq: Session) -> None:
    mq.call("subscribe", "other", "one")
    mq.call("pause", "one", "g")
    mq.send("one", "1")
    assert mq.append() == 1
    assert mq.receive("one") == []
    assert len(mq.drain("one", group="other")) == 1
    mq.call("resume", "one", "g")
    assert len(mq.drain("one")) == 1


def test_a_paused_topic_delivers_to_nobody_and_takes_sends(mq: Session) -> None:
    mq.call("subscribe", "other", "one")
    mq.call("pause", "one")
    mq.call("pause", "one")
    assert mq.scalar("select paused from mqpg.topics where topic = 'one'")
    mq.send("one", "1")
    assert mq.append() == 1
    assert mq.receive("one") == mq.receive("one", group="other") == []
    assert len(mq.call("fetch", "one", 0, 0)) == 1
    mq.sent("t", "1")
    assert len(mq.drain("t")) == 1
    mq.call("resume", "one")
    assert len(mq.receive("one")) == len(mq.receive("one", group="other")) == 1


def test_topic_and_subscription_are_paused_each_for_itself(mq: Session) -> None:
    mq.sent("one", "1")
    mq.call("pause", "one")
    mq.call("pause", "one", "g")
    mq.call("resume", "one")
    assert mq.receive("one") == []
    mq.call("resume", "one", "g")
    mq.call("resume", "one", "g")
    assert len(mq.receive("one")) == 1


def test_what_is_in_flight_is_acknowledged_or_returned_during_a_pause(mq: Session) -> None:
    mq.sent_batch("one", ["1", "2", "3"])
    rows = mq.receive("one")
    mq.call("pause", "one")
    mq.call("extend", rows[0].receipt, seconds(60))
    mq.nack(rows[0].receipt, [rows[0].message_id], delay=seconds(0))
    mq.ack(rows[0].receipt)
    mq.append()
    assert mq.receive("one") == []
    mq.call("resume", "one")
    assert [m.payload for m in mq.receive("one")] == [1]


def test_a_pause_counts_once_it_is_committed(mq: Session, broker: Broker, other: Session) -> None:
    mq.sent_batch("one", ["1", "2"])
    with mq.transaction():
        mq.call("pause", "one", "g")
        (message,) = broker.background(other.receive, "one", max_messages=1).result(45)
        other.ack(message.receipt)
    assert other.receive("one") == []
