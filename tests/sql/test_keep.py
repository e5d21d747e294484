"""keep(): segments made ahead, closed and dropped under I11, survivors in held, cursor slots carried."""

import pytest

from tests.support.broker import Broker, Session, make_due, positions, refused, seconds
from tests.support.retention import (
    aged,
    dropped,
    early_in_the_hour,
    end_delayed_slot,
    gone,
    keep,
    partitions,
    payloads,
    retain,
    roll,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.own_database  # segments roll


# making


def test_a_fresh_install_has_segments_ahead_and_needs_no_pass(mq: Session) -> None:
    assert {len(partitions(mq, t)) for t in ("commit_log", "op_log", "check_log", "tick", "half_tick")} == {3}
    assert len(partitions(mq, "cursor")) == 1
    assert len(partitions(mq, "delayed")) == 3
    assert len(partitions(mq, "dedup")) == 3
    # the hour or the day, and so a slot, may have turned since the template was made
    assert {row.family for row in mq.call("keep")} <= {"dedup", "delayed"}


def test_partitions_are_like_their_parents(mq: Session) -> None:
    keep(mq)
    for parent in ("commit_log", "op_log", "cursor"):
        sql = (
            "select attname, attstorage, attcompression, attnotnull from pg_attribute"
            " where attrelid = %s::regclass and attnum > 0 order by attnum"
        )
        for partition in partitions(mq, parent):
            assert mq.rows(sql, f"mqpg.{partition}") == mq.rows(sql, f"mqpg.{parent}")
            indexes = "select count(*) from pg_index where indrelid = %s::regclass"
            assert mq.scalar(indexes, f"mqpg.{partition}") == mq.scalar(indexes, f"mqpg.{parent}")


def test_segments_are_made_ahead_of_the_sequence(mq: Session) -> None:
    mq.execute("select setval('mqpg.batch_id', 268435456 * 2 + 5)")
    made = [tuple(r)[:3] for r in mq.call("keep") if r.action == "made" and r.family == "log"]
    assert made == [("made", "log", 4), ("made", "log", 5)]
    assert mq.send("one", "1") > 268435456 * 2048
    assert mq.append() == 1


def test_a_sequence_set_far_ahead_leaves_out_what_it_jumped_over(mq: Session) -> None:
    mq.execute("select setval('mqpg.batch_id', 268435456 * 50::bigint)")
    assert sum((r.action, r.family) == ("made", "log") for r in mq.call("keep")) == 3
    mq.send("one", "1")


def test_time_slots_are_made_ahead(mq: Session) -> None:
    early_in_the_hour(mq)
    keep(mq)
    mq.execute("update mqpg.settings set value = '5' where name = 'segments_ahead'")
    made = [tuple(r)[:2] for r in mq.call("keep")]
    assert made.count(("made", "delayed")) == 3
    assert made.count(("made", "dedup")) == 3
    assert mq.call("keep") == []


@pytest.mark.parametrize("window", ["2 hours", "10 minutes"])
def test_another_dedup_window_gets_its_slots(mq: Session, window: str) -> None:
    """A new window has its slots at once, without a keeper, and known ids stay known."""
    known = mq.send("one", "1", dedup_id="x")
    for value in (window, "1 hour", window):
        mq.execute("update mqpg.settings set value = %s where name = 'dedup_window'", value)
        assert mq.send("one", "1", dedup_id="x") == known
    first = mq.send("one", "1", dedup_id="y")
    assert mq.send("one", "1", dedup_id="y") == first
    reported = keep(mq)
    assert mq.send("one", "1", dedup_id="x") == known
    if window == "10 minutes":
        gone(mq, {"dedup_1"}, reported)


@pytest.mark.parametrize("window", ["1 s", "7 s", "27 s", "1 minute", "1 hour"])
def test_dedup_ids_need_no_keeper_for_ten_minutes(mq: Session, window: str) -> None:
    mq.execute("update mqpg.settings set value = '1' where name = 'segments_ahead'")
    mq.execute("update mqpg.settings set value = %s where name = 'dedup_window'", window)
    # The clock of dedup ids will stand still at the end of the ten minutes: both sends are in one slot.
    later = mq.scalar("select replace(pg_get_functiondef('mqpg._dedup_slot(interval)'::regprocedure),"
                      " 'clock_timestamp()', format('(%L::timestamptz + interval ''599 s'')', clock_timestamp()))")  # fmt: skip
    keep(mq)
    mq.execute(later)
    first = mq.send("t", "1", dedup_id="x")
    assert mq.send("t", "1", dedup_id="x") == first
    assert mq.scalar("select count(*) from mqpg.segment where family = 'dedup' and dropped_at is null") <= 6


@pytest.mark.parametrize("slot", ["10 ms", "1 minute", "1 day"])
def test_delayed_messages_need_no_keeper_for_ten_minutes(mq: Session, slot: str) -> None:
    # As of now, and not a day ahead as the installation made it.
    mq.execute("update mqpg.settings set value = %s where name = 'delayed_slot'", slot)
    mq.execute("update mqpg.settings set value = '1' where name = 'segments_ahead'")
    bound = mq.scalar("select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
    mq.execute("drop table mqpg.delayed_2, mqpg.delayed_3")
    mq.execute("delete from mqpg.segment where family = 'delayed' and segment_no > 1")
    mq.execute("alter table mqpg.delayed detach partition mqpg.delayed_1")
    mq.execute("update mqpg.segment set upper_bound = %s where family = 'delayed'", bound)
    mq.execute(f"alter table mqpg.delayed attach partition mqpg.delayed_1 for values from ('-infinity') to ('{bound}')")
    at = mq.scalar("select clock_timestamp() + interval '599 s'")
    keep(mq)
    mq.execute(
        "insert into mqpg.delayed (visible_at, xid, first_id, n, written_at, topic_id, queue_id)"
        " select 'infinity', '2', 0, 1, %s, topic_id, 0 from mqpg.topic limit 1",
        at,
    )
    assert mq.scalar("select count(*) from mqpg.segment where family = 'delayed' and dropped_at is null") <= 6


def test_the_dedup_window_changes_between_two_sends_and_never_within_one(mq: Session, broker: Broker) -> None:
    change = "update mqpg.settings set value = '2 hours' where name = 'dedup_window'"
    sender, other = broker.session(), broker.session()
    with sender.transaction():
        first = sender.send("one", "1", dedup_id="x")
        changed = broker.blocked(other, other.execute, change)
    changed.result(45)
    with other.transaction():
        other.execute(change.replace("2 hours", "10 minutes"))
        again = broker.blocked(sender, sender.send, "one", "1", dedup_id="x")
    assert again.result(45) == first


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dedup_window", "-1 h"),
        ("dedup_window", "999 ms"),
        ("dedup_window", "soon"),
        ("lock_timeout", "banana"),
        ("lock_timeout", "0"),
        ("segments_ahead", "0"),
        ("segments_ahead", "2 hours"),
        ("held_limit", "-1"),
        ("segment_age", "999999999999 years"),
        ("segment_age", None),
        ("held_limit", None),
    ],
)
def test_settings_out_of_range_are_refused(mq: Session, name: str, value: str | None) -> None:
    before = mq.rows("select * from mqpg.settings order by name")
    with refused("MQ001", f"setting {name} must be"):
        mq.execute("update mqpg.settings set value = %s where name = %s", value, name)
    assert mq.rows("select * from mqpg.settings order by name") == before


