"""Dropping segments beside everything else: positions, old snapshots, locks, and what a drop looks at."""

from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.support.broker import Broker, Session, refused
from tests.support.mutation import mutate
from tests.support.retention import aged, dropped, early_in_the_hour, gone, keep, payloads, retain, roll
from tests.support.waiting import eventually

pytestmark = pytest.mark.own_database  # segments roll


@pytest.fixture
def drained(brisk: Session) -> Session:
    """Queue 0 of `one` has five messages, read by its group, in a closed segment that is kept."""
    retain(brisk, "7 days")
    brisk.sent_batch("one", ["1"] * 5)
    brisk.drain("one")
    roll(brisk)
    return brisk


def drop(mq: Session, table: str) -> None:
    """Call keep() until it has dropped the table."""
    eventually(lambda: table in dropped([tuple(row) for row in mq.call("keep")]), interval=0)


def released(mq: Session, table: str) -> None:
    """Call keep() until nothing but the drop of the table is left to do."""
    sql = "select from mqpg._tables_to_drop() where leaving is not null and partition = %s"
    eventually(lambda: mq.rows(sql, table) or (mq.call("_keep", False), False)[1], interval=0)


def at(mq: Session, group: str) -> int:
    found = mq.scalar(
        "select committed from mqpg.subscription_lag where topic = 'one' and queue_id = 0 and consumer_group = %s",
        group,
    )
    return int(found)


def test_a_half_whose_segment_is_dropped_meanwhile_is_not_lost(brisk: Session, broker: Broker) -> None:
    """Its ledger would send it a second time."""
    handle = brisk.prepare("one")
    assert brisk.commit(handle) == "committed"
    brisk.delivered("one")
    brisk.value("adopt")
    with broker.snapshot() as old:
        gone(brisk, {"commit_log_1"}, roll(brisk))
        assert old.call("_lost_halves", [handle]) == []
    assert old.call("_lost_halves", [handle]) == []


# a position is never computed from nowhere


@pytest.mark.parametrize("call", ["latest", "earliest", "seek", "fetch", "member"])
def test_what_begins_while_the_rows_are_dropped_begins_at_the_end(drained: Session, broker: Broker, call: str) -> None:
    """The caller waits for the drop, with a snapshot from before the drop."""
    other, keeper = broker.session(), broker.session()
    drained.call("subscribe", "all", "one", mode="broadcast")
    calls: dict[str, Any] = {
        "latest": lambda: (other.call("subscribe", "new", "one", start="latest"), at(drained, "new"))[1],
        "earliest": lambda: (other.call("subscribe", "new", "one"), at(drained, "new"))[1],
        "seek": lambda: (other.call("seek", "g", "one", "latest"), at(drained, "g"))[1],
        "fetch": lambda: 5 + len(other.call("fetch", "one", 0, 5)),
        "member": lambda: 5 + len(other.receive("one", group="all", consumer="x")),
    }
    retain(drained, "0 s")

    def drop_in_transaction() -> bool:
        with keeper.transaction():
            if "consume_queue_1" not in dropped([tuple(row) for row in keeper.call("keep")]):
                return False
            answers.append(broker.background(calls[call]))
            broker.wait_blocked(other)
            return True

    answers: list[Any] = []
    eventually(drop_in_transaction, interval=0)
    assert answers[0].result(45) == 5
    drained.sent("one", '"new"')
    assert payloads(drained.drain("one")) == ["new"]
    if call == "member":
        assert payloads(drained.receive("one", group="all", consumer="x")) == ["new"]


def from_before_the_note(brisk: Session, broker: Broker) -> Session:
    """A session whose snapshot is older than the note of a queue's end, of which the rows are dropped."""
    brisk.sent_batch("one", ["1"] * 5)
    brisk.drain("one")
    old = broker.session("begin isolation level repeatable read; select from mqpg.topic")
    gone(brisk, {"consume_queue_1"}, roll(brisk))
    return old


