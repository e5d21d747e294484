"""Histories in which nothing is wrong are valid, and the audit says what it did not judge."""

import time
from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest
from psycopg.rows import dict_row

from mqpg.audit.report import Report
from mqpg.audit.verdict import Verdict
from tests.audit.judged import found, require_valid
from tests.audit.retention import close_and_drop, dropped
from tests.audit.story import Story, Trio, message_id
from tests.fixtures.databases import Databases
from tests.support.waiting import eventually

pytestmark = pytest.mark.spark

Audit = Callable[..., Report]


def drop_bodies(story: Story) -> None:
    """Let keep() drop bodies while an unread message of another topic pins the queues."""
    story.broker.execute("select mqpg.create_topic('slow', 1)")
    story.broker.execute("select mqpg.subscribe('lazy', 'slow')")
    story.broker.execute("select mqpg.send('slow', '{}'::text)")
    story.drain()
    story.drain("mail", journal=False)
    while "log" not in dropped(story):
        close_and_drop(story)
    assert "tick" not in dropped(story)


def test_retention_while_a_reader_of_another_topic_is_behind(audit: Audit, story: Story) -> None:
    """The bodies are dropped, and the offsets that lead to them are not."""
    drop_bodies(story)
    report = audit()
    require_valid(report)
    message = story.consumer.execute(
        "delete from mqpg_applied where message_id = (select min(message_id) from mqpg_applied) returning message_id"
    ).fetchone()
    assert message is not None
    report = audit()
    assert found(report) == {"lost": 1}
    assert [row["message_id"] for row in report.examples] == [message["message_id"]]
    assert "retention has dropped its body" in report.examples[0]["evidence"]
    needed = {
        story.one("select first_ids[1] from mqpg.consume_queue join mqpg.topic using (topic_id) where name = 'slow'"),
        story.one("select message_id from mqpg.dead_letter"),
    }
    story.broker.execute("delete from mqpg.held")
    report = audit()
    assert found(report) == {"lost": 3}
    assert {row["message_id"] for row in report.examples} == needed | {message["message_id"]}


def test_a_filter_that_left_out_what_retention_has_dropped(audit: Audit, story: Story) -> None:
    story.broker.execute("select mqpg.alter_subscription('board', 'orders', filter => '$ == \"nothing\"')")
    for _ in range(3):
        story.business()
    story.drain()
    drop_bodies(story)
    story.consumer.execute("delete from mqpg_offsets")
    require_valid(audit())


def test_one_topic_of_a_ledger_that_serves_two(audit: Audit, story: Story) -> None:
    story.broker.execute("select mqpg.create_topic('other', 1)")
    for _ in range(3):
        handle = str(story.one("select mqpg.prepare('other', '{}'::text, 'shop')"))
        story.local(handle)
        story.commit(handle)
    story.ledger.execute("update mqpg_ledger set created_at = created_at - interval '10 s'")
    report = audit(topics=("orders",), groups=("board",), clock_tolerance=60.0, drained=True)
    require_valid(report)
    assert report.not_judged == []


def test_a_group_that_subscribes_again(audit: Audit, story: Story, trio: Trio) -> None:
    """It starts as a new one, and may apply every message again."""
    first_id = 0
    for _ in range(2):
        story.broker.execute("select mqpg.subscribe('again', 'orders', retry_delay => '1 microsecond')")
        rows = story.broker.execute("select * from mqpg.receive('again', 'orders', 1)").fetchall()
        story.broker.execute(
            "select mqpg.nack(%s, %s, delay => interval '1 microsecond')",
            (rows[0]["receipt"], [row["message_id"] for row in rows]),
        )
        time.sleep(0.01)
        story.append()
        assert story.apply_all("again") == 66
        first_id = first_id or int(rows[0]["message_id"])
        last = rows
        story.broker.execute("select mqpg.unsubscribe('again', 'orders')")
    story.broker.execute("select mqpg.subscribe('again', 'orders')")
    assert story.apply_all("again") == 66
    groups = {"board": trio.consumer, "again": trio.consumer}
    require_valid(audit(applied=groups))
    story.journal("again", last, str(story.one("select broker_id from mqpg.broker")))
    assert found(audit(applied=groups)) == {"duplicated": 1}
    story.consumer.execute("delete from mqpg_applied where consumer_group = 'again' and message_id = %s and ctid in ("
                           "select max(ctid) from mqpg_applied where message_id = %s)", (first_id, first_id))  # fmt: skip
    story.consumer.execute(
        "delete from mqpg_applied where consumer_group = 'again' and message_id = %s and subscription_id = "
        "(select max(subscription_id) from mqpg_applied)",
        (first_id,),
    )
    assert found(audit(applied=groups)) == {"lost": 1}  # What the group applied in a former life does not count.