def test_the_lock_timeout_may_be_written_as_any_interval(mq: Session) -> None:
    mq.execute("update mqpg.settings set value = '00:00:01.5' where name = 'lock_timeout'")
    assert mq.scalar("select mqpg._setting('lock_timeout')") == "1500 ms"


def test_making_a_segment_does_not_wait_for_senders_nor_they_for_it(mq: Session, broker: Broker) -> None:
    sender, other = broker.session(), broker.session()
    keep(mq)
    mq.execute("update mqpg.settings set value = '5' where name = 'segments_ahead'")
    with sender.transaction():
        sender.send("one", "1")
        with mq.transaction():
            assert sum(r.action == "made" for r in mq.call("keep")) > 5
            broker.background(other.send, "one", "2").result(45)
    assert mq.append() == 2


# closing


def test_a_log_segment_is_closed_by_age_and_its_ids_are_left_out(brisk: Session) -> None:
    before = brisk.sent("one", "1")
    assert ("rolled", "log", 1) in [row[:3] for row in aged(brisk)]
    after = brisk.send("one", "2")
    assert before < 268435456 * 1024 <= after
    brisk.append()
    assert [p[1] for p in positions(brisk, "one")] == [0, 1]


def test_a_message_of_an_open_transaction_is_known_after_its_segment(brisk: Session, broker: Broker) -> None:
    """No id of the next segment has been given out yet, and all ids before it have."""
    brisk.send("one", "1")
    with broker.transaction() as sender:
        about = sender.send("one", "2"), sender.prepare("one", "3")
        assert ("rolled", "log", 1) in [row[:3] for row in aged(brisk)]
        assert [row.cause for one in about for row in brisk.call("why", one)] == ["transaction_open"] * 2
    brisk.send("one", "4")
    assert brisk.append() == 3


