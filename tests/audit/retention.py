"""Working until retention drops segments."""

from tests.audit.story import Story

__all__ = ["close_and_drop", "drop_what_may_go", "dropped"]


def dropped(story: Story) -> set[str]:
    """Return the families with a segment whose rows are dropped."""
    rows = story.broker.execute("select distinct family from mqpg.segment where body_dropped_at is not null").fetchall()
    return {row["family"] for row in rows}


def drop_what_may_go(story: Story, *, decisions: bool = True) -> None:
    """Work with a retention of 0 until segments of messages and of queues are dropped.

    Without `decisions`, those of the dropped bodies stay.
    """
    if decisions:
        story.broker.execute("update mqpg.settings set value = '0 s' where name = 'op_log_keep'")
    while not {"log", "tick"} <= dropped(story):
        close_and_drop(story)


def close_and_drop(story: Story, *, cursors: bool = True) -> None:
    """Close what is in use and drop what may go, with a retention of 0, and work after each.

    Without `cursors`, their versions stay.
    """
    broker, ages = story.broker, ["segment_age"] + ["cursor_slot_age"] * cursors
    for age in ("0 s", "6 hours"):
        broker.execute("update mqpg.settings set value = %s where name = any(%s)", (age, ages))
        broker.execute("update mqpg.topic set retention = '0 s'")
        for _ in range(1 if age == "0 s" else 20):
            broker.execute("select * from mqpg.keep()")
        # With a retention of 0, prepare() would be refused.
        broker.execute("update mqpg.topic set retention = '1 day'")
        story.business()
        story.drain()
        story.drain("mail", journal=False)