def test_a_group_with_offsets_of_its_own_continues_where_it_was(audit: Audit, story: Story) -> None:
    story.broker.execute("select mqpg.redrive('board', 'orders')")
    story.drain()
    story.broker.execute("select mqpg.unsubscribe('board', 'orders')")
    story.broker.execute("select mqpg.subscribe('board', 'orders', mode => 'pinned')")
    story.consumer.execute("delete from mqpg_offsets where queue_id < 0")  # The retry lane has no offset there.
    story.business()
    story.append()
    while rows := story.broker.execute(
        "select * from mqpg.receive('board', 'orders', 10, consumer => 'c1')"
    ).fetchall():
        broker = str(story.one("select broker_id from mqpg.broker"))
        known = story.consumer.execute(
            "select next_offset from mqpg_offsets where queue_id = %s", (rows[0]["queue_id"],)
        ).fetchone()
        assert known is not None
        story.journal("board", [row for row in rows if row["queue_offset"] >= known["next_offset"]], broker)
        story.consumer.execute(
            "update mqpg_offsets set next_offset = greatest(next_offset, %s) where queue_id = %s",
            (rows[-1]["queue_offset"] + 1, rows[0]["queue_id"]),
        )
        story.broker.execute("select mqpg.ack(%s)", (rows[0]["receipt"],))
    require_valid(audit())
    # As if the present subscription had applied at another offset what the former one had applied.
    story.consumer.execute(
        "insert into mqpg_applied select consumer_group, topic, queue_id, queue_offset + 1, message_id, applied_at, broker, "
        "(select max(subscription_id) from mqpg_applied) from mqpg_applied order by message_id limit 1"
    )
    assert found(audit()) == {"mismatch": 1}
    story.consumer.execute("delete from mqpg_applied where message_id = (select min(message_id) from mqpg_applied)")
    assert found(audit()) == {"lost": 1}


def test_a_consumers_database_that_was_restored(audit: Audit, story: Story) -> None:
    """The group is at the offsets of that time, and will apply the rest again."""
    for table in ("mqpg_applied", "mqpg_offsets"):
        story.consumer.execute(f"create table kept_{table} as table {table}".encode())
    for _ in range(4):
        story.business()
    story.drain()
    for table in ("mqpg_applied", "mqpg_offsets"):
        story.consumer.execute(f"truncate {table}; insert into {table} table kept_{table}".encode())
    require_valid(audit())


def test_a_dead_letter_that_is_redriven(audit: Audit, story: Story) -> None:
    """It counts its attempts from 1 again, below that of its last delivery before."""
    message = story.one("select message_id from mqpg.dead_letter")
    story.broker.execute("select mqpg.redrive('board', 'orders')")
    require_valid(audit())  # Nobody can receive it before the next tick.
    story.append()
    require_valid(audit())
    story.consume(nack=(message,))
    require_valid(audit())
    eventually(story.append)
    story.consume()
    require_valid(audit())
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (message,))
    report = audit()
    assert found(report) == {"lost": 1}
    assert "retry 2 was acknowledged, but it was not applied" in report.examples[0]["evidence"]


def test_a_redriven_message_that_a_purge_discards(audit: Audit, story: Story) -> None:
    """Its new delivery is in no queue yet, so no position jumps over it."""
    story.broker.execute("select mqpg.redrive('board', 'orders')")
    story.broker.execute("select mqpg.purge_topic('orders')")
    story.business()
    story.drain()
    require_valid(audit())


