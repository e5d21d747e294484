"""The server's clock was ahead, or goes back: delays, back-offs, dedup ids, leases and checks stay as long as meant."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

from tests.support.broker import Broker, Session, message_id, refused, seconds
from tests.support.waiting import eventually

pytestmark = pytest.mark.own_database
FUTURE = ("30 days", "20 hours", "1 minute")


@pytest.fixture(params=FUTURE)
def by(request: pytest.FixtureRequest) -> str:
    return str(request.param)


MARK = "select setval('mqpg.due_mark', (date_part('epoch', max(due_until)) * 1000000)::bigint) from mqpg.tick"


def was_ahead(mq: Session, by: str) -> None:
    """As if the newest append() had run while the clock was ahead."""
    mq.sent("t")
    mq.drain("t")
    mq.execute(
        "update mqpg.tick set due_until = clock_timestamp() + %s::interval, at = at + %s::interval"
        " where tick_id = (select max(tick_id) from mqpg.tick)",
        by,
        by,
    )
    mq.execute(MARK)


def notice(mq: Session) -> None:
    mq.sent("t")
    mq.drain("t")


@pytest.mark.parametrize("ticks", [0, 1])
def test_an_append_that_was_rolled_back_under_a_wrong_clock_delays_nothing(ticks: int, by: str, mq: Session) -> None:
    for _ in range(ticks):
        notice(mq)
    mq.send("t")
    mq.execute("update mqpg.clock set ahead = cast(%s as interval), seen_at = clock_timestamp()", by)
    with mq.transaction():
        assert mq.append() == 1
        raise psycopg.Rollback
    mq.execute("update mqpg.clock set ahead = '0'")
    soon = mq.send("one", delay="0.3 s")
    mq.commit(mq.prepare("one", delay="0.3 s"))
    first = mq.send("one", dedup_id="x", delay="0.3 s")
    mq.send_batch("one", ["1"], delay="0.3 s")
    came: list[Any] = []

    def all_came() -> bool:
        came.extend(mq.delivered("one"))
        return len(came) == 4

    eventually(all_came)
    assert {soon, first} < {row.message_id for row in came}
    assert mq.send("one", dedup_id="x") == first


@pytest.mark.parametrize("noticed", [False, True])
def test_delays_are_kept(noticed: bool, by: str, mq: Session) -> None:
    was_ahead(mq, by)
    if noticed:
        notice(mq)
    began = time.monotonic()
    soon = mq.send("one", delay="0.8 s")
    handle = mq.prepare("one", delay="0.8 s")
    half = int(handle.split(".")[2])
    mq.commit(handle)
    (batch,) = mq.call("prepare_batch", "one", ["1"], "pg", delay="0.8 s")[0]
    mq.call("commit_batch", [batch])
    (many,) = mq.send_batch("one", ["1"], delay="0.8 s")
    later = mq.scalar("select mqpg.send('one', '1', deliver_at => clock_timestamp() + interval '1 h')")
    got = {row.message_id for row in mq.delivered("one")}
    assert not got or time.monotonic() - began > 0.8
    wanted = {soon, half, int(batch.split(".")[2]), many}

    def all_came() -> bool:
        got.update(row.message_id for row in mq.delivered("one"))
        return got >= wanted

    eventually(all_came)
    assert got == wanted
    assert mq.value("recall", later)


@pytest.mark.parametrize("on_failure", ["skip", "block_key", "block_queue"])
def test_back_offs_are_kept(on_failure: str, by: str, mq: Session) -> None:
    was_ahead(mq, by)
    mq.call("alter_subscription", "g", "one", retry_delay="0.6 s", on_failure=on_failure)
    message = mq.sent("one", key="k")
    began = time.monotonic()
    mq.nack(mq.receive("one")[0].receipt, [message])
    mq.append()
    if mq.receive("one"):
        assert time.monotonic() - began > 0.6
    else:
        eventually(lambda: (mq.append(), mq.receive("one"))[1])


def test_retries_from_the_wrong_time_come(mq: Session) -> None:
    """They were written while the clock was ahead, and are due as long after that."""
    message = mq.sent("one")
    mq.nack(mq.receive("one")[0].receipt, [message], delay="0.5 s")
    delayed = mq.send("one", delay="0.5 s")
    shift(mq, "30 days")
    got: set[int] = set()

    def came() -> bool:
        got.update(row.message_id for row in mq.delivered("one"))
        return got == {message, delayed}

    eventually(came)


def shift(mq: Session, by: str) -> None:
    """As if everything so far had happened while the clock was ahead."""
    for table, columns in {
        "delayed": ["visible_at"],
        "cursor": ["at"],
        "tick": ["at", "due_until"],
        "half_tick": ["at"],
        "segment": ["opened_at"],
        "worker": ["seen_at"],
        "dead_letter": ["died_at"],
        "commit_log": ["born_at", "check_at"],
    }.items():
        changes = ", ".join(f"{one} = {one} + interval '{by}'" for one in columns)
        mq.execute(f"update mqpg.{table} set {changes}")
    mq.execute(
        f"update mqpg.cursor set claims = array(select row(c.epoch, c.from_offset, c.to_offset, c.attempt, c.lease_until"
        f" + interval '{by}', c.consumer, c.key, c.picked, c.settled)::mqpg.claim from unnest(claims) c)"
    )
    mq.execute(f"update pgmq.q_mqpg_oplog set vt = vt + interval '{by}', enqueued_at = enqueued_at + interval '{by}'")
    mq.execute("update mqpg.tick set due_until = at where tick_id = (select max(tick_id) from mqpg.tick)")
    mq.execute(MARK)


@pytest.mark.parametrize("idle", ["0 days", "10 days"])
def test_leases_from_the_wrong_time_end(mq: Session, idle: str) -> None:
    """Also where nothing was appended for days, so that the newest tick is much older than the lease."""
    mq.sent("one")
    mq.receive("one", lease="0.3 s")
    shift(mq, "30 days")
    mq.execute(f"update mqpg.tick set at = at - interval '{idle}', due_until = due_until - interval '{idle}'")
    notice(mq)
    eventually(lambda: mq.receive("one"))


def of_cursors_only(mq: Session) -> None:
    """As if no append() had appended anything while the clock was ahead."""
    mq.execute(
        "update mqpg.cursor set at = at + interval '30 days', claims = array(select row(c.epoch, c.from_offset,"
        " c.to_offset, c.attempt, c.lease_until + interval '30 days', c.consumer, c.settled, c.picked,"
        " c.key)::mqpg.claim from unnest(claims) c)"
    )


@pytest.mark.parametrize("on_failure", ["skip", "block_queue"])
def test_leases_from_the_wrong_time_end_although_no_append_noticed_it(on_failure: str, mq: Session) -> None:
    mq.call("alter_subscription", "g", "one", on_failure=on_failure)
    sent = mq.sent("one")
    (message,) = mq.receive("one", lease="0.3 s")
    if on_failure == "block_queue":
        mq.nack(message.receipt, [sent], delay="0.3 s")
    of_cursors_only(mq)
    eventually(lambda: mq.receive("one"))
    assert mq.append() == 0


def test_a_queue_that_was_used_at_the_wrong_time_gets_its_turn(mq: Session) -> None:
    mq.sent_batch("t", ["1"] * 8, keys=list("abcdefgh"))
    first = mq.receive("t", max_messages=1)
    mq.ack(first[0].receipt)
    of_cursors_only(mq)
    mq.execute("update mqpg.cursor set at = at - interval '30 days' where queue_id <> %s", first[0].queue_id)
    mq.sent_batch("t", ["1"] * 8, keys=list("abcdefgh"))
    turns = [mq.receive("t", max_messages=1)[0].queue_id for _ in range(2)]
    assert turns[0] == first[0].queue_id != turns[1]


def test_half_messages_from_the_wrong_time_are_checked(mq: Session) -> None:
    mq.call("create_producer_group", "polled", checker="due_checks")
    enqueued = mq.prepare("one", group="polled", check_after="0.2 s")
    mq.execute("select pg_sleep(1.1)")
    mq.sent("one")
    fresh = mq.prepare("one", group="polled", check_after="0.2 s")
    shift(mq, "30 days")
    found: set[str] = set()

    def checked() -> bool:
        notice(mq)
        found.update(row.handle for row in mq.call("due_checks", "polled"))
        return found == {enqueued, fresh}

    eventually(checked)


@pytest.mark.parametrize("noticed", [False, True])
def test_dedup_ids_are_kept(noticed: bool, by: str, mq: Session) -> None:
    was_ahead(mq, by)
    if noticed:
        notice(mq)
    first = mq.send("one", dedup_id="x")
    handle = mq.prepare("one", dedup_id="y")
    notice(mq)
    assert mq.send("one", dedup_id="x") == first
    assert mq.prepare("one", dedup_id="y") == handle


def test_a_group_that_was_full_under_a_wrong_clock_has_room_again(mq: Session) -> None:
    mq.call("alter_producer_group", "pg", max_undecided=1)
    handles = [mq.prepare("one") for _ in range(3)]
    mq.call("due_checks", "pg")
    with refused("MQ026", "undecided"):
        mq.prepare("one")
    mq.execute("update mqpg.producer_group set overfull_at = overfull_at + interval '1 day'")
    for handle in handles:
        mq.rollback(handle)
    mq.call("due_checks", "pg")
    assert mq.prepare("one")


def test_rearm_counts_from_zero_after_checks_under_a_wrong_clock(mq: Session) -> None:
    mq.call("create_producer_group", "once", check_after=seconds(0.01), max_checks=1)
    handle = mq.prepare("one", group="once")
    eventually(lambda: mq.call("due_checks", "once", lease=seconds(0.01)))
    eventually(lambda: mq.call("due_checks", "once") == [] and mq.rows("select from mqpg.half_parked"))
    mq.execute("update mqpg.check_log set at = at + interval '1 day'")
    mq.call("rearm", handle)
    assert [row.attempt for row in mq.call("due_checks", "once")] == [1]
    events = mq.rows("select event from mqpg.check_log order by at")
    assert [row.event for row in events] == ["asked", "parked", "rearmed", "asked"]


def keeper_away(mq: Session, away: str) -> None:
    """No partition of delayed messages or dedup ids is there for the present time."""
    for name in ("delayed", "dedup"):
        mq.execute(f"alter table mqpg.{name} detach partition mqpg.{name}_1")
        mq.execute(f"drop table mqpg.{name}_1")
        rows = mq.rows("select segment_no, lower_bound, upper_bound from mqpg.segment where family = %s", name)
        for number, *_ in rows[1:]:
            mq.execute(f"drop table mqpg.{name}_{number}")
        mq.execute("delete from mqpg.segment where family = %s and segment_no > 1", name)
        end = (
            f"to_char((clock_timestamp() - interval '{away}') at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
            if name == "delayed"
            else f"(mqpg._dedup_slot() - extract(epoch from interval '{away}') / 3600)::bigint::text"
        )
        mq.execute(f"update mqpg.segment set upper_bound = {end} where family = %s", name)
        lower, upper = mq.rows("select lower_bound, upper_bound from mqpg.segment where family = %s", name)[0]
        if name == "dedup":
            lower = str(int(upper) - 12)
            mq.execute("update mqpg.segment set lower_bound = %s where family = 'dedup'", lower)
        mq.execute(f"create table mqpg.{name}_1 partition of mqpg.{name} for values from ('{lower}') to ('{upper}')")
    mq.execute(
        "update mqpg.clock set delayed_until = s.upper_bound::timestamptz from mqpg.segment s where family = 'delayed'"
    )


def test_an_id_is_free_after_its_window_though_no_keeper_makes_slots(mq: Session) -> None:
    keeper_away(mq, "3 days")
    old = [mq.send("one", '"old"', dedup_id="x"), message_id(mq.prepare("one", dedup_id="y"))]
    mq.execute("update mqpg.commit_log set born_at = born_at - interval '61 minutes'")
    new = [mq.send("one", '"new"', dedup_id="x"), message_id(mq.prepare("one", dedup_id="y"))]
    assert not {*old} & {*new}
    assert [mq.send("one", dedup_id="x"), message_id(mq.prepare("one", dedup_id="y"))] == new
    assert [row.payload for row in mq.delivered("one")] == ["old", "new"]
    mq.call("keep")
    assert mq.send("one", dedup_id="x") not in {*old, *new}


@pytest.mark.parametrize("away", ["3 days", "30 days"])
def test_a_keeper_that_was_away(away: str, mq: Session) -> None:
    keeper_away(mq, away)
    message = mq.sent("one")
    mq.nack(mq.receive("one")[0].receipt, [message], delay="10 ms")
    mq.send("one", delay="10 ms")
    first = mq.send("one", dedup_id="x")
    assert mq.send("one", dedup_id="x") == first
    mq.prepare("one", dedup_id="y")
    mq.commit(mq.prepare("one", delay="10 ms"))
    mq.execute("select pg_sleep(0.1)")
    assert len(mq.delivered("one", max_messages=10)) == 4
    mq.call("keep")
    assert mq.send("one", delay="1 hour")


def test_what_happened_is_said(mq: Session, broker: Broker) -> None:
    from mqpg.status import findings, read_overview

    message = mq.sent("one")
    mq.nack(mq.receive("one")[0].receipt, [message], reason="too late", final=True)
    shift(mq, "30 days")
    notice(mq)
    honest = mq.sent("one")
    mq.nack(mq.receive("one")[0].receipt, [honest], reason="bad", final=True)
    reasons: dict[int, Any] = {row.message_id: row.reason for row in mq.call("dead_letters", "g", "one")}
    assert "clock was ahead" in reasons[message]
    assert "clock" not in reasons[honest]
    with psycopg.connect(broker.dsn, row_factory=psycopg.rows.dict_row) as connection:
        found = findings(read_overview(lambda query: connection.execute(query.encode()).fetchall()))
    (step,) = [one for one in found if one.check == "clock step"]
    assert "1 dead letter" in step.found


def test_the_broker_comes_near_the_clock_again(mq: Session) -> None:
    was_ahead(mq, "20 hours")
    notice(mq)
    mq.execute("update mqpg.clock set seen_at = seen_at - interval '20 hours'")  # and then it jumps forward
    notice(mq)
    assert mq.scalar("select extract(epoch from ahead) < 60 from mqpg.clock")
    mq.sent("one", delay="1 hour")
    assert not mq.receive("one")


def test_a_step_of_less_than_a_second_is_none(mq: Session) -> None:
    was_ahead(mq, "0.7 s")
    notice(mq)
    assert mq.scalar("select count(*) from mqpg.clock_step") == 0


def test_segments_that_are_open_stay_open(mq: Session) -> None:
    open_ones = (
        "select segment_no, family from mqpg.segment where closed_at is null and body_dropped_at is null order by 2, 1"
    )
    before = mq.rows(open_ones)
    mq.execute(
        "update mqpg.segment set made_at = made_at + interval '2 days', opened_at = opened_at + interval '2 days'"
    )
    mq.execute("select mqpg._note_clock_step('2 days')")
    assert mq.rows(open_ones) == before
    assert mq.scalar("select count(*) from mqpg.segment where greatest(made_at, opened_at) > clock_timestamp()") == 0
    mq.subscribed("later", queues=8)
