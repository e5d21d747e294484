"""Messages that a group skipped on purpose are no anomaly, and neither are replayed ones.

The audit reports them, and still finds other faults.
"""

import threading
from collections.abc import Callable

import psycopg
import pytest

from mqpg.audit.report import Report
from mqpg.audit.sql.workspace import BEGIN, LOCK, open_workspace
from mqpg.audit.verdict import Verdict
from tests.audit.judged import found
from tests.audit.story import Story, Trio


def test_seek_purge_and_discard_are_no_anomalies(audit: Callable[..., Report], story: Story) -> None:
    broker = story.broker
    broker.execute("select mqpg.discard_dead_letters('board', 'orders')")
    for why in ("purge_topic('orders')", "seek('board', 'orders', 'latest')"):
        for _ in range(3):
            story.business()
        story.append()
        broker.execute(f"select mqpg.{why}")
        story.business()
        story.drain()
    _forget_local_offsets(story)
    report = audit()
    assert (report.verdict, found(report)) == (Verdict.VALID, {}), (report.reasons, report.examples)
    left_out = {
        row["why"]: row["offsets"] for row in report.run["broker"]["left_out"] if row["consumer_group"] == "board"
    }
    assert left_out == {"purge": 3, "seek": 3}
    message = story.business()
    story.drain()
    _forget_local_offsets(story)
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (message,))
    assert found(audit()) == {"lost": 1}


def _forget_local_offsets(story: Story) -> None:
    """Make the broker's cursor the group's position.

    A seek does not move a group that stores its own offsets.
    """
    story.consumer.execute("delete from mqpg_offsets")


def test_what_a_filter_does_not_choose_is_not_lost(audit: Callable[..., Report], story: Story) -> None:
    story.broker.execute("select mqpg.alter_subscription('board', 'orders', filter => '$ == \"nothing\"')")
    for _ in range(3):
        story.business()
    story.drain()
    _forget_local_offsets(story)
    report = audit()
    assert (report.verdict, found(report)) == (Verdict.VALID, {}), (report.reasons, report.examples)
    story.broker.execute("select mqpg.alter_subscription('board', 'orders', filter => 'true')")
    assert found(audit()) == {}  # The filter of their time explains it.
    story.broker.execute("delete from mqpg.former_filter")
    assert found(audit()) == {"lost": 3}  # They were skipped, and no filter explains it.


def test_what_a_seek_back_brought_again_may_be_applied_again(audit: Callable[..., Report], story: Story) -> None:
    _forget_local_offsets(story)
    message = story.business()
    story.drain()
    _forget_local_offsets(story)
    tail = story.one("select max(next_offset) from mqpg.queue_depth where topic = 'orders'")
    assert tail > 0
    row = story.broker.execute(
        "select queue_id, queue_offset from mqpg.find_by_key('orders', 'none') union all"
        " select (detail ->> 'queue_id')::int, (detail ->> 'queue_offset')::bigint from mqpg.trace(%s)"
        " where event = 'appended'",
        (message,),
    ).fetchone()
    assert row is not None
    story.broker.execute(
        "select mqpg.seek('board', 'orders', %s, queue_id => %s)", (str(row["queue_offset"]), row["queue_id"])
    )
    story.drain()
    _forget_local_offsets(story)
    times = story.consumer.execute(
        "select count(*) as n from mqpg_applied where message_id = %s", (message,)
    ).fetchone()
    assert times is not None
    assert times["n"] == 2
    report = audit()
    assert found(report) == {}, report.examples
    story.consumer.execute(
        "insert into mqpg_applied select * from mqpg_applied where message_id = %s limit 1", (message,)
    )
    assert found(audit()) == {"duplicated": 1}


def test_a_row_that_is_missing_from_a_queue_excuses_no_second_effect(
    story: Story, audit: Callable[..., Report]
) -> None:
    """A seek back excuses one for what is in the queue, or was dropped with it by retention."""
    story.broker.execute("select mqpg.seek('board', 'orders', 'earliest')")
    story.drain()
    assert audit().verdict is Verdict.VALID
    story.broker.execute("delete from mqpg.consume_queue where (queue_id, base_offset) = (0, 0)")
    assert [reason for reason in audit().reasons if reason.endswith(" duplicated")]


def test_a_pinned_snapshot_keeps_its_tables_from_being_dropped(trio: Trio) -> None:
    """Without locks, keep() could drop a partition between the snapshot and the read."""
    with open_workspace(trio.broker) as work, psycopg.connect(trio.broker, autocommit=True) as keeper:
        work.query(BEGIN)
        work.query(LOCK)
        partition = keeper.execute("select inhrelid::regclass::text from pg_inherits"
                                   " where inhparent = 'mqpg.commit_log'::regclass limit 1").fetchone()  # fmt: skip
        assert partition is not None
        keeper.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            keeper.execute(f"drop table {partition[0]}")
        writer = threading.Thread(target=keeper.execute, args=("select mqpg.send('orders', '1'::text)",))
        writer.start()
        writer.join(45)
        assert not writer.is_alive()