def test_a_consumer_that_acknowledges_in_another_order(audit: Audit, story: Story, trio: Trio) -> None:
    """It leaves a message pending, and applies those of its key that are behind it."""
    story.broker.execute("select mqpg.subscribe('alone', 'orders', mode => 'exclusive')")
    story.broker.execute("select mqpg.seek('alone', 'orders', 'latest')")
    for _ in range(3):
        story.broker.execute("select mqpg.send('orders', '{}'::text, key => 'k')")
    story.append()
    broker = str(story.one("select broker_id from mqpg.broker"))
    receive = "select * from mqpg.receive('alone', 'orders', 10)"
    first, *others = story.broker.execute(receive).fetchall()
    story.journal("alone", others, broker)
    story.broker.execute(
        "select mqpg.ack(%s, offsets => %s)", (first["receipt"], [row["queue_offset"] for row in others])
    )
    story.broker.execute("select mqpg.release(%s)", (first["receipt"],))
    again = story.broker.execute(receive).fetchall()
    assert [row["message_id"] for row in again] == [first["message_id"]]
    story.journal("alone", again, broker)
    story.broker.execute("select mqpg.ack(%s)", (again[0]["receipt"],))
    story.drain()
    groups = {"board": trio.consumer, "alone": trio.consumer}
    require_valid(audit(applied=groups))
    story.consumer.execute(
        "update mqpg_applied set applied_at = applied_at + interval '10 seconds' "
        "where consumer_group = 'alone' and message_id = %s",
        (others[0]["message_id"],),
    )
    assert found(audit(applied=groups)) == {"disorder": 1}  # It acknowledged two at once, in the wrong order.
    story.consumer.execute(
        "update mqpg_applied set applied_at = applied_at + interval '1 minute' "
        "where consumer_group = 'board' and message_id = %s",
        (first["message_id"],),
    )
    assert found(audit(applied=groups)) == {"disorder": 3}  # The group board acknowledged all at once.


def test_a_filter_that_is_widened(audit: Audit, story: Story, trio: Trio) -> None:
    story.broker.execute("select mqpg.subscribe('few', 'orders', tags => array['x'])")
    for tag in "xyxy":
        story.broker.execute("select mqpg.send('orders', '{}'::text, tag => %s)", (tag,))
    story.append()
    assert story.apply_all("few") == 2
    story.broker.execute("select mqpg.receive('few', 'orders')")
    # The hour in which a replaced filter may still have been used is over.
    story.broker.execute("update mqpg.cursor set at = at - interval '2 hours'")
    story.broker.execute("select mqpg.alter_subscription('few', 'orders', tags => '{}')")
    story.broker.execute("update mqpg.former_filter set replaced_at = replaced_at - interval '90 minutes'")
    groups = {"board": trio.consumer, "few": trio.consumer}
    require_valid(audit(applied=groups))
    for tag in "xy":
        story.broker.execute("select mqpg.send('orders', '{}'::text, tag => %s)", (tag,))
    story.append()
    assert story.apply_all("few") == 2
    story.drain()
    require_valid(audit(applied=groups))
    story.consumer.execute(
        "delete from mqpg_applied where consumer_group = 'few' and message_id = (select max(message_id) from mqpg_applied)"
    )
    assert found(audit(applied=groups)) == {"lost": 1}


def test_a_filter_that_is_narrowed_for_a_group_that_is_moved_back(audit: Audit, story: Story, trio: Trio) -> None:
    """It leaves out what the group got before, by the former filter."""
    seek = "select mqpg.seek('{}', 'orders', 'earliest')"
    narrow = "select mqpg.alter_subscription('{}', 'orders', tags => array['x'])"
    steps = {"few": (seek, narrow), "less": (narrow, seek)}
    story.drain()
    for group in steps:
        story.broker.execute(f"select mqpg.subscribe('{group}', 'orders')".encode())
    story.broker.execute("select mqpg.send('orders', '{}'::text, tag => 'x')")
    story.drain()
    everything = [story.apply_all(group) for group in steps]
    for group, (first, second) in steps.items():
        story.broker.execute(first.format(group).encode())
        story.broker.execute(second.format(group).encode())
    assert [story.apply_all(group) for group in steps] == [1, 1] < everything
    groups = {"board": trio.consumer, **dict.fromkeys(steps, trio.consumer)}
    require_valid(audit(applied=groups))


