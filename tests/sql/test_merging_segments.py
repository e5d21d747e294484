"""Closed segments become one: their number stays bounded, and each topic keeps its own retention."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from tests.support.broker import Broker, Session, make_due
from tests.support.mutation import only_if, without
from tests.support.retention import age, early_in_the_hour, keep, partitions, pass_time, payloads
from tests.support.waiting import eventually

MOST = 8  # closed segments of a family in these tests
PARENTS = ("commit_log", "op_log", "check_log", "consume_queue", "tick", "half_tick")


@pytest.fixture
def broker(dsn: str) -> Iterator[Broker]:
    with closing(Broker(dsn)) as opened:
        yield opened


@pytest.fixture
def mq(broker: Broker) -> Session:
    """Topics of a day, a month and a year with one queue each, read by the group `g`."""
    session = broker.session()
    for topic, retention in (("day", "1 day"), ("month", "30 days"), ("year", "365 days")):
        session.call("create_topic", topic, 1, retention)
        session.call("subscribe", "g", topic)
    session.call("create_producer_group", "pg")
    setting(session, "segments_most", str(MOST))
    setting(session, "merge_waste", "0")
    setting(session, "op_log_keep", "0 s")
    return session


def setting(mq: Session, name: str, value: str) -> None:
    mq.execute("update mqpg.settings set value = %s where name = %s", value, name)


def segment(mq: Session, hours: int = 6, work: Callable[[], Any] = lambda: None) -> list[Any]:
    """Fill one segment, close it, and let its time pass."""
    for topic in ("day", "month", "year"):
        mq.send(topic, json.dumps(f"{topic} {mq.scalar('select last_value from mqpg.batch_id')}"))
    work()
    mq.append()
    age(mq, "0 s")
    reported = [tuple(row) for row in mq.call("keep")]
    age(mq, "100 years")
    reported += keep(mq, 100)
    pass_time(mq, f"{hours} hours")
    return reported + keep(mq, 100)


def steps(mq: Session, until: str) -> list[str]:
    """Call keep() until it reports this; return the details."""
    details: list[str] = []
    for _ in range(300):
        rows = [tuple(row) for row in mq.call("keep")]
        details += [row[3] for row in rows]
        if any(row[0] == until or row[3].startswith(until) for row in rows):
            return details
    raise AssertionError(details[-20:])


def closed(mq: Session, family: str = "log") -> list[Any]:
    return mq.rows(
        "select * from mqpg.segment where family = %s and closed_at is not null and dropped_at is null"
        " order by segment_no",
        family,
    )


def begun(mq: Session, family: str = "log", older: str = "0 s") -> None:
    """Fill segments until a merge of this family is on its way."""
    setting(mq, "segments_most", "1000")
    setting(mq, "merge_waste", "1000000000")
    while len(closed(mq, family)) < 5:
        segment(mq)
    pass_time(mq, older)
    setting(mq, "segments_most", "4")
    if family == "log":  # the merge of ticks comes first
        steps(mq, "merged")
    steps(mq, "segments 1, 2, 3, 4")
    assert mq.rows("select * from mqpg.segment_merge where family = %s", family)


def taken(mq: Session, topic: str) -> list[Any]:
    return payloads(mq.drain(topic, max_messages=1000))


# the number of segments and what they hold


def test_day_month_and_year_side_by_side_keep_few_partitions(mq: Session) -> None:
    expected = []
    for _ in range(60):
        segment(mq)
        for topic in ("day", "month"):
            mq.drain(topic)
        for parent in PARENTS:
            assert len(partitions(mq, parent)) <= MOST + 1 + 3, parent
    expected = [
        json.loads(row[0])
        for row in mq.rows(
            "select l.payloads[1]::text from mqpg.commit_log l join mqpg.topic t using (topic_id)"
            " where t.name = 'year' order by l.batch_id"
        )
    ]
    assert len(expected) == 60
    assert taken(mq, "year") == expected
    held = dict(mq.rows("select t.name, sum(l.n) from mqpg.commit_log l join mqpg.topic t using (topic_id) group by 1"))
    assert held["month"] == 60
    assert held["day"] <= 20  # a third of the bytes: left out where segments are merged by number


def test_a_time_or_an_offset_finds_the_same_message_after_merging(mq: Session) -> None:
    for _ in range(5):
        segment(mq)
    before = [tuple(row) for row in mq.call("fetch", "year", 0, 0)]
    state = [[tuple(e) for e in mq.call("trace", row[0])] for row in before]
    at = mq.scalar("select at from mqpg.tick where tick_id = (select max(tick_id) from mqpg.tick)")
    ticks = mq.scalar("select mqpg._offset_at_time(3, 0, 0, %s)", at)
    while not any(row.merged_at for row in closed(mq, "tick")) or not any(row.merged_at for row in closed(mq)):
        segment(mq)
    assert [tuple(row) for row in mq.call("fetch", "year", 0, 0)][: len(before)] == before
    assert [[tuple(e) for e in mq.call("trace", row[0])] for row in before] == state
    assert mq.scalar("select mqpg._offset_at_time(3, 0, 0, %s)", at) in (ticks, None) or ticks


def test_a_retention_of_a_hundred_years_stays_bounded(mq: Session) -> None:
    mq.call("alter_topic", "year", "100 years")
    for _ in range(12):
        segment(mq, hours=24 * 365)
    assert max(len(partitions(mq, parent)) for parent in PARENTS) <= MOST + 4
    assert len(taken(mq, "year")) == 12


def test_where_nothing_can_be_merged_segments_become_longer(mq: Session, broker: Broker) -> None:
    """Somebody holds a snapshot for months: the segments get as long as the retention needs."""
    setting(mq, "segments_most", "4")
    with broker.transaction() as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.rows("select count(*) from mqpg.commit_log")
        mq.execute(
            "insert into mqpg.segment (family, segment_no, lower_bound, upper_bound, closed_at)"
            " select 'log', -i, -i, -i + 1, clock_timestamp() from generate_series(1, 9) i"
        )
        assert mq.scalar("select mqpg._segment_age('log') > '13 days'")
        mq.execute("delete from mqpg.segment where segment_no < 0")
        setting(mq, "segment_age", "6 hours")
        assert mq.scalar("select mqpg._segment_age('log') = '6 hours'")


# what must stay readable (I11)


def test_what_a_group_has_not_read_is_carried_over(mq: Session) -> None:
    """Messages of a day that nobody read in four days are there, and the ones that were read are gone."""
    read = [mq.send("day", '"read"')]
    mq.delivered("day")
    for _ in range(16):
        segment(mq)
    assert any(row.left_out for row in closed(mq))
    assert mq.rows("select * from mqpg.commit_log where batch_id = %s", read[0] // 1024) == []
    got = taken(mq, "day")
    assert len(got) == 16
    assert got == sorted(got, key=lambda text: int(text.split()[1]))


def test_a_policy_loses_unread_messages_although_another_topic_keeps_the_segment(mq: Session) -> None:
    mq.call("alter_topic", "day", lose_after="1 hour")
    for _ in range(28):
        segment(mq)
    lost = mq.scalar("select sum(messages) from mqpg.losses where topic = 'day' and why = 'age'")
    assert lost >= 20
    stored = "select sum(l.n) from mqpg.commit_log l join mqpg.topic t using (topic_id) where t.name = %s"
    assert mq.scalar(stored, "day") <= 20
    assert mq.scalar(stored, "year") == 28


def test_halves_delays_retries_and_dead_letters_of_a_short_topic_survive(mq: Session) -> None:
    mq.call("alter_subscription", "g", "day", max_attempts=1)
    ids = [mq.send("day", '"dead"')]
    mq.append()
    mq.nack(mq.receive("day")[0].receipt, ids)
    mq.append()
    handle = mq.prepare("day", '"half"')
    open_half = mq.prepare("day", '"open"')
    late = mq.send("day", '"late"', delay="20 hours")
    recalled = mq.send("day", '"recalled"', delay="20 hours")
    assert mq.value("recall", recalled)
    assert mq.rollback(mq.prepare("day", '"rolled back"')) == "rolled_back"
    for _ in range(20):
        segment(mq)
        mq.drain("day")
    assert any(row.left_out for row in closed(mq))
    assert mq.commit(handle) == "committed"
    mq.append()
    assert taken(mq, "day") == ["half"]
    assert mq.commit(handle) == "already_committed"
    assert mq.rollback(open_half) == "rolled_back"
    mq.value("recall", late)
    assert mq.value("recall", recalled)
    assert mq.value("redrive", "g", "day") == 1
    mq.append()
    assert taken(mq, "day") == ["dead"]


@without(("_copy_late_decisions", "if v_merge.family <> 'log' or", "if true or"))
def test_a_decision_made_while_segments_are_merged_is_kept(mq: Session, broker: Broker, mutant: bool) -> None:
    """Commit a half message between the copying and the end of a merge, and again afterwards."""
    handle = mq.prepare("year", '"half"')
    segment(mq)
    begun(mq)
    with broker.snapshot():
        steps(mq, "merge: 1 sessions have a snapshot from before the copying")
        assert mq.commit(handle) == "committed"
    steps(mq, "merged")
    assert mq.commit(handle) == ("committed" if mutant else "already_committed")
    mq.append()
    assert "half" in taken(mq, "year")


def test_a_half_that_a_merge_leaves_out_is_not_lost(mq: Session, broker: Broker) -> None:
    """A snapshot from between the copying and the end of the merge sees neither the half nor what the merge did."""
    handle = mq.prepare("day", '"half"')
    assert mq.commit(handle) == "committed"
    mq.execute("update mqpg.broker set incarnation = 2")
    segment(mq)
    taken(mq, "day")
    begun(mq, older="2 days")
    earlier, later = broker.session(), broker.session()
    with later.transaction():
        with earlier.snapshot():
            steps(mq, "merge: 1 sessions have a snapshot from before the copying")
            later.execute("set transaction isolation level repeatable read")
            later.rows("select 1")
        steps(mq, "merged")
        assert later.call("half_states", [handle])[0].state == "unknown", "the half was not left out"
        assert later.call("_lost_halves", [handle]) == []
    assert mq.call("_lost_halves", [handle]) == []


def test_a_half_nobody_had_looked_at_before_its_segment_was_dropped_is_delivered(mq: Session) -> None:
    """No call put it into the check queue, so only `held` says that a decision may come."""
    handle = mq.prepare("day", '"half"')
    mq.execute(
        "insert into mqpg.half_tick select h.half_tick_id + 1, h.xid, h.snapshot, h.snapshot_xmax,"
        " h.batch_seq, h.floor_id, 0, clock_timestamp() + interval '1 day' from mqpg.half_tick h"
    )
    mq.execute("update mqpg.topic set retention = '1 minute'")
    for _ in range(4):
        segment(mq)
        for topic in ("day", "month", "year"):
            mq.drain(topic)
    assert mq.scalar("select count(*) from mqpg.held where kind = 'h'") == 1
    assert mq.commit(handle) == "committed"
    mq.append()
    assert taken(mq, "day") == ["half"]


# other transactions


@without(("_finish_merge", "if v_old > 0 then", "if false then"))
def test_an_old_snapshot_reads_the_same_and_the_merge_waits(mq: Session, broker: Broker, mutant: bool) -> None:
    """A REPEATABLE READ transaction that began before the copying."""
    begun(mq)
    before = [tuple(row) for row in mq.call("fetch", "year", 0, 0)]
    with broker.snapshot() as reader:
        for _ in range(30):
            mq.call("keep")
        with only_if(mutant, pytest.raises(psycopg.Error, match=r"a segment was dropped while|lacks message bodies")):
            assert [tuple(row) for row in reader.call("fetch", "year", 0, 0)] == before
    if not mutant:
        assert mq.rows("select * from mqpg.segment_merge where family = 'log'")
        steps(mq, "merged")
        assert [tuple(row) for row in mq.call("fetch", "year", 0, 0)][: len(before)] == before


def test_a_merge_waits_for_no_table_and_holds_nobody_up(mq: Session, broker: Broker) -> None:
    """A transaction that has read the log delays the merge, not the senders."""
    begun(mq)
    with broker.transaction() as reader:
        reader.rows("select count(*) from mqpg.commit_log")
        while mq.scalar("select parent from mqpg.segment_merge where family = 'log'") is not None:
            mq.call("keep")
        eventually(lambda: any("merge: a table is in use" in row[3] for row in mq.call("keep")))
        mq.send("year", "1")
    steps(mq, "merged")


def test_a_merge_that_is_held_up_says_since_when_and_by_whom(mq: Session, broker: Broker) -> None:
    """The view shows a merge while one of its steps waits."""
    shown = "select segment_no, table_name, blocked_by, age > '0 s' as old from mqpg.blocked_segments where state = 'merging'"
    early_in_the_hour(mq)
    begun(mq)
    assert mq.rows(shown) == []
    writer, reader, copier = broker.session(), broker.session(), broker.session()
    with reader.transaction():
        reader.rows("select count(*) from mqpg.op_log")
        while mq.scalar("select parent from mqpg.segment_merge where family = 'log'") is not None:
            mq.call("keep")
        mq.call("keep")
        (first,) = mq.rows(shown)
        assert first == (1, "commit_log", [reader.pid], True)
        since = mq.scalar("select blocked_since from mqpg.segment_merge where family = 'log'")
        mq.call("keep")
        assert mq.scalar("select blocked_since from mqpg.segment_merge where family = 'log'") == since
    mq.execute("update mqpg.segment_merge set parent = 'check_log', copied_to = null where family = 'log'")
    mq.call("keep")  # nothing holds this step up
    assert mq.rows(shown) == []
    with copier.transaction():
        copier.execute("declare c cursor for select 1")  # a snapshot, and no lock
        mq.execute("update mqpg.segment_merge set copied_xid = pg_current_xact_id() where family = 'log'")
        while mq.scalar("select parent from mqpg.segment_merge where family = 'log'") is not None:
            mq.call("keep")
        mq.call("keep")
        assert [row.blocked_by for row in mq.rows(shown)] == [[copier.pid]]
    steps(mq, "merged")
    assert mq.rows(shown) == []
    with writer.transaction():
        writer.execute("select pg_current_xact_id()")
        while not mq.rows("select from mqpg.segment_merge"):
            segment(mq)
        mq.call("keep")
        assert [row.blocked_by for row in mq.rows(shown)] == [[writer.pid]]
    assert mq.rows("select from mqpg.segment_merge where parent = ''")
    mq.call("keep")
    assert mq.rows(shown) == []


def cut_off_in_keep(mq: Session, keeper: Session) -> None:
    with keeper.transaction():
        keeper.call("keep")
        mq.execute("select pg_terminate_backend(%s)", keeper.pid)
        keeper.rows("select 1")


def test_another_keeper_continues_where_one_died(mq: Session, broker: Broker) -> None:
    """Each step is a transaction of its own: one that is cut off is repeated."""
    begun(mq)
    want = [tuple(row) for row in mq.call("fetch", "year", 0, 0)]
    for _ in range(60):
        keeper = broker.session()
        with pytest.raises(psycopg.Error):
            cut_off_in_keep(mq, keeper)
        if any(row[0] == "merged" for row in broker.session().call("keep")):
            break
    else:
        raise AssertionError(mq.rows("select * from mqpg.segment_merge"))
    assert [tuple(row) for row in mq.call("fetch", "year", 0, 0)] == want


def test_a_retention_made_longer_meanwhile_keeps_everything(mq: Session) -> None:
    """alter_topic() across all lengths while a merge that would leave the messages out is on its way."""
    mq.execute("select mqpg.alter_topic('day', retention => '1 hour')")
    begun(mq, older="1 day")
    assert mq.scalar("select topic_ids from mqpg.segment_merge where family = 'log'") == [1]
    was = mq.scalar("select count(*) from mqpg.commit_log l join mqpg.topic t using (topic_id) where t.name = 'day'")
    mq.call("alter_topic", "day", "365 days")
    details = steps(mq, "merge given up")
    assert "a retention was changed meanwhile" in details[-1]
    keep(mq, 200)
    assert was == mq.scalar(
        "select count(*) from mqpg.commit_log l join mqpg.topic t using (topic_id) where t.name = 'day'"
    )


def test_senders_and_consumers_lose_nothing_while_segments_are_merged(mq: Session, broker: Broker) -> None:
    mq.call("create_topic", "busy", 2, "365 days")
    mq.call("subscribe", "g", "busy")

    def produce(session: Session, key: str) -> list[int]:
        sent = []
        for i in range(150):
            with session.transaction():
                session.send("busy", str(i), key=key)
                sent.append(i)
        return sent

    running = [broker.background(produce, broker.session(), key) for key in ("a", "b", "c")]
    reader, got = broker.session(), {"a": [], "b": [], "c": []}  # type: ignore[var-annotated]
    merged = 0
    while not all(task.done() for task in running) or merged < 2:
        merged += sum(row[0] == "merged" for row in segment(mq))
        for row in reader.drain("busy", max_messages=50):
            got[row.key].append(row.payload)
    mq.append()
    for row in reader.drain("busy"):
        got[row.key].append(row.payload)
    assert got == {key: task.result(1) for key, task in zip(("a", "b", "c"), running, strict=True)}


def test_a_segment_that_is_dropped_meanwhile_ends_the_merge(mq: Session) -> None:
    begun(mq)
    mq.execute("update mqpg.segment set leaving = 'commit_log' where family = 'log' and segment_no = 2")
    steps(mq, "merge given up: a segment is dropped meanwhile")
    assert not mq.rows("select * from mqpg.segment_merge")
    assert not mq.rows("select relname from pg_class where relname ~ '_[0-9]+_merge$'")


def test_adopting_a_copy_ends_the_merge(mq: Session) -> None:
    begun(mq)
    mq.call("adopt")
    assert not mq.rows("select * from mqpg.segment_merge")
    assert not mq.rows("select relname from pg_class where relname ~ '_[0-9]+_merge$'")


def test_delayed_slots_are_merged_too(mq: Session) -> None:
    """Slots have lengths of time, so four of the slots made ahead play the old ones here."""
    setting(mq, "segments_ahead", "6")
    keep(mq)
    ids = [mq.send("year", str(i), delay="1 hour") for i in range(3)]
    mq.execute("update mqpg.settings set value = '4' where name = 'segments_most'")
    mq.execute(
        "update mqpg.segment set opened_at = clock_timestamp() - (12 - segment_no) * interval '1 hour',"
        " closed_at = clock_timestamp() - (11 - segment_no) * interval '1 hour'"
        " where family = 'delayed' and segment_no <= 5"
    )
    steps(mq, "merged")
    assert [row.segment_no for row in closed(mq, "delayed")] == [1, 5]
    assert mq.value("recall", ids[0])
    make_due(mq)
    mq.append()
    assert sorted(taken(mq, "year")) == [1, 2]


def test_a_merge_of_delayed_slots_by_sessions_with_other_formats_of_dates(mq: Session, broker: Broker) -> None:
    """A day that is read as a month would copy rows twice, or leave some out."""
    setting(mq, "segments_ahead", "6")
    keep(mq)
    mq.send("year", delay="1 hour")
    setting(mq, "segments_most", "4")
    mq.execute(
        "update mqpg.segment set opened_at = clock_timestamp() - (12 - segment_no) * interval '1 hour',"
        " closed_at = clock_timestamp() - (11 - segment_no) * interval '1 hour'"
        " where family = 'delayed' and segment_no <= 5"
    )
    keepers = [broker.session(f"set datestyle = '{style}'") for style in ("SQL, DMY", "SQL, MDY")]

    def merged() -> bool:
        keepers.reverse()
        return any(row.action == "merged" and row.family == "delayed" for row in keepers[0].call("keep"))

    eventually(merged)
    assert mq.scalar("select count(*) from mqpg.delayed") == 1


# the cost of a call


def relations(session: Session, work: Callable[[Session], Any]) -> list[int]:
    """How many locks on relations a session's first call takes, for which it plans, and its tenth."""
    found = []
    for _ in range(10):
        with session.transaction():
            work(session)
            sql = "select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'relation'"
            found.append(int(session.scalar(sql)))
    return [found[0], found[-1]]


