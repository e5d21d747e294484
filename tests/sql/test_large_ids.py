"""Ids that live long: many adoptions, and many members of broadcast groups."""

from __future__ import annotations

import pytest

from mqpg import migrate
from tests.support.broker import Broker, Session, refused

pytestmark = pytest.mark.own_database


@pytest.mark.parametrize("batch", [2**43, 10**15, 2**52])
def test_message_ids_and_handles_beyond_those_of_javascript(batch: int, mq: Session) -> None:
    """The last ones have handles with ids of 19 digits."""
    mq.execute("select setval('mqpg.batch_id', %s)", batch)
    mq.call("keep")
    message = mq.send("one")
    handles = [mq.prepare("one") for _ in range(4)]
    assert [row.state for row in mq.call("half_states", handles)] == ["undecided"] * 4
    assert mq.commit(handles[0]) == "committed"
    assert mq.rollback(handles[1]) == "rolled_back"
    assert [row.outcome for row in mq.call("commit_batch", handles[2:3])] == ["committed"]
    mq.execute("insert into mqpg.ledger (handle, at) values (%s, now() - interval '1 hour')", handles[3])
    assert [row.outcome for row in mq.call("reconcile")] == ["committed"]
    got = [row.message_id for row in mq.delivered("one", max_messages=10)]
    assert got[0] == message
    assert len(got) == 4


def last_id(mq: Session) -> int:
    return int(mq.scalar("select last_value * 1024 from mqpg.batch_id"))


def ticked(mq: Session, ago: str) -> None:
    """Append something that long ago."""
    mq.sent("one")
    mq.execute("update mqpg.tick set at = at - cast(%s as interval)", ago)


def test_message_ids_after_many_adoptions_are_exact_in_javascript(mq: Session) -> None:
    """A hundred stay below 2^48, so that each may take a hundredth of it."""
    for _ in range(8):
        mq.value("adopt")
    assert mq.send("one") < 2**48 * 8 // 100
    assert mq.append() == 1


@pytest.mark.parametrize("days", [1, 30])
def test_adopt_moves_ids_beyond_those_of_the_time_that_is_missing(days: int, mq: Session) -> None:
    ticked(mq, f"{days} days")
    before = last_id(mq)
    mq.value("adopt")
    assert before + 2**40 + days * 86400 * 2**28 < mq.send("one") < before + 2**41 + (days + 1) * 86400 * 2**28


def test_adopt_moves_ids_beyond_segments_that_are_begun_each_minute(mq: Session) -> None:
    mq.execute("update mqpg.settings set value = '1 minute' where name = 'segment_age'")
    ticked(mq, "1 hour")
    segment = int(mq.scalar("select value from mqpg.settings where name = 'segment_ids'"))
    ends = int(mq.scalar("select max(upper_bound::bigint) from mqpg.segment where family = 'log'"))
    mq.value("adopt")
    assert mq.send("one") > (ends + 60 * segment) * 1024
    assert mq.append() == 1


@pytest.mark.parametrize("ids", [1, 1000, 2**40])
def test_adopt_moves_ids_beyond_segments_of_any_length(ids: int, mq: Session) -> None:
    mq.execute("update mqpg.settings set value = '10' where name = 'segments_ahead'")
    mq.execute("update mqpg.settings set value = %s where name = 'segment_ids'", ids)
    mq.call("keep")
    mq.execute("update mqpg.settings set value = '1000' where name = 'segment_ids'")
    last = mq.send("one")
    ends = int(mq.scalar("select max(upper_bound::bigint) from mqpg.segment where family = 'log'"))
    mq.value("adopt")
    assert mq.send("one") > max(last + 2**40, ends * 1024)
    mq.call("keep")
    assert mq.append() == 2


def test_a_broker_that_was_idle_for_thirty_years_is_adopted(mq: Session) -> None:
    ticked(mq, "30 years")
    for _ in range(3):
        mq.value("adopt")
    handle = mq.prepare("one")
    mq.send("one")
    assert mq.commit(handle) == "committed"
    assert mq.append() == 2


def test_segments_that_are_begun_by_age_leave_ids_below_2_53_for_twenty_years(mq: Session) -> None:
    mq.sent("one")
    before = last_id(mq)
    mq.execute("update mqpg.settings set value = '0 s' where name = 'segment_age'")
    assert "rolled" in [row.action for row in mq.call("keep")]
    assert (last_id(mq) - before) * 20 * 365 * 4 < 2**53


def test_append_goes_on_in_the_segment_that_ticks_were_moved_to(mq: Session) -> None:
    mq.sent("one")
    mq.execute("update mqpg.settings set value = '0 s' where name = 'segment_age'")
    mq.call("keep")
    moved = mq.scalar("select max(tick_id) from mqpg.tick")
    assert mq.scalar("select last_value from mqpg.tick_mark") == moved
    mq.execute("select setval('mqpg.tick_mark', 1)")  # as a keep() of an earlier release left it
    mq.send("one")
    assert mq.append() == 1
    assert mq.scalar("select max(tick_id) from mqpg.tick") == moved + 1


@pytest.mark.parametrize(("batch", "said"), [(2**43 * 7 // 10, False), (2**43 * 9 // 10, True)])
def test_message_ids_beyond_those_of_javascript_are_said_before(
    batch: int, said: bool, broker: Broker, mq: Session
) -> None:
    mq.execute("select setval('mqpg.batch_id', %s)", batch)
    assert any("message_id::text" in one for one in migrate.problems(broker.dsn)) == said


@pytest.mark.parametrize("digits", ["9223372036854775808", "9999999999999999999", "99999999999999999999"])
def test_a_number_that_is_no_id_is_no_handle(digits: str, mq: Session) -> None:
    broker, incarnation, _, nonce = mq.prepare("one").split(".")
    handle = f"{broker}.{incarnation}.{digits}.{nonce}"
    assert mq.commit(handle) == "unknown"
    assert [row.outcome for row in mq.call("commit_batch", [handle, handle])] == ["unknown"] * 2
    assert [row.state for row in mq.call("half_states", [handle])] == ["unknown"]


def test_the_end_of_subscription_ids_is_said(mq: Session) -> None:
    mq.call("subscribe", "all", "one", "broadcast")
    mq.execute("alter sequence mqpg.subscription_subscription_id_seq restart 2097150")
    mq.call("subscribe", "last", "one")
    mq.sent("one")
    assert len(mq.receive("one", group="last")) == 1
    with refused("MQ027", "2097150"):
        mq.call("subscribe", "more", "one")
    with refused("MQ027", "2097150"):
        mq.receive("one", group="all", consumer="pod")


@pytest.mark.parametrize(("last", "said"), [(1_600_000, False), (1_700_000, True)])
def test_the_end_of_subscription_ids_is_said_long_before(last: int, said: bool, broker: Broker, mq: Session) -> None:
    mq.execute("select setval('mqpg.subscription_subscription_id_seq', %s)", last)
    assert any("ids of subscriptions are used up" in one for one in migrate.problems(broker.dsn)) == said