def test_two_brokers_with_one_journal(
    audit: Audit, story: Story, trio: Trio, databases: Databases, template: str
) -> None:
    with (
        databases.lent(template) as dsn,
        psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as other,
    ):
        other.execute("select mqpg.create_topic('orders', 2)")
        other.execute("select mqpg.subscribe('twin', 'orders')")
        other.execute("select * from mqpg.send_batch('orders', array_fill('{}'::text, array[200]))")
        other.execute("select mqpg.append()")
        row = other.execute("select broker_id from mqpg.broker").fetchone()
        assert row is not None
        while rows := other.execute("select * from mqpg.receive('twin', 'orders', 1000)").fetchall():
            story.journal("twin", rows, row["broker_id"])
            story.consumer.execute(
                "insert into mqpg_offsets values ('twin', 'orders', %s, %s, %s, 1, clock_timestamp())",
                (rows[0]["queue_id"], rows[-1]["queue_offset"] + 1, row["broker_id"]),
            )
            other.execute("select mqpg.ack(%s)", (rows[0]["receipt"],))
        options = {"applied": {"board": trio.consumer, "twin": trio.consumer}}
        story.broker.execute("select mqpg.subscribe('twin', 'orders')")
        require_valid(audit(**options))  # It has read nothing here yet.
        assert story.apply_all("twin") == 66
        broker_id = str(story.one("select broker_id from mqpg.broker"))
        for position in story.broker.execute(
            "select c.queue_id, max(c.committed) as next_offset from mqpg.cursor c join mqpg.subscription s "
            "using (subscription_id) where s.consumer_group = 'twin' and c.queue_id >= 0 group by 1"
        ).fetchall():
            story.consumer.execute(
                "insert into mqpg_offsets values ('twin', 'orders', %s, %s, %s, 1, clock_timestamp())",
                (position["queue_id"], position["next_offset"], broker_id),
            )
        require_valid(audit(**options))
        twin = {"applied": {"twin": trio.consumer}, "ledgers": {}, "groups": ("twin",), "drained": True}
        require_valid(audit(dsn=dsn, **twin))


def test_a_broadcast_group_with_one_journal(audit: Audit, story: Story, trio: Trio) -> None:
    story.broker.execute("select mqpg.subscribe('all', 'orders', mode => 'broadcast')")
    members = ("m1", "m2")
    for _ in range(2):
        for member in members:
            story.apply_all("all", consumer=member)
    story.business()
    story.drain()
    for member in members:
        story.apply_all("all", consumer=member)
    groups = {"board": trio.consumer, "all": trio.consumer}
    require_valid(audit(applied=groups))
    last = story.consumer.execute(
        "delete from mqpg_applied where consumer_group = 'all' and message_id = (select max(message_id) from mqpg_applied)"
        " and subscription_id = (select max(subscription_id) from mqpg_applied) returning message_id"
    ).fetchone()
    assert last is not None
    assert found(audit(applied=groups)) == {"lost": 1}
    # Rows of an earlier release name no member.
    story.consumer.execute("update mqpg_applied set subscription_id = null")
    report = audit(applied=groups)
    require_valid(report)
    assert [(one.name, one.rows) for one in report.not_judged if one.rows] == [("all", 133)]


def test_a_half_message_that_an_operator_commits(audit: Audit, story: Story) -> None:
    handle = story.prepare(check_after="50 milliseconds")
    story.broker.execute("select mqpg.settle(%s, 'commit', 'by hand')", (handle,))
    assert story.append() > 0
    require_valid(audit())
    story.drain()
    report = audit(groups=("board",), drained=True)
    require_valid(report)
    assert [(note["kind"], note["message_id"]) for note in report.notes] == [("override", int(handle.split(".")[2]))]
    assert report.relations[0].overridden == 1


def decided_by_the_batch(story: Story, number: int, verdict: str) -> list[str]:
    """Prepare a record batch, write its ledger rows, and decide the whole of it."""
    query = "select h as handle from mqpg.prepare_batch('orders', array_fill('{}'::text, array[%s]), 'shop') as h"
    handles = [row["handle"] for row in story.broker.execute(query, (number,)).fetchall()]
    for handle in handles:
        story.local(handle, "local" if verdict == "commit" else "fence", done=True)
    story.broker.execute(f"select mqpg.{verdict}_batch(%s)", (handles,))
    return handles