def test_an_idle_log_is_not_rolled(brisk: Session) -> None:
    brisk.sent("one", "1")
    brisk.drain("one")
    roll(brisk)
    last = brisk.scalar("select last_value from mqpg.batch_id")
    roll(brisk)
    assert brisk.scalar("select last_value from mqpg.batch_id") == last


def test_a_sequence_near_the_end_is_not_set(brisk: Session) -> None:
    brisk.execute("select setval('mqpg.batch_id', 268435456 - 1000)")
    assert "log" not in [row[1] for row in aged(brisk) if row[0] == "rolled"]
    assert brisk.scalar("select last_value from mqpg.batch_id") == 268435456 - 1000


def test_ticks_go_on_in_the_next_segment_and_lose_nothing(brisk: Session, broker: Broker) -> None:
    with broker.transaction() as slow:
        slow.send("one", "2")
        brisk.send("one", "1")
        assert brisk.append() == 1
        assert ("rolled", "tick", 1) in [row[:3] for row in aged(brisk)]
        carried = brisk.rows("select * from mqpg.tick order by tick_id desc limit 2")
        assert carried[0].tick_id == 1073741824
        assert (carried[0].snapshot, carried[0].floor_id) == (carried[1].snapshot, carried[1].floor_id)
        brisk.send("one", "3")
        assert brisk.append() == 1
    assert brisk.append() == 1
    assert brisk.append() == 0
    assert payloads(brisk.drain("one")) == [1, 3, 2]
    assert [p[1] for p in positions(brisk, "one")] == [0, 1, 2]


def test_half_ticks_follow_and_forget_no_half(brisk: Session, broker: Broker) -> None:
    slow = broker.session()
    brisk.call("create_producer_group", "led", check_after=seconds(0.01), checker="ledger")
    retain(brisk, "0 s")
    with slow.transaction():
        handle = slow.prepare("one", "1", "led")
        brisk.prepare("one", "1", "led")
        brisk.value("compensate")
        brisk.sent("one", "1")
        roll(brisk, closes=False)
        assert brisk.scalar("select max(half_tick_id) from mqpg.half_tick") >= 1073741824
    eventually(lambda: (brisk.value("compensate"), brisk.scalar("select count(*) = 2 from mqpg.op_log"))[1])
    assert brisk.rollback(handle) == "already_rolled_back"


# dropping, I11


def test_I11_what_is_delivered_and_past_retention_goes(brisk: Session) -> None:
    brisk.sent_batch("t", ["1"] * 50)
    assert len(brisk.drain("t")) == 50
    gone(brisk, {"consume_queue_1", "tick_1", "half_tick_1", "commit_log_1", "op_log_1", "check_log_1"}, roll(brisk))
    assert brisk.scalar("select count(*) from mqpg.commit_log") == 0
    assert brisk.scalar("select count(*) from mqpg.held") == 0


