"""The views: what the contract says they show, at least."""

from typing import Any

import pytest

from tests.support.broker import Broker, Session, seconds
from tests.support.retention import roll


def test_topics(mq: Session) -> None:
    rows = mq.rows("select topic, kind, queues, retention, paused from mqpg.topics order by topic")
    week = seconds(7 * 86400)
    assert [tuple(row) for row in rows] == [("one", "normal", 1, week, False), ("t", "normal", 4, week, False)]


def test_queue_depth(mq: Session) -> None:
    mq.sent_batch("one", ["1"] * 5)
    rows = mq.rows("select * from mqpg.queue_depth order by topic, queue_id")
    assert [tuple(row) for row in rows] == [("one", 0, 0, 5), *(("t", q, 0, 0) for q in range(4))]


def lag(mq: Session, queue_id: int = 0) -> tuple[Any, ...]:
    sql = "select committed, next_offset, lag, claims from mqpg.subscription_lag where topic = 'one' and queue_id = %s"
    return tuple(mq.rows(sql, queue_id)[0])


def test_subscription_lag(mq: Session) -> None:
    mq.send_batch("one", ["1"] * 5)
    assert lag(mq) == (0, 0, 0, 0)
    mq.append()
    assert lag(mq) == (0, 5, 5, 0)
    got = mq.receive("one", max_messages=3)
    assert lag(mq) == (0, 5, 5, 1)
    mq.ack(got[0].receipt, through=1)
    assert lag(mq) == (2, 5, 3, 1)
    mq.call("release", got[0].receipt)
    assert lag(mq) == (2, 5, 3, 0)
    mq.drain("one")
    assert lag(mq) == (5, 5, 0, 0)


def test_subscription_lag_of_the_retry_lane(mq: Session) -> None:
    mq.sent("one", "1")
    (message,) = mq.receive("one")
    mq.nack(message.receipt, [message.message_id], delay=seconds(0))
    assert lag(mq) == (1, 1, 0, 0)
    mq.append()
    assert lag(mq, -1) == (0, 1, 1, 0)


_ROWS = {
    ("subscription_lag", "consumer_group = 'g' and topic = 'one'"): 2,
    ("subscription_lag", "consumer_group = 'alone'"): 2,
    ("subscription_lag", "topic = 'one'"): 4,
    ("group_status", "consumer_group = 'g' and topic = 'one'"): 1,
    ("group_status", "consumer_group = 'alone'"): 1,
    ("group_status", "topic = 'one'"): 2,
    ("pins", "consumer_group = 'g' and topic = 'one'"): 1,
    ("pins", "consumer_group = 'alone'"): 1,
    ("pins", "topic = 'one'"): 2,
    ("queue_depth", "topic = 'one'"): 1,
}


def _pages(mq: Session, view: str, condition: str) -> int:
    """Pages that the plan counts, with those that its functions read. The first call fills the caches."""
    for _ in range(2):
        sql = f"explain (analyze, buffers, format json) select * from mqpg.{view} where {condition}"
        plan = mq.scalar(sql)[0]["Plan"]
        assert plan["Actual Rows"] == _ROWS[view, condition], (view, condition)
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@pytest.mark.own_database  # a segment rolls
def test_a_condition_reaches_the_index_lookups(mq: Session) -> None:
    mq.call("subscribe", "alone", "one")
    mq.sent_batch("one", ["1", "2"])
    roll(mq)
    few = {asked: _pages(mq, *asked) for asked in _ROWS}
    mq.execute(
        "select mqpg.create_topic(t, queues => 1), mqpg.subscribe('g', t) from (select 'x' || generate_series(1, 150)) x(t)"
    )
    mq.execute("select mqpg.send('x' || i, '1'::text) from generate_series(1, 150) as i")
    mq.append()
    mq.execute("analyze mqpg.topic, mqpg.subscription")
    many = {asked: _pages(mq, *asked) for asked in _ROWS}
    assert {asked: (few[asked], many[asked]) for asked in _ROWS if many[asked] > few[asked] + 50} == {}


def test_half_pending_before_and_after_a_pass(mq: Session, broker: Broker) -> None:
    """The view shows a half before and after the appender has looked at it, also one of an older transaction."""
    with broker.transaction() as slow:
        late = slow.prepare("one", "1")
        early = mq.prepare("one", "1")
        assert pending(mq) == {early}
        mq.value("compensate")
        assert pending(mq) == {early}
    assert pending(mq) == {early, late}
    batch = {row[0] for row in mq.call("prepare_batch", "t", ["1", "2"], "pg")}
    assert pending(mq) == {early, late} | batch
    mq.value("compensate")
    assert pending(mq) == {early, late} | batch
    mq.commit(early)
    mq.rollback(late)
    assert pending(mq) == batch
    (row,) = mq.rows("select distinct producer_group, topic, checks, reason from mqpg.half_pending")
    assert tuple(row) == ("pg", "t", 0, None)
    assert mq.scalar("select bool_and(check_at > clock_timestamp() and prepared_at < check_at) from mqpg.half_pending")


def pending(mq: Session) -> set[str]:
    handles = [row.handle for row in mq.rows("select handle from mqpg.half_pending")]
    assert len(handles) == len(set(handles))
    return set(handles)


def test_worker_status(mq: Session) -> None:
    mq.execute(
        "insert into mqpg.worker (worker_id, role, host, pid, state, seen_at) values"
        " ('a', 'appender', 'h', 1, 'active', clock_timestamp()),"
        " ('b', 'appender', 'h', 2, 'standby', clock_timestamp() - interval '2 minutes'),"
        " ('c', 'keeper', 'h', 3, 'stopped', clock_timestamp())"
    )
    rows = mq.rows("select worker_id, alive from mqpg.worker_status order by 1")
    assert [tuple(row) for row in rows] == [("a", True), ("b", False), ("c", False)]