def test_half_messages_that_were_decided_by_the_batch(audit: Audit, story: Story) -> None:
    at_once = "select count(*) from mqpg.op_log where xmin::text::bigint <> xid::text::bigint %% 4294967296"
    before = story.one(at_once)
    committed = decided_by_the_batch(story, 7, "commit")
    decided_by_the_batch(story, 5, "rollback")
    story.append()
    with story.broker.transaction():
        committed += decided_by_the_batch(story, 3, "commit")
        story.broker.execute("select mqpg.rollback_batch(%s)", (committed,))  # the first decisions stand
    story.drain()
    report = audit(groups=("board",), drained=True)
    require_valid(report)
    assert report.notes == []
    assert story.one(at_once) == before + 15


def test_an_older_journal_is_read(audit: Audit, story: Story) -> None:
    story.consumer.execute("alter table mqpg_applied drop column broker, drop column subscription_id")
    require_valid(audit())


def test_what_was_not_judged_is_listed(audit: Audit, story: Story) -> None:
    keep = timedelta(hours=10)
    story.drain("mail", journal=False)
    story.broker.execute("select mqpg.create_producer_group('bare', checker => 'url', checker_target => 'x')")
    handle = str(story.one("select mqpg.prepare('orders', '{}'::text, 'bare')"))
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    story.drain()
    story.drain("mail", journal=False)
    story.consumer.execute("insert into mqpg_applied values ('ghost', 'orders', 0, 0, 1024, clock_timestamp())")
    story.broker.execute("update mqpg.op_log set at = at - interval '20 hours' where message_id = "
                         "(select min(message_id) from mqpg.op_log where op = 'c')")  # fmt: skip
    story.ledger.execute("delete from mqpg_ledger where split_part(handle, '.', 3)::bigint = "
                         "(select min(split_part(handle, '.', 3)::bigint) from mqpg_ledger)")  # fmt: skip
    report = audit(ledger_keep=keep)
    require_valid(report)
    assert [(one.what, one.name, one.rows) for one in report.not_judged] == [
        ("consumer group without a journal", "mail", None),
        ("producer group without a ledger", "bare", None),
        ("journal of a group without a subscription", "ghost", 1),
        ("decision that is older than the ledger is kept, without a row in the ledger", "shop", 1),
    ]
    report = audit(ledger_keep=keep, drained=True)
    assert report.verdict is Verdict.UNKNOWN
    assert not any(report.anomalies.values())
    assert "not judged: consumer group without a journal: mail" in report.reasons
    assert len(report.reasons) == 4


@pytest.mark.parametrize("settled", [True, False])
def test_queues_that_were_added(audit: Audit, story: Story, settled: bool) -> None:
    """Messages of all keys before, while transactions of before are open, and after."""

    def send_all() -> None:
        for number in range(12):
            story.broker.execute("select mqpg.send('orders', '{}'::text, key => %s)", (str(number),))

    send_all()
    with psycopg.connect(story.broker.info.dsn, password=story.broker.info.password) as late:
        late.execute("select mqpg.send('orders', '{}'::text, key => '3')")
        story.broker.execute("select mqpg.alter_topic('orders', queues => 4)")
        send_all()
    for queues in (8, 16) if settled else ():
        for _ in range(3):
            story.drain()
            story.drain("mail", journal=False)
            story.broker.execute("select mqpg._open_queues()")
        send_all()
        story.broker.execute("select mqpg.alter_topic('orders', queues => %s)", (queues,))
        send_all()
    story.drain()
    require_valid(audit())


def test_a_policy_that_was_taken_away_after_it_was_used(audit: Audit, story: Story) -> None:
    """Its time explains what a group lost and what expired."""
    broker = story.broker
    for group in ("slow", "late"):
        broker.execute("select mqpg.subscribe(%s, 'orders')", (group,))
    broker.execute("select mqpg.alter_topic('orders', lose_after => '1 ms')")
    broker.execute("select mqpg._move_cursor(s, 0, 4, 'age') from mqpg.subscription as s where consumer_group = 'slow'")
    broker.execute("select mqpg.alter_topic('orders', lose_after => '0', message_ttl => '1 ms')")
    eventually(lambda: not story.apply_all("late"))
    broker.execute("select mqpg.alter_topic('orders', message_ttl => '0')")
    broker.execute("select mqpg.purge_topic('orders')")
    assert {row["why"] for row in broker.execute("select why from mqpg.position_jump")} == {"age", "expired", "purge"}
    require_valid(audit(applied={}))
    broker.execute("delete from mqpg.former_setting")
    assert found(audit(applied={}))["unexplained"] > 2


