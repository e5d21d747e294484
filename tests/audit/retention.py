"""Working until retention drops segments."""

import time

from tests.audit.story import Story

__all__ = ["drop_what_may_go", "dropped"]


def dropped(story: Story) -> set[str]:
    """Return the families with a segment whose rows are dropped."""
    rows = story.broker.execute("select distinct family from mqpg.segment where body_dropped_at is not null").fetchall()
    return {row["family"] for row in rows}


def drop_what_may_go(story: Story, *, decisions: bool = True) -> None:
    """Work with a retention of 0 until segments of messages and of queues are dropped.

    Without `decisions`, those of the dropped bodies stay.
    """
    broker = story.broker
    if decisions:
        broker.execute("update mqpg.settings set value = '0 s' where name = 'op_log_keep'")
    deadline = time.monotonic() + 60
    while not {"log", "tick"} <= dropped(story) and time.monotonic() < deadline:
        for age in ("0 s", "6 hours"):
            broker.execute(
                "update mqpg.settings set value = %s where name in ('segment_age', 'cursor_slot_age')", (age,)
            )
            broker.execute("update mqpg.topic set retention = '0 s'")
            for _ in range(1 if age == "0 s" else 20):
                broker.execute("select * from mqpg.keep()")
            # With a retention of 0, prepare() would be refused.
            broker.execute("update mqpg.topic set retention = '1 day'")
            story.business()
            story.drain()
            story.drain("mail", journal=False)
    assert {"log", "tick"} <= dropped(story)