def test_I11_nothing_goes_before_the_longest_retention_in_it(brisk: Session) -> None:
    retain(brisk, "1 h", "t")
    brisk.send("one", "1")
    brisk.sent("t", "1")
    brisk.drain("one")
    brisk.drain("t")
    assert not dropped(roll(brisk)) & {"commit_log_1", "consume_queue_1"}
    retain(brisk, "0 s")
    gone(brisk, {"commit_log_1", "consume_queue_1"}, keep(brisk))


def test_I11_a_longer_retention_of_a_topic_elsewhere_keeps_nothing(brisk: Session) -> None:
    retain(brisk, "1 h", "t")
    brisk.sent("one", "1")
    brisk.drain("one")
    gone(brisk, {"commit_log_1", "consume_queue_1"}, roll(brisk))


def test_I11_undelivered_pins_and_is_reported(brisk: Session) -> None:
    brisk.sent("one", '"wanted"')
    reported = roll(brisk)
    assert "consume_queue_1" not in dropped(reported)
    assert ("pinned", "tick", 1, "g has one queue 0 at 0 of 1") in reported
    assert payloads(brisk.drain("one")) == ["wanted"]
    gone(brisk, {"consume_queue_1"}, keep(brisk))


def test_I11_the_oldest_of_many_shared_claims_pins(brisk: Session) -> None:
    """The claims of one queue end in any order, and their cursors are carried meanwhile."""
    brisk.call("subscribe", "crowd", "one", mode="shared", retry_delay=seconds(0))
    brisk.sent_batch("one", [str(i) for i in range(5)])
    brisk.drain("one")
    held = [brisk.receive("one", group="crowd", max_messages=1)[0] for _ in range(5)]
    for message in held[1:4]:
        brisk.ack(message.receipt)
    reported = roll(brisk)
    gone(brisk, {"cursor_1"}, reported)
    assert "consume_queue_1" not in dropped(reported)
    assert ("pinned", "tick", 1, "crowd has one queue 0 at 0 of 5") in reported
    unread = {message.message_id for message in (held[0], held[4])}
    assert {row.message_id for row in brisk.rows("select message_id from mqpg.held")} >= unread
    brisk.nack(held[0].receipt, [held[0].message_id], reason="not yet")
    assert payloads(brisk.delivered("one", group="crowd")) == [0]
    assert "consume_queue_1" not in dropped(keep(brisk))
    brisk.ack(held[4].receipt)
    gone(brisk, {"consume_queue_1"}, keep(brisk))
    assert brisk.scalar("select count(*) from mqpg.held") == 0


def test_I11_messages_with_offsets_that_can_be_read_are_held(brisk: Session) -> None:
    """The messages' ids lie in a log segment that is dropped, and their offsets in a tick segment that remains."""
    retain(brisk, "1 h", "t")
    ids = brisk.sent_batch("one", ["1", "2", "3"])
    brisk.send("t", "1")  # keeps the tick segment
    brisk.delivered("one")
    brisk.drain("t")
    brisk.execute("update mqpg.settings set value = '1' where name = 'held_limit'")
    reported = roll(brisk)
    assert not dropped(reported) & {"commit_log_1", "consume_queue_1"}
    # the topic with the longer retention is gone from the log, not from the ticks
    retain(brisk, "0 s")
    brisk.call("subscribe", "new", "one")
    reported = keep(brisk)
    assert ("pinned", "tick", 1) in [row[:3] for row in reported]
    (pin,) = {row[3] for row in reported if row[:3] == ("pinned", "log", 1)}
    assert "3 queued" in pin  # those of the other topic are delivered: no group needs them
    brisk.execute("update mqpg.settings set value = '100' where name = 'held_limit'")
    gone(brisk, {"commit_log_1"}, keep(brisk))
    assert {row.message_id for row in brisk.rows("select message_id from mqpg.held")} >= set(ids)
    assert payloads(brisk.call("fetch", "one", 0, 0)) == [1, 2, 3]
    assert payloads(brisk.drain("one", group="new")) == [1, 2, 3]
    gone(brisk, {"consume_queue_1", "half_tick_1"}, keep(brisk))
    assert brisk.scalar("select count(*) from mqpg.held") == 0