def test_checksums_that_are_asked_for_later(audit: Audit, story: Story) -> None:
    """A transaction that began before may still send without one."""
    for asked in (False, True):
        story.broker.execute("select mqpg.alter_topic('orders', checksums => %s)", (asked,))
        story.business()
        story.broker.execute("update mqpg.commit_log set checksum = null where batch_id = "
                             "(select max(batch_id) from mqpg.commit_log)")  # fmt: skip
        story.drain()
    require_valid(audit())
    story.broker.execute("update mqpg.former_setting set replaced_at = replaced_at - interval '2 hours'")
    assert found(audit())["corrupt"] > 1


def test_a_dedup_id_whose_message_was_recalled_is_used_again(audit: Audit, story: Story) -> None:
    send = "select mqpg.send('orders', '{}'::text, dedup_id => 'again', delay => '1 hour')"
    story.broker.execute("select mqpg.recall(%s)", (story.one(send),))
    story.one(send)
    story.drain()
    require_valid(audit())


def test_a_dedup_id_of_whose_two_slots_retention_has_dropped_one(audit: Audit, story: Story) -> None:
    story.one("select mqpg.send('orders', '{}'::text, dedup_id => 'old')")
    story.drain()
    story.broker.execute("delete from mqpg.dedup where slot = (select min(slot) from mqpg.dedup)")
    assert found(audit()) == {"gap": 1}
    story.broker.execute("insert into mqpg.segment (family, segment_no, lower_bound, upper_bound, opened_at) select family, "
                         "1000, (select max(slot) from mqpg.dedup)::text, upper_bound, opened_at from mqpg.segment where "
                         "family = 'dedup' order by lower_bound::bigint limit 1")  # fmt: skip
    story.broker.execute("update mqpg.segment set upper_bound = (select max(slot) from mqpg.dedup)::text, dropped_at = now(), "
                         "body_dropped_at = now() where family = 'dedup' and lower_bound::bigint = (select "
                         "min(lower_bound::bigint) from mqpg.segment where family = 'dedup')")  # fmt: skip
    require_valid(audit())


def test_a_message_that_becomes_a_dead_letter_three_times(audit: Audit, story: Story) -> None:
    """By a final nack, after two attempts, and because it expires."""
    broker = story.broker
    broker.execute("select mqpg.create_topic('short', 1)")
    broker.execute("select mqpg.subscribe('late', 'short', max_attempts => 2, retry_delay => '1 microsecond')")
    message = story.one("select mqpg.send('short', '{}'::text)")
    seen = []
    for final in (True, False):
        story.append()
        broker.execute("select mqpg.seek('late', 'short', 'earliest')")
        for _ in range(1 if final else 2):
            story.append()
            (row,) = broker.execute("select * from mqpg.receive('late', 'short')").fetchall()
            broker.execute("select mqpg.nack(%s, %s, final => %s)", (row["receipt"], [message], final))
            time.sleep(0.01)
        seen.append(story.one("select attempts from mqpg.dead_letter where message_id = %s", message))
        require_valid(audit())
    broker.execute("select mqpg.alter_topic('short', message_ttl => '1 ms', on_expired => 'dead_letter')")
    broker.execute("select mqpg.seek('late', 'short', 'earliest')")
    assert broker.execute("select * from mqpg.receive('late', 'short')").fetchall() == []
    assert [*seen, story.one("select attempts from mqpg.dead_letter where message_id = %s", message)] == [1, 2, 0]
    require_valid(audit())


def test_a_backlog_that_is_appended_in_parts(audit: Audit, story: Story) -> None:
    """The tick of a part ends at a snapshot that has not seen the tick before it."""
    for _ in range(4):
        story.business()
    assert [story.one("select mqpg.append(1)") for _ in range(5)] == [1, 1, 1, 1, 0]
    story.drain()
    require_valid(audit())


def test_a_commit_with_a_delay_that_is_recalled(audit: Audit, story: Story) -> None:
    handle = story.prepare(delay="1 hour")
    story.local(handle)
    story.commit(handle)
    assert story.one("select mqpg.recall(%s)", message_id(handle))
    story.drain()
    require_valid(audit())