@pytest.mark.parametrize("call", ["latest", "earliest", "seek", "fetch", "receive"])
def test_a_snapshot_from_before_the_end_was_noted_computes_no_position(
    brisk: Session, broker: Broker, call: str
) -> None:
    old = from_before_the_note(brisk, broker)
    calls: dict[str, Any] = {
        "latest": lambda: old.call("subscribe", "new", "one", start="latest"),
        "earliest": lambda: old.call("subscribe", "new", "one"),
        "seek": lambda: old.call("seek", "g", "one", "latest"),
        "fetch": lambda: old.call("fetch", "one", 0, 5),
        "receive": lambda: old.receive("one"),
    }
    with refused("40001"):
        calls[call]()
    old.execute("rollback")
    calls[call]()
    assert old.scalar("select mqpg._tail(topic_id, 0, 0) from mqpg.topic where name = 'one'") == 5


@pytest.mark.parametrize("function", ["_tail", "_claim_next"])
def test_trap_the_end_is_not_read_with_an_older_snapshot_mutant(brisk: Session, broker: Broker, function: str) -> None:
    mutate(brisk, function, "not mqpg._is_attached('consume_queue', s.segment_no)", "false")
    old = from_before_the_note(brisk, broker)
    if function == "_tail":
        assert old.scalar("select mqpg._tail(topic_id, 0, 0) from mqpg.topic where name = 'one'") == 0
    else:
        assert old.receive("one") == []
    old.execute("rollback")


@pytest.mark.parametrize("call", ["subscribe", "seek", "member"])
def test_nobody_begins_at_an_offset_that_is_about_to_be_dropped(drained: Session, broker: Broker, call: str) -> None:
    """Between release and drop the rows are still there, but nobody may begin in front of them."""
    drained.call("subscribe", "all", "one", mode="broadcast")
    old = broker.session()
    calls: dict[str, Any] = {
        "subscribe": lambda: old.call("subscribe", "new", "one"),
        "seek": lambda: old.call("seek", "g", "one", "earliest"),
        "member": lambda: old.receive("one", group="all", consumer="x"),
    }
    old.execute("begin isolation level repeatable read")
    old.rows("select from mqpg.topic")
    retain(drained, "0 s")
    released(drained, "consume_queue_1")
    assert drained.scalar("select count(*) from mqpg.consume_queue") == 1
    with refused("40001"):
        calls[call]()
    old.execute("rollback")
    calls[call]()
    drop(drained, "consume_queue_1")
    drained.sent("one", '"new"')
    for group, consumer in (("g", None), ("new", None), ("all", "x")):
        if group == "g" or group in call + "new" * (call == "subscribe") + "all" * (call == "member"):
            assert payloads(drained.receive("one", group=group, consumer=consumer)) == ["new"]


def test_who_begins_at_an_oldest_offset_holds_the_release_up(drained: Session, other: Session) -> None:
    retain(drained, "0 s")
    with other.transaction():
        other.call("seek", "g", "one", "earliest")
        reported = keep(drained)
        assert "consume_queue_1" not in dropped(reported)
        assert ("blocked", "tick", 1) in [row[:3] for row in reported]
        assert state(drained, "consume_queue_1") == "attached"
    assert ("pinned", "tick", 1) in [row[:3] for row in keep(drained)]
    assert drained.rows("select from mqpg.blocked_segments") == []
    assert len(drained.drain("one")) == 5
    gone(drained, {"consume_queue_1"}, keep(drained))


# a closed partition gets no late rows


def test_a_transaction_that_subscribes_late_keeps_its_cursor_slot(brisk: Session, broker: Broker) -> None:
    """Its first position goes into the old slot, because it began before there was a newer one."""
    with broker.transaction() as late:
        late.call("subscribe", "late", "one")
        assert "cursor_1" not in dropped(roll(brisk, closes=False))
    gone(brisk, {"cursor_1"}, roll(brisk))
    brisk.sent("one", '"x"')
    assert payloads(brisk.receive("one", group="late")) == ["x"]


def test_a_sealed_slot_refuses_a_writer_with_an_old_snapshot(brisk: Session, broker: Broker) -> None:
    old = broker.session("begin isolation level repeatable read; select from mqpg.topic")
    aged(brisk)
    released(brisk, "cursor_1")
    with refused("40001"):
        old.call("subscribe", "late", "one")
    old.execute("rollback")
    old.call("subscribe", "late", "one")


# what a drop looks at


READ = """
select coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) from pg_stat_xact_all_tables
where schemaname = 'mqpg' and relname ~ '^(commit_log|op_log|delayed|consume_queue)_[0-9]+$'
"""