def test_I11_undecided_parked_delayed_and_retried_are_held_and_work_on(brisk: Session) -> None:
    retain(brisk, "1 day")
    brisk.call("create_producer_group", "app", check_after=seconds(0.01), max_checks=1)
    undecided = brisk.prepare("one", '"undecided"', key="k", tag="x", headers='{"h": 1}')
    parked = brisk.prepare("one", '"parked"', "app")
    late = brisk.prepare("one", '"late"', delay=seconds(3600))
    assert brisk.commit(late, '"late, final"') == "committed"
    brisk.send("one", '"delayed"', delay=seconds(3600))
    brisk.send("one", '"retried"')
    for _ in range(20):
        brisk.rollback(brisk.prepare("one", "0"))
    brisk.append()
    (message,) = brisk.receive("one")
    brisk.nack(message.receipt, [message.message_id], delay=seconds(3600))
    eventually(lambda: brisk.call("due_checks", "app", lease=seconds(0.01)))
    eventually(lambda: brisk.call("due_checks", "app") == [] and brisk.rows("select from mqpg.half_parked"))

    retain(brisk, "0 s")
    reported = roll(brisk)

    gone(brisk, {"commit_log_1", "consume_queue_1"}, reported)
    assert "op_log_1" not in dropped(reported)
    held = brisk.rows("select payload, kind::text from mqpg.held")
    assert sorted(row.payload for row in held) == ["delayed", "late", "late, final", "parked", "retried", "undecided"]
    assert [row.handle for row in brisk.rows("select handle from mqpg.half_pending")] == [undecided]
    assert [row.handle for row in brisk.rows("select handle from mqpg.half_parked")] == [parked]
    assert brisk.commit(undecided) == "committed"
    assert brisk.value("settle", parked, "commit", "looked") == "committed"
    got = brisk.delivered("one")
    assert payloads(got) == ["undecided", "parked"]
    assert (got[0].key, got[0].tag, got[0].headers) == ("k", "x", {"h": 1})
    roll(brisk)
    held = brisk.rows("select payload from mqpg.held")
    assert sorted(row.payload for row in held) == ["delayed", "late", "late, final", "retried"]


def test_I11_dead_letters_are_held(brisk: Session) -> None:
    brisk.call("alter_subscription", "g", "one", max_attempts=1)
    dead = brisk.sent("one", '"dead"', key="k")
    (message,) = brisk.receive("one")
    brisk.nack(message.receipt, [dead], reason="poison")
    gone(brisk, {"commit_log_1", "consume_queue_1"}, roll(brisk))
    (letter,) = brisk.call("dead_letters", "g", "one")
    assert (letter.message_id, letter.key, letter.payload) == (dead, "k", "dead")
    assert (letter.attempts, letter.reason) == (1, "poison")
    brisk.call("unsubscribe", "g", "one")
    brisk.sent("t", "1")
    brisk.drain("t")
    roll(brisk)
    assert brisk.scalar("select count(*) from mqpg.held") == 0


def test_I11_more_survivors_than_may_be_held_pin(brisk: Session) -> None:
    brisk.execute("update mqpg.settings set value = '3' where name = 'held_limit'")
    handles = [brisk.prepare("one", "1") for _ in range(4)]
    brisk.sent("one", "1")
    brisk.drain("one")
    reported = roll(brisk)
    assert "commit_log_1" not in dropped(reported)
    assert ("pinned", "log", 1, "more than held_limit = 3 messages must stay readable: 4 undecided") in reported
    assert brisk.scalar("select count(*) from mqpg.held") == 0
    brisk.rollback(handles[0])
    gone(brisk, {"commit_log_1"}, keep(brisk))
    assert brisk.scalar("select count(*) from mqpg.held") == 3


def test_a_snapshot_older_than_a_drop_must_be_taken_again(brisk: Session, broker: Broker) -> None:
    """The table is gone, and its survivors are not in the old snapshot.

    The caller is asked to retry, and no body counts as missing.
    """
    brisk.sent("one", '"a"')
    retain(brisk, "7 days")
    roll(brisk)
    reader = broker.session("begin isolation level repeatable read; select from mqpg.topic")
    retain(brisk, "0 s")
    gone(brisk, {"commit_log_1"}, keep(brisk))
    with refused("40001", "try the transaction again"):
        reader.call("fetch", "one", 0, 0)
    reader.execute("rollback")
    assert payloads(reader.call("fetch", "one", 0, 0)) == ["a"]


