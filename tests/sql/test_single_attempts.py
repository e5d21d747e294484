"""A group with one attempt is delivered to as quickly as one with two: many messages in a call."""

from __future__ import annotations

import pytest

from tests.support.broker import Session


@pytest.mark.parametrize(
    ("mode", "on_failure"),
    [("exclusive", "skip"), ("exclusive", "block_key"), ("exclusive", "block_queue"), ("shared", "skip")],
)
def test_one_attempt_is_delivered_as_many(mode: str, on_failure: str, mq: Session) -> None:
    mq.call("subscribe", "once", "one", mode, max_attempts=1, on_failure=on_failure)
    mq.sent_batch("one", ["1"] * 300, keys=[str(i) for i in range(300)])
    assert len(mq.receive("one", group="once", max_messages=300)) == 300


def test_all_of_a_lease_that_ran_out_are_dead_letters(mq: Session) -> None:
    mq.call("subscribe", "once", "one", max_attempts=1)
    ids = mq.sent_batch("one", ["1"] * 100)
    mq.receive("one", group="once", max_messages=90, lease="10 ms")
    mq.execute("select pg_sleep(0.05)")
    assert [row.message_id for row in mq.receive("one", group="once", max_messages=100)] == ids[90:]
    letters = mq.call("dead_letters", "once", "one", max_messages=1000)
    assert sorted(row.message_id for row in letters) == ids[:90]
    assert mq.scalar("select count(*) from mqpg.cursor where action = 'd'") == 1


def test_two_attempts_come_alone_the_second_time(mq: Session) -> None:
    mq.call("subscribe", "twice", "one", max_attempts=2)
    mq.sent_batch("one", ["1"] * 10)
    assert len(mq.receive("one", group="twice", max_messages=10, lease="10 ms")) == 10
    mq.execute("select pg_sleep(0.05)")
    assert len(mq.receive("one", group="twice", max_messages=10)) == 1


def test_a_redriven_message_of_one_attempt(mq: Session) -> None:
    mq.call("subscribe", "once", "one", max_attempts=1)
    ids = mq.sent_batch("one", ["1"] * 5)
    mq.nack(mq.receive("one", group="once", max_messages=5)[0].receipt, ids)
    assert mq.value("redrive", "once", "one") == 5
    mq.append()
    assert sorted(row.message_id for row in mq.receive("one", group="once", max_messages=10)) == ids