def read_rows(mq: Session, call: str) -> int:
    """Return how many rows of bodies, decisions and delayed messages a statement reads."""
    with mq.transaction():
        before = mq.scalar(READ)
        mq.execute(call)
        return int(mq.scalar(READ) - before)


def test_the_look_before_a_drop_does_not_read_the_decided_halves(brisk: Session) -> None:
    retain(brisk, "7 days")
    for size in (200, 1000):
        handles = [row[0] for row in brisk.call("prepare_batch", "one", ["1"] * size, "pg")]
        brisk.call("rollback_batch", handles)
        brisk.append()
    roll(brisk)
    first = "select * from mqpg._survivors(0, 1099511627776, -1, null)"
    # PostgreSQL 19 finds the decisions in an index alone.
    assert read_rows(brisk, first) > (50 if int(brisk.scalar("show server_version_num")) >= 190000 else 1000)
    retain(brisk, "0 s")
    released(brisk, "commit_log_1")
    look = "select mqpg._save_late_survivors(s) from mqpg.segment s where s.leaving = 'commit_log'"
    assert read_rows(brisk, look) < 10
    gone(brisk, {"commit_log_1"}, keep(brisk))


# locks: the parent first, and nobody waits


def test_a_reader_that_holds_the_table_is_no_deadlock_victim(drained: Session, broker: Broker) -> None:
    """The reader holds the parent and then asks for the partitions, while keep() tries to drop one."""
    reader, keeper = broker.session("set deadlock_timeout = '15ms'"), broker.session()
    retain(drained, "0 s")
    released(drained, "consume_queue_1")
    for _ in range(10):
        with reader.transaction():
            reader.execute("lock table only mqpg.consume_queue in access share mode")
            keeping = broker.background(keeper.call, "keep")
            reader.rows("select pg_sleep(0.01)")
            reader.rows("select count(*) from mqpg.consume_queue")
            assert "consume_queue_1" not in dropped([tuple(row) for row in keeping.result(45)])
    drop(drained, "consume_queue_1")


def test_a_drop_that_waits_for_a_reader_holds_nobody_up(drained: Session, broker: Broker) -> None:
    reader = broker.session()
    sender = broker.session("set lock_timeout = '5s'")  # the reader would hold it up for ever
    retain(drained, "0 s")
    released(drained, "consume_queue_1")
    with reader.transaction():
        reader.rows("select count(*) from mqpg.consume_queue")
        reader.rows("select count(*) from mqpg.commit_log")
        keeping = broker.background(keep_in_vain, broker.session(), 6)
        while not keeping.done():
            sender.sent("one", "1")
            sender.drain("one")
        keeping.result()
    drop(drained, "consume_queue_1")


def test_a_call_tries_each_table_once(drained: Session, broker: Broker) -> None:
    """Senders wait for each attempt, so they wait once, however many partitions are to go."""
    early_in_the_hour(drained)
    for no in (2, 3):
        aged(drained)
        released(drained, f"cursor_{no}")
    with broker.transaction() as reader:
        reader.rows("select count(*) from mqpg.cursor")
        assert [row.segment_no for row in drained.call("keep") if row.action == "blocked"] == [2]
    gone(drained, {"cursor_2", "cursor_3"}, keep(drained))


def test_a_call_releases_a_table_of_each_family(drained: Session, broker: Broker) -> None:
    """A keeper that has much to do must not leave out a family until it has nothing else to do."""
    early_in_the_hour(drained)
    with broker.transaction() as writer:
        writer.execute("lock table mqpg.cursor_2 in row exclusive mode")
        aged(drained)
        eventually(lambda: ("blocked", "cursor") in {row[:2] for row in keep(drained)}, interval=0)
        retain(drained, "0 s")
    released_families = {row.family for row in drained.call("_keep", False) if row.action == "released"}
    assert released_families == {"tick", "log", "cursor"}


def keep_in_vain(mq: Session, times: int) -> None:
    """Call keep() until it has reported so many times that a table is in use."""
    while times > 0:
        times -= any(row.action == "blocked" for row in mq.call("keep"))


# a detach that was cut off


