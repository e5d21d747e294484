"""Ticks, snapshots and versions tell the order inside one cluster. A clock that went back does not."""

from collections.abc import Callable
from typing import Any

import pytest

from mqpg.audit.report import Report
from tests.audit.clock import turn_back
from tests.audit.judged import found, require_valid
from tests.audit.story import Row, Story, message_id

pytestmark = pytest.mark.spark

Audit = Callable[..., Report]
STEPS = ("0.5 s", "3 s")


def send(story: Story, n: int = 5) -> list[int]:
    query = "select mqpg.send('orders', '{}'::text, key => 'k') as id from generate_series(1, %s)"
    return [int(row["id"]) for row in story.broker.execute(query, (n,)).fetchall()]


def receive(story: Story) -> list[Row]:
    query = "select * from mqpg.receive('board', 'orders', 1000, consumer => 'c1') order by queue_offset"
    return story.broker.execute(query).fetchall()


@pytest.mark.parametrize("by", STEPS)
def test_between_a_send_and_its_effect(audit: Audit, story: Story, by: str) -> None:
    for when in ("before the tick", "after the tick", "after the delivery", "between two effects"):
        _write(story, when, by)
    require_valid(audit())
    story.consumer.execute("update mqpg_applied set applied_at = applied_at - interval '1 hour' where message_id = "
                           "(select min(message_id) from mqpg_applied where queue_id = 0)")  # fmt: skip
    assert found(audit()) == {"early": 1}


def _write(story: Story, when: str, by: str) -> None:
    """Send and apply a few messages, and let the clock go back at a moment."""
    story.business()
    send(story)
    if when == "before the tick":
        turn_back(story, by)
    story.append()
    if when == "after the tick":
        turn_back(story, by)
    while rows := receive(story):
        if when == "after the delivery":
            turn_back(story, by)
        half = len(rows) // 2
        story._apply("board", rows[:half], rows[:half] or rows)
        if when == "between two effects":
            turn_back(story, by)
        story._apply("board", rows[half:], rows)
        story.broker.execute("select mqpg.ack(%s)", (rows[0]["receipt"],))
    story.drain()


def test_while_a_delivery_is_open(audit: Audit, story: Story) -> None:
    """append() shortens its lease, in a version that names no delivery."""
    send(story)
    story.append()
    rows = receive(story)
    turn_back(story, "1 hour")
    send(story)
    story.append()
    assert story.one("select count(*) from mqpg.cursor where action = 'e' and epoch is null") > 0
    story._apply("board", rows, rows)
    story.broker.execute("select mqpg.ack(%s)", (rows[0]["receipt"],))
    story.drain()
    require_valid(audit())


@pytest.mark.parametrize("by", STEPS)
def test_between_a_row_in_the_ledger_and_its_commit(audit: Audit, story: Story, by: str) -> None:
    handles = [story.prepare() for _ in range(3)]
    for handle in handles:
        story.local(handle)
    turn_back(story, by)
    for handle in handles:
        story.commit(handle)
    story.drain()
    require_valid(audit())
    story.ledger.execute("update mqpg_ledger set created_at = created_at + interval '1 hour', done_at = null "
                         "where handle = (select min(handle) from mqpg_ledger where entry = 'local')")  # fmt: skip
    assert found(audit()) == {"early": 1}


def test_by_days_between_a_half_message_and_its_commit(audit: Audit, story: Story) -> None:
    """The ticks show that the clock went back so far."""
    handle = story.prepare()
    story.local(handle)
    story.append()
    story.broker.execute("update mqpg.commit_log set born_at = born_at + interval '3 days', check_at = check_at "
                         "+ interval '3 days' where batch_id = %s", (message_id(handle) >> 10,))  # fmt: skip
    story.broker.execute("update mqpg.tick set at = at + interval '3 days'")
    story.commit(handle)
    story.drain()
    require_valid(audit())
    story.broker.execute("update mqpg.tick set at = at - interval '3 days' where at > now()")
    assert found(audit()) == {"mismatch": 1}


@pytest.mark.parametrize("by", STEPS)
def test_while_a_message_waits_for_its_retry(audit: Audit, story: Story, by: str) -> None:
    (message,) = send(story, 1)
    story.append()
    story.consume(nack=(message,))
    turn_back(story, by)
    while not _applied(story, message):
        send(story, 1)
        story.drain()
    require_valid(audit())


def _applied(story: Story, message: int) -> Any:
    return story.consumer.execute("select 1 from mqpg_applied where message_id = %s", (message,)).fetchone()


def test_clocks_of_two_servers_differ(audit: Audit, story: Story) -> None:
    """What the tolerance covers is noted."""
    send(story)
    story.drain()
    story.consumer.execute("update mqpg_applied set applied_at = applied_at - interval '1 s'")
    report = audit(clock_tolerance=5.0)
    require_valid(report)
    assert [note["kind"] for note in report.notes] == ["clock"]
    assert "within the tolerance of 5" in report.notes[0]["evidence"]


def test_clocks_of_two_servers_differ_by_days(audit: Audit, story: Story) -> None:
    story.consumer.execute("update mqpg_applied set applied_at = applied_at + interval '2 days'")
    require_valid(audit(clock_tolerance=3 * 86400.0))
    require_valid(audit(clock_tolerance=1e300))
    assert found(audit())["mismatch"] > 0


def test_before_the_oldest_version_that_is_kept(audit: Audit, story: Story) -> None:
    """Dead letters, position jumps and retries of that time have later times than that version."""
    broker = story.broker
    broker.execute("select mqpg.seek('mail', 'orders', 'latest')")
    story.business()
    story.drain()
    turn_back(story, "1 hour")
    send(story)
    story.drain()
    for age in ("0 s", "6 hours"):
        broker.execute("update mqpg.settings set value = %s where name = 'cursor_slot_age'", (age,))
        for _ in range(10):
            broker.execute("select * from mqpg.keep()")
    assert story.one("select count(*) from mqpg.cursor where version = 1") == 0
    require_valid(audit())
    story.consumer.execute("delete from mqpg_applied where message_id = (select max(message_id) from mqpg_applied)")
    assert found(audit()) == {"lost": 1}


def test_between_two_sends_with_one_dedup_id(audit: Audit, story: Story) -> None:
    """The window is over by the broker's time, and the second one has the earlier time."""
    query = "select mqpg.send('orders', '{}'::text, dedup_id => 'again')"
    first = story.one(query)
    story.append()
    turn_back(story, "3 hours")
    story.append()
    # Two of these are over.
    story.broker.execute(
        "update mqpg.commit_log set born_at = born_at - interval '2 hours' where batch_id = %s", (first >> 10,)
    )
    story.broker.execute("select mqpg._make_segments()")
    assert story.one(query) != first
    story.drain()
    require_valid(audit())