def found_if_changed_before(audit: Audit, story: Story, trio: Trio) -> dict[str, int]:
    """What is found if the settings were changed two hours before; as they were, nothing is."""
    groups = {"board": trio.consumer, "many": trio.consumer}
    require_valid(audit(applied=groups))
    story.broker.execute("update mqpg.former_setting set replaced_at = replaced_at - interval '2 hours'")
    return found(audit(applied=groups))


def test_a_group_whose_mode_was_shared(audit: Audit, story: Story, trio: Trio) -> None:
    """Two consumers had messages of a key at once, and the later one was applied first."""
    story.broker.execute("select mqpg.subscribe('many', 'orders', mode => 'shared', start => 'latest')")
    for _ in range(2):
        story.broker.execute("select mqpg.send('orders', '{}'::text, key => 'k')")
    story.append()
    receive = "select * from mqpg.receive('many', 'orders', 1)"
    deliveries = [story.broker.execute(receive).fetchall() for _ in range(2)]
    for rows in reversed(deliveries):
        story.journal("many", rows, str(story.one("select broker_id from mqpg.broker")))
    for rows in deliveries:
        story.broker.execute("select mqpg.ack(%s)", (rows[0]["receipt"],))
    story.broker.execute("select mqpg.alter_subscription('many', 'orders', mode => 'exclusive')")
    story.drain()
    assert found_if_changed_before(audit, story, trio) == {"disorder": 1, "lease": 1}


def test_a_broker_that_was_restored_into_another_cluster(audit: Audit, story: Story) -> None:
    """adopt() renews the transaction ids of all rows, because the cluster has others."""
    broker = story.broker
    broker.execute("select mqpg.redrive('board', 'orders')")
    story.drain()
    nacked, handle = story.business(), story.prepare()
    story.append()
    while story.consume(nack=(nacked,)):
        pass
    broker.execute("select mqpg.send('orders', '{}'::text, delay => '1 hour'), mqpg.send('orders', '{}'::text)")
    broker.execute("update mqpg.broker set system_identifier = system_identifier + 1")
    assert audit().verdict is Verdict.UNKNOWN
    broker.execute("select mqpg.adopt()")
    story.local(handle)
    story.commit(handle)
    story.business()
    time.sleep(0.01)
    story.drain()
    require_valid(audit())
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (nacked,))
    assert found(audit()) == {"lost": 1}


def test_a_group_whose_queue_was_not_blocked_by_failures(audit: Audit, story: Story, trio: Trio) -> None:
    """Messages of two keys were applied in another order, and a delivery was given up while another one began."""
    for group, options in {"many": "", "keyed": ", on_failure => 'block_key', max_attempts => 1"}.items():
        story.broker.execute(f"select mqpg.subscribe('{group}', 'orders', start => 'latest'{options})".encode())
    key = story.one("select min(k::text) from generate_series(1, 99) as k where mqpg._queue_of(k::text, 2) = 1")
    other = story.one("select max(k::text) from generate_series(1, 99) as k where mqpg._queue_of(k::text, 2) = 1")
    for one in (key, other):
        story.broker.execute("select mqpg.send('orders', '{}'::text, key => %s)", (one,))
    story.append()
    rows = story.broker.execute("select * from mqpg.receive('many', 'orders') order by queue_offset desc").fetchall()
    for row in rows:
        story.journal("many", [row], str(story.one("select broker_id from mqpg.broker")))
    story.broker.execute("select mqpg.ack(%s)", (rows[0]["receipt"],))
    story.broker.execute("select mqpg.receive('keyed', 'orders', 1, lease => '10 ms')")
    time.sleep(0.05)
    assert len(story.broker.execute("select * from mqpg.receive('keyed', 'orders')").fetchall()) == 1
    story.broker.execute("select mqpg.alter_subscription('many', 'orders', on_failure => 'block_queue')")
    story.broker.execute("select mqpg.alter_subscription('keyed', 'orders', on_failure => 'skip')")
    story.drain()
    assert found_if_changed_before(audit, story, trio) == {"disorder": 1, "skipped": 1}