@pytest.mark.parametrize(("parent", "no"), [("consume_queue", 1), ("commit_log", 1), ("cursor", 2)])
def test_keep_finishes_what_a_killed_keeper_began_to_detach(
    drained: Session, broker: Broker, parent: str, no: int
) -> None:
    retain(drained, "0 s")
    aged(drained)
    released(drained, f"{parent}_{no}")
    reader, detacher = broker.session(), broker.session()
    with reader.transaction():
        reader.rows(f"select count(*) from mqpg.{parent}")
        detaching = broker.blocked(detacher, detach, detacher, parent, no)
        assert state(drained, f"{parent}_{no}") == "detaching"
        works(drained)
        drained.execute("select pg_terminate_backend(%s)", detacher.pid)
        with pytest.raises(psycopg.Error):
            detaching.result(45)
        assert state(drained, f"{parent}_{no}") == "detaching"
    gone(drained, {f"{parent}_{no}"}, keep(drained))
    works(drained)


@pytest.mark.parametrize(("parent", "no"), [("consume_queue", 1), ("commit_log", 1), ("cursor", 2)])
def test_keep_drops_what_a_killed_keeper_detached(drained: Session, broker: Broker, parent: str, no: int) -> None:
    retain(drained, "0 s")
    aged(drained)
    released(drained, f"{parent}_{no}")
    detach(broker.session(), parent, no)
    assert state(drained, f"{parent}_{no}") == "detached"
    works(drained)
    gone(drained, {f"{parent}_{no}"}, keep(drained))
    assert drained.scalar("select to_regclass(%s)", f"mqpg.{parent}_{no}") is None
    works(drained)


def works(mq: Session) -> None:
    mq.sent("one", '"new"')
    assert payloads(mq.drain("one")) == ["new"]


def detach(mq: Session, parent: str, no: int) -> None:
    mq.conn.execute(
        sql.SQL("alter table {} detach partition {} concurrently").format(
            sql.Identifier("mqpg", parent), sql.Identifier("mqpg", f"{parent}_{no}")
        )
    )


def state(mq: Session, table: str) -> str:
    return str(mq.scalar("select state from mqpg.blocked_segments where table_name = %s", table))


def test_partitions_are_made_while_another_is_being_detached(drained: Session, broker: Broker) -> None:
    retain(drained, "0 s")
    released(drained, "consume_queue_1")
    reader, detacher = broker.session(), broker.session()
    with reader.transaction():
        reader.rows("select count(*) from mqpg.consume_queue")
        detaching = broker.blocked(detacher, detach, detacher, "consume_queue", 1)
        drained.execute("update mqpg.settings set value = '5' where name = 'segments_ahead'")
        assert sum(row.action == "made" and row.family == "tick" for row in drained.call("keep")) > 2
    detaching.result(45)
    gone(drained, {"consume_queue_1"}, keep(drained))


def test_survivors_are_read_while_their_bodies_are_being_detached(brisk: Session, broker: Broker) -> None:
    """Both the copies and the bodies are there, or only the copies: each message comes once."""
    retain(brisk, "7 days")
    brisk.send("one", '"a"', key="k")
    handle = brisk.prepare("one", '"b"', key="k")
    brisk.append()
    roll(brisk)
    retain(brisk, "0 s")
    released(brisk, "commit_log_1")
    old = broker.session()

    def look(mq: Session) -> None:
        assert payloads(mq.call("fetch", "one", 0, 0)) == ["a"]
        assert [row.state for row in mq.call("find_by_key", "one", "k")] == ["appended", "prepared"]
        assert [row.handle for row in mq.rows("select handle from mqpg.half_pending")] == [handle]

    look(brisk)
    reader, detacher = broker.session(), broker.session()
    with reader.transaction():
        reader.rows("select count(*) from mqpg.commit_log")
        old.execute("begin isolation level repeatable read")
        old.rows("select from mqpg.topic")
        detaching = broker.blocked(detacher, detach, detacher, "commit_log", 1)
        look(brisk)
        look(reader)
    detaching.result(45)
    look(old)
    old.execute("rollback")
    gone(brisk, {"commit_log_1"}, keep(brisk))
    assert brisk.commit(handle) == "committed"
    assert payloads(brisk.delivered("one")) == ["a", "b"]