def test_I11_the_same_few_many_times_do_not_hide_the_others(brisk: Session) -> None:
    """Dead letters of many subscriptions are more rows than keep() reads, but not more messages than it may copy."""
    brisk.execute("update mqpg.settings set value = '2' where name = 'held_limit'")
    groups = [f"g{i}" for i in range(10)]
    for group in groups:
        brisk.call("subscribe", group, "one", max_attempts=1)
    brisk.sent_batch("one", ['"a"', '"b"'])
    for group in groups:
        died = "b" if group == groups[-1] else "a"
        while got := brisk.receive("one", group=group, max_messages=1):
            if got[0].payload == died:
                brisk.nack(got[0].receipt, [got[0].message_id])
            else:
                brisk.ack(got[0].receipt)
    brisk.drain("one")
    gone(brisk, {"commit_log_1"}, roll(brisk))
    assert [brisk.call("dead_letters", group, "one")[0].payload for group in (groups[0], groups[-1])] == ["a", "b"]


def test_a_held_half_is_unknown_after_the_op_log_went(brisk: Session) -> None:
    """One half is a dead letter, and the other was decided when its body was already copied."""
    brisk.call("subscribe", "strict", "one", max_attempts=1)
    dead = brisk.prepare("one", '"first"', key="k")
    brisk.commit(dead, '"final"')
    late = brisk.prepare("one", "1", key="late")
    brisk.append()
    got = brisk.receive("one", group="strict")
    brisk.nack(got[0].receipt, [got[0].message_id])
    brisk.drain("one")
    gone(brisk, {"commit_log_1"}, roll(brisk))
    assert brisk.rollback(late) == "rolled_back"
    gone(brisk, {"op_log_1", "check_log_1"}, keep(brisk))
    assert brisk.commit(dead) == "unknown"
    assert brisk.rollback(late) == "unknown"
    assert [r.outcome for r in brisk.call("commit_batch", [dead, late])] == ["unknown", "unknown"]
    with refused("MQ006"):
        brisk.call("local_begin", dead)
    assert payloads(brisk.call("dead_letters", "strict", "one")) == ["final"]
    found = brisk.call("find_by_key", "one", "k")[0]
    assert (found.state, found.payload) == ("appended", "final")
    assert brisk.call("find_by_key", "one", "late") == []


def test_op_log_stays_while_a_held_half_is_undecided(brisk: Session) -> None:
    handle = brisk.prepare("one", '"x"')
    brisk.sent("one", "1")
    brisk.drain("one")
    reported = roll(brisk)
    gone(brisk, {"commit_log_1"}, reported)
    assert ("pinned", "log", 1, "op_log: one of its messages may still be decided") in reported
    assert brisk.commit(handle) == "committed"
    assert brisk.commit(handle) == "already_committed"
    assert "op_log_1" not in dropped(keep(brisk))  # not appended yet
    assert brisk.append() == 1
    assert payloads(brisk.drain("one")) == ["x"]
    gone(brisk, {"op_log_1"}, keep(brisk))


def test_a_repeated_decision_is_unknown_after_the_op_log_went(brisk: Session) -> None:
    handle = brisk.prepare("one", "1")
    brisk.commit(handle)
    brisk.delivered("one")
    assert brisk.commit(handle) == "already_committed"
    gone(brisk, {"op_log_1"}, roll(brisk))
    assert brisk.commit(handle) == "unknown"


def test_tails_never_go_back(brisk: Session) -> None:
    brisk.sent_batch("one", ["1"] * 7)
    brisk.drain("one")
    gone(brisk, {"consume_queue_1"}, roll(brisk))
    (depth,) = brisk.rows("select oldest_offset, next_offset from mqpg.queue_depth where topic = 'one'")
    assert tuple(depth) == (7, 7)
    brisk.call("subscribe", "new", "one")
    brisk.sent("one", "8")
    (message,) = brisk.drain("one")
    assert (message.queue_offset, message.payload) == (7, 8)
    assert [m.queue_offset for m in brisk.drain("one", group="new")] == [7]


