"""purge_topic: everything in the queues counts as consumed, for every subscription."""

from typing import Any

import pytest

from tests.support.broker import Session, make_due, refused, seconds
from tests.support.waiting import eventually


def retried(mq: Session, payload: str) -> list[Any]:
    """Send a message, nack it, and return the payloads that come next."""
    mq.sent("one", payload)
    (message,) = mq.receive("one")
    mq.nack(message.receipt, [message.message_id], delay=seconds(0))
    mq.append()
    return [m.payload for m in mq.receive("one")]


def test_every_subscription_goes_to_the_end(mq: Session) -> None:
    mq.call("subscribe", "other", "t")
    mq.sent_batch("t", ["1"] * 20)
    held = mq.receive("t", max_messages=3)
    assert mq.value("purge_topic", "t") == 40
    assert mq.drain("t") == mq.drain("t", group="other") == []
    with refused("MQ009"):
        mq.ack(held[0].receipt)
    assert mq.value("purge_topic", "t") == 0
    assert mq.scalar("select sum(lag) from mqpg.subscription_lag where topic = 't'") == 0
    noted = (
        "select sum(to_offset - from_offset) from mqpg.position_jump where why = 'purge' and consumer_group = 'other'"
    )
    assert mq.scalar(noted) == 20
    mq.sent("t", "2")
    assert len(mq.drain("t")) == 1


def test_acknowledged_messages_are_not_counted(mq: Session) -> None:
    mq.sent_batch("one", ["1", "2", "3"])
    rows = mq.receive("one")
    mq.nack(rows[0].receipt, [rows[1].message_id], delay=seconds(9))
    assert mq.value("purge_topic", "one") == 2


def test_retries_in_the_lane_and_those_that_wait_do_not_come_again(mq: Session) -> None:
    mq.sent_batch("one", ["1", "2"])
    rows = mq.receive("one")
    mq.nack(rows[0].receipt, [rows[0].message_id], delay=seconds(0))
    mq.append()
    mq.nack(rows[0].receipt, [rows[1].message_id], delay=seconds(0.2))
    mq.call("purge_topic", "one")
    due = "select max(visible_at) < clock_timestamp() from mqpg.delayed"
    eventually(lambda: mq.scalar(due))
    assert mq.append() == 0
    assert mq.receive("one") == []
    # this call noted that they were due, so the next one has nothing to do
    assert mq.scalar("select max(due_until) from mqpg.tick") > mq.scalar("select max(visible_at) from mqpg.delayed")
    assert retried(mq, "3") == [3]


@pytest.mark.own_database  # its clock is changed
def test_a_later_retry_comes_although_no_keeper_has_run_for_days(mq: Session) -> None:
    mq.execute("update mqpg.clock set delayed_until = clock_timestamp() - interval '40 days'")
    mq.call("purge_topic", "one")
    assert retried(mq, "1") == [1]


@pytest.mark.own_database  # its clock is changed
def test_retries_that_wait_do_not_come_although_no_keeper_has_run_for_days(mq: Session) -> None:
    """Their rows and those of later retries have the time of the last partition."""
    mq.execute("update mqpg.clock set delayed_until = clock_timestamp() - interval '40 days'")
    for payload in ("1", "2"):
        mq.sent("one", payload)
        (message,) = mq.receive("one")
        mq.nack(message.receipt, [message.message_id], delay=seconds(1000))
        mq.call("purge_topic", "one")
    mq.sent("one", "3")
    (message,) = mq.receive("one")
    mq.nack(message.receipt, [message.message_id], delay=seconds(1000))
    make_due(mq)
    mq.append()
    assert [m.payload for m in mq.receive("one")] == [3]


@pytest.mark.own_database  # its clock is changed
def test_so_many_purges_that_their_times_are_used_up_lose_no_retry(mq: Session) -> None:
    mq.execute("update mqpg.clock set delayed_until = clock_timestamp() - interval '40 days'")
    mq.execute("update mqpg.subscription set retries_from = (select delayed_until - interval '2 us' from mqpg.clock)")
    for payload in (1, 2, 3):
        mq.call("purge_topic", "one")
        assert retried(mq, str(payload)) == [payload]
        mq.call("seek", "g", "one", "latest", queue_id=-1)


@pytest.mark.own_database  # its clock is changed
def test_later_retries_come_although_the_clock_was_ahead_at_the_purge(mq: Session) -> None:
    """No append() noticed it, so the time of a later retry would be before that of the purge."""
    ahead = "update mqpg.subscription set retries_from = retries_from + interval '1 hour'"
    mq.call("purge_topic", "one")
    mq.execute(ahead)
    assert retried(mq, "1") == [1]
    mq.sent("one", "2")
    (message,) = mq.receive("one", queue_id=0)
    mq.nack(message.receipt, [message.message_id], final=True)
    mq.call("purge_topic", "one")
    mq.execute(ahead)
    assert mq.value("redrive", "g", "one") == 1
    mq.append()
    assert [m.payload for m in mq.receive("one")] == [2]


def test_notes_of_purges_do_not_pile_up(mq: Session) -> None:
    """The last one of each subscription stays, because the audit asks for it."""
    mq.call("subscribe", "other", "one")
    mq.execute("update mqpg.settings set value = '0 s' where name = 'position_jump_keep'")
    for _ in range(3):
        mq.call("purge_topic", "one")
    mq.call("_delete_old_rows")
    left = mq.scalar(
        "select count(*) filter (where f.replaced_at = s.retries_from) from mqpg.former_setting f"
        " join mqpg.subscription s using (subscription_id) where f.name = 'retries_from'"
    )
    assert left == mq.scalar("select count(*) from mqpg.former_setting") == 2


def test_what_is_not_in_a_queue_yet_stays(mq: Session) -> None:
    handle = mq.prepare("one", '"half"')
    mq.send("one", '"delayed"', delay=seconds(0.1))
    mq.send("one", '"sent"')
    assert mq.value("purge_topic", "one") == 0
    mq.commit(handle)
    got: list[str] = []
    eventually(lambda: (mq.append(), got.extend(m.payload for m in mq.drain("one")), len(got) == 3)[2])
    assert sorted(got) == ["delayed", "half", "sent"]


def test_dead_letters_stay(mq: Session) -> None:
    mq.call("subscribe", "strict", "one", max_attempts=1)
    mq.sent("one", "1")
    (message,) = mq.receive("one", group="strict")
    mq.nack(message.receipt, [message.message_id])
    mq.call("purge_topic", "one")
    assert len(mq.call("dead_letters", "strict", "one")) == 1