def test_a_call_takes_few_locks_however_long_retention_is(mq: Session, broker: Broker) -> None:
    setting(mq, "segments_most", "28")
    setting(mq, "merge_waste", "1000000000")
    for _ in range(32):
        segment(mq)
        mq.drain("day")
    assert len(closed(mq)) <= 29
    taken(mq, "year")
    handles = [mq.prepare("year") for _ in range(10)]
    mq.sent_batch("year", ["1"] * 10)

    def receive(session: Session) -> None:
        session.ack(session.receive("year", max_messages=1)[0].receipt)

    locks = {
        "send": relations(broker.session(), lambda s: s.send("year")),
        "commit": relations(broker.session(), lambda s: s.commit(handles.pop())),
        "receive": relations(broker.session(), receive),
    }
    assert locks["send"][0] <= 16, locks
    assert locks["commit"][0] <= 200, locks
    assert locks["commit"][1] <= 60, locks
    assert locks["receive"][0] <= 300, locks
    assert locks["receive"][1] <= 110, locks


def test_the_newest_rows_are_found_without_a_look_at_old_segments(mq: Session) -> None:
    """The executor leaves out old partitions of ticks and queues, in append() and in receive()."""
    for _ in range(8):
        segment(mq)
    taken(mq, "month")
    reads = "select coalesce(sum(idx_scan), 0) from pg_stat_user_indexes where relname = 'consume_queue_1'"
    # PostgreSQL 14 sends its counts each half second, and shows them as late again.
    flush = "pg_sleep(0.6)" if mq.conn.info.server_version < 150000 else "pg_stat_force_next_flush()"

    def scans() -> int:
        for _ in range(2):
            mq.execute(f"select {flush}")
        return int(mq.scalar(reads))

    before = scans()
    for _ in range(5):
        mq.sent("year")
        mq.drain("month")
    assert scans() == before