def test_queues_that_were_added_to_a_relay_topic_before_a_decision(audit: Audit, story: Story) -> None:
    """COMMIT and ROLLBACK go to the queue of their half message, although its key has another one since."""
    broker = story.broker
    broker.execute("select mqpg.create_topic('relayed', 2, kind => 'relay')")
    broker.execute("select mqpg.create_producer_group('bare', checker => 'due_checks')")
    key = story.one("select min(k::text) from generate_series(1, 99) as k where mqpg._queue_of(k::text, 4) = 3")
    prepare = "select mqpg.prepare('relayed', '{}'::text, 'bare', key => %s)"
    committed, refused = (story.one(prepare, key) for _ in range(2))
    broker.execute("select mqpg.alter_topic('relayed', queues => 4)")
    for step in range(5):
        if step == 2:
            broker.execute("select mqpg.commit(%s), mqpg.rollback(%s)", (committed, refused))
        broker.execute("select mqpg._open_queues()")
        story.append()
    assert story.one("select count(*) from mqpg.topic_growth where boundaries is null") == 0
    broker.execute("select mqpg.commit(%s)", (story.one(prepare, key),))
    story.drain()
    require_valid(audit())
    queue = "update mqpg.commit_log set queue_id = 1 where batch_id = (select max(batch_id) from mqpg.commit_log)"
    broker.execute(queue)
    assert found(audit())["misplaced"] > 0


def test_delayed_messages_while_no_keeper_makes_partitions(audit: Audit, story: Story) -> None:
    """Their rows are written as if they were as old as the last partition."""
    story.broker.execute("update mqpg.clock set delayed_until = clock_timestamp() - interval '40 days'")
    story.broker.execute("select mqpg.send('orders', '{}'::text, delay => '1 hour')")
    assert story.one("select min(written_at) < now() - interval '39 days' from mqpg.delayed")
    story.drain()
    require_valid(audit())


def test_half_messages_of_a_relay_topic_in_a_restored_broker(audit: Audit, story: Story) -> None:
    """adopt() gives one whose check is not scheduled another transaction id than its PREPARE."""
    broker = story.broker
    broker.execute("select mqpg.create_topic('relayed', 1, kind => 'relay')")
    broker.execute("select mqpg.create_producer_group('bare', checker => 'due_checks')")
    for _ in range(3):
        broker.execute("select mqpg.prepare('relayed', '{}'::text, 'bare')")
        story.append()
    # The PREPARE of a half message may be in the next segment, so that one is begun here.
    broker.execute(
        "select setval('mqpg.batch_id', upper_bound::bigint) from mqpg.segment where family = 'log' and opened_at is not null"
    )
    broker.execute("select mqpg.send('orders', '{}'::text)")
    broker.execute("select * from mqpg.keep()")
    broker.execute("update mqpg.broker set system_identifier = system_identifier + 1")
    broker.execute("select mqpg.adopt()")
    query = "select count(*) from mqpg.commit_log as h join mqpg.commit_log as n using (topic_id, born_at)"
    assert story.one(f"{query} where h.kind = 'h' and n.kind = 'n' and h.xid <> n.xid") > 0
    story.drain()
    require_valid(audit())


def test_a_sequence_that_was_not_copied_with_its_table(audit: Audit, story: Story) -> None:
    """As logical replication leaves it out."""
    story.broker.execute("select mqpg.create_producer_group('other', checker => 'due_checks')")
    story.broker.execute("select mqpg.prepare('orders', '{}'::text, 'other')")
    story.broker.execute("select setval('mqpg.producer_group_producer_group_id_seq', 1, false)")
    require_valid(audit())


@pytest.mark.parametrize("final", [True, False])
def test_a_retry_that_waits_longer_than_its_message_is_kept(audit: Audit, story: Story, final: bool) -> None:
    broker = story.broker
    broker.execute("select mqpg.create_topic('short', 1)")
    broker.execute("select mqpg.subscribe('late', 'short', retry_delay => '1 microsecond')")
    message = story.one("select mqpg.send('short', '{}'::text)")
    story.append()
    receive, nack = "select * from mqpg.receive('late', 'short')", "select mqpg.nack(%s, %s, delay => %s, final => %s)"
    (row,) = broker.execute(receive).fetchall()
    broker.execute(nack, (row["receipt"], [message], "4 s", False))
    story.drain("mail", journal=False)
    while "tick" not in dropped(story):
        close_and_drop(story, cursors=False)
    assert story.one("select count(*) from mqpg.consume_queue where %s = any(first_ids)", message) == 0
    (row,) = eventually(lambda: (story.append(), broker.execute(receive).fetchall())[1])
    broker.execute(nack, (row["receipt"], [message], None, final))
    require_valid(audit())