def test_delayed_slots_go_when_all_is_appended(brisk: Session) -> None:
    retain(brisk, "1 h")
    brisk.send("one", '"soon"', delay=seconds(0.01))
    brisk.send("one", '"later"', delay=seconds(600))
    retain(brisk, "0 s")
    end_delayed_slot(brisk)
    brisk.append()
    assert ("pinned", "delayed", 1) in [row[:3] for row in keep(brisk, 3)]
    make_due(brisk)
    eventually(lambda: (brisk.append(), brisk.rows("select from mqpg.consume_queue having sum(n) = 2"))[1])
    gone(brisk, {"delayed_1"}, keep(brisk, 3))
    assert payloads(brisk.drain("one")) == ["soon", "later"]


def test_old_ledger_rows_go_with_their_halves_decided(brisk: Session) -> None:
    decided, undecided = brisk.prepare("one", "1"), brisk.prepare("one", "1")
    young = brisk.prepare("one", "1")
    for handle in (decided, undecided, young):
        brisk.call("local_begin", handle)
        if handle != undecided:
            brisk.commit(handle)
    brisk.execute("update mqpg.ledger set at = at - interval '31 days' where handle <> %s", young)
    brisk.delivered("one")
    gone(brisk, {"half_tick_1"}, roll(brisk))
    assert {row.handle for row in brisk.rows("select handle from mqpg.ledger")} == {undecided, young}


def test_a_ledger_that_gets_more_rows_than_one_call_deletes_does_not_grow(brisk: Session) -> None:
    brisk.execute(
        "insert into mqpg.ledger (handle, at) select 'gone ' || i, now() - interval '31 days'"
        " from generate_series(1, 20001) as i"
    )
    brisk.sent("one")
    brisk.drain("one")
    gone(brisk, {"half_tick_1"}, roll(brisk))
    assert brisk.rows("select from mqpg.ledger") == []


# cursors


def test_a_closed_slot_refuses_a_writer_with_an_old_snapshot(brisk: Session, broker: Broker) -> None:
    brisk.sent("one", "1")
    with broker.snapshot() as old:
        aged(brisk)
        with pytest.raises(Exception, match="concurren"):
            old.receive("one")


def test_a_sealed_slot_refuses_a_session_without_triggers(mq: Session) -> None:
    """What is written into it would be dropped with it."""
    # All of them, because the day may have ended since the first was made.
    mq.execute("select mqpg._seal_partition('delayed', segment_no) from mqpg.segment where family = 'delayed'")
    mq.execute("set session_replication_role = replica")
    with refused("40001", "closed and about to be dropped"):
        mq.send("one", delay="1 hour")


def test_trap_a_transaction_that_knew_the_table_before_the_new_slot_sees_the_carried_state(
    brisk: Session, broker: Broker
) -> None:
    """The transaction would mistake the closing row for the newest one, and write a version twice."""
    old = broker.session()
    for queue_id in range(4):
        brisk.send("t", "1", key=key_of(brisk, queue_id))
    brisk.append()
    with old.transaction():
        for queue_id in range(3):
            (message,) = old.receive("t", queue_id=queue_id)
            old.ack(message.receipt)
            assert ("made", "cursor") in [row[:2] for row in aged(brisk)]
    assert len(brisk.drain("t")) == 1
    twice = "select subscription_id, queue_id, version from mqpg.cursor group by 1, 2, 3 having count(*) > 1"
    assert brisk.rows(twice) == []
    assert mq_lag(brisk) == 0


def key_of(mq: Session, queue_id: int) -> str:
    """Return a key whose messages go to that queue of four."""
    sql = "select k::text from generate_series(1, 100) as k where mqpg._queue_of(k::text, 4) = %s"
    return str(mq.scalar(sql, queue_id))


def mq_lag(mq: Session) -> int:
    return int(mq.scalar("select sum(lag) from mqpg.subscription_lag where topic = 't'"))
