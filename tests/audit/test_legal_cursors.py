"""A random but legal history of cursors is valid: every mode, and every way to move a position."""

from collections.abc import Callable

import pytest

from mqpg.audit.report import Report
from tests.audit.judged import require_valid
from tests.audit.legal_history import live
from tests.audit.story import JOURNAL_DDL, Story

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_consumers_may_do_is_valid(audit: Callable[..., Report], story: Story, seed: int) -> None:
    live(story, seed)
    require_valid(audit())


@pytest.mark.parametrize("moved", ["seek('all', 'world', 'latest')", "purge_topic('world')"])
def test_a_member_that_joined_after_its_group_was_moved(audit: Callable[..., Report], story: Story, moved: str) -> None:
    """Its first version is gone, and with it where it began."""
    broker = story.broker
    broker.execute(JOURNAL_DDL)
    broker.execute("select mqpg.create_topic('world', 1)")
    broker.execute("select mqpg.subscribe('all', 'world', 'broadcast')")
    broker.execute("select mqpg.send_batch('world', array['1', '2', '3'])")
    story.append()
    broker.execute(f"select mqpg.{moved}".encode())
    broker.execute("select mqpg.send('world', '4'::text)")
    story.append()
    (row,) = broker.execute("select * from mqpg.receive('all', 'world', consumer => 'pod')").fetchall()
    with broker.transaction():
        broker.execute(
            "insert into mqpg_applied select 'all', 'world', 0, 3, %s, clock_timestamp(), broker_id, %s from mqpg.broker",
            (row["message_id"], int(row["receipt"].split(".")[0])),
        )
        broker.execute("select mqpg.ack(%s)", (row["receipt"],))
    for age in ("0 s", "6 hours"):
        broker.execute("update mqpg.settings set value = %s where name = 'cursor_slot_age'", (age,))
        for _ in range(10):
            broker.execute("select * from mqpg.keep()")
    assert story.one("select count(*) from mqpg.cursor where version = 1") == 0
    require_valid(audit())


@pytest.mark.parametrize("keeper", ["runs", "has been away for days"])
def test_a_purge_while_a_retry_waits(audit: Callable[..., Report], story: Story, keeper: str) -> None:
    """Its messages are done, also that one, so nothing is left open."""
    story.drain()
    if keeper != "runs":  # Retries and purges are dated as old as the last partition.
        story.broker.execute("update mqpg.clock set delayed_until = clock_timestamp() - interval '40 days'")
    message = story.business()
    story.append()
    while story.consume(nack=(message,)):
        pass
    story.broker.execute("select mqpg.purge_topic('orders')")
    story.drain()
    require_valid(audit(drained=True, groups=("board",)))
