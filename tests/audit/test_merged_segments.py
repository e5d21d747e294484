"""Merges of segments: what they leave out is not called lost or a gap."""

import pytest

from mqpg.audit.options import AuditOptions
from mqpg.audit.sql.engine import run_audit
from tests.audit.judged import found
from tests.support.broker import Broker, Session
from tests.support.retention import keep, pass_time, retain, roll
from tests.support.waiting import eventually


@pytest.fixture
def mq(broker: Broker) -> Session:
    """A broker with topics `kept` and `other`, which group `g` reads."""
    session = broker.session()
    for topic in ("kept", "other"):
        session.subscribed(topic)
    session.call("create_producer_group", "pg")
    return session


def fill(mq: Session, topic: str = "kept", messages: int = 10) -> None:
    """Send, decide, consume and acknowledge messages, and close the segments that hold them."""
    for number in range(messages):
        mq.send(topic, str(number), key=str(number))
    handle = mq.scalar("select mqpg.prepare(%s, '1'::text, 'pg')", topic)
    mq.execute("select mqpg.commit(%s)", handle)
    mq.execute("select mqpg.send(%s, '1'::text, delay => interval '1 microsecond')", topic)
    mq.append()
    _consume(mq, topic)
    mq.execute("select mqpg._enqueue_halves_now('fill')")  # append() does it once a second
    roll(mq)
    mq.execute("select mqpg.send('other', '1'::text)")  # a tick in the next segment closes the one before
    mq.append()
    _consume(mq, "other")
    roll(mq)


def _consume(mq: Session, topic: str) -> None:
    while rows := mq.rows("select * from mqpg.receive('g', %s, 1000)", topic):
        mq.execute("select mqpg.ack(%s)", rows[0].receipt)


def _merge(mq: Session) -> None:
    """Merge segments until a merge has left out what is no living topic's: topic 0 stands for it."""
    mq.execute("update mqpg.settings set value = '4' where name = 'segments_most'")
    merged = "select count(*) from mqpg.segment where merged_at is not null and family = 'log' and 0 = any(left_out)"
    eventually(lambda: (keep(mq, 5), mq.scalar(merged))[1])


def _judge(dsn: str) -> tuple[str, dict[str, int]]:
    report = run_audit(AuditOptions(dsn=dsn))
    return report.verdict, found(report)


def test_segments_without_bodies_and_others_become_one(mq: Session, dsn: str) -> None:
    """The first two have no bodies any more, and their decisions are still kept."""
    fill(mq)
    retain(mq, "1 minute")
    pass_time(mq, "2 hours")
    keep(mq, 60)
    retain(mq, "1 day")
    assert mq.scalar("select count(*) from mqpg.segment where family = 'log' and body_dropped_at is not null")
    for _ in range(3):
        fill(mq)
    assert _judge(dsn) == ("valid", {})
    _merge(mq)
    assert _judge(dsn) == ("valid", {})


def test_messages_of_a_dropped_topic_are_left_out(mq: Session, dsn: str) -> None:
    fill(mq)
    fill(mq, "other")
    mq.call("drop_topic", "kept", True)
    for _ in range(4):
        fill(mq, "other")
    assert _judge(dsn) == ("valid", {})
    _merge(mq)
    assert _judge(dsn) == ("valid", {})
