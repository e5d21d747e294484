"""Planted faults of records that are written twice, and of what is still to be read."""

from tests.audit.planting import BROKER_ONLY, Story, fault, message_id


def _decided_by(story: Story, handle: str, who: str) -> None:
    changed = story.broker.execute(
        "update mqpg.op_log set decided_by = %s where message_id = %s and stage = 0", (who, message_id(handle))
    )
    assert changed.rowcount == 1


@fault("unexplained", "decided by the admin, but there is no record of a settle()")
def commit_without_local_transaction_called_settled(story: Story) -> None:
    handle = story.prepare()
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    story.drain()
    _decided_by(story, handle, "admin")


@fault("unexplained", "decided by the expiry, but there is no record of its expiry")
def rollback_called_expiry(story: Story) -> None:
    handle = story.prepare()
    story.broker.execute("select mqpg.rollback(%s)", (handle,))
    _decided_by(story, handle, "expiry")


@fault("mismatch", "its decision says that it is due at")
def delayed_half_postponed_in_one_place(story: Story) -> None:
    handle = story.prepare(delay="1 hour")
    story.local(handle, done=True)
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    story.broker.execute(
        "update mqpg.delayed set visible_at = visible_at + interval '100 years' where first_id = %s",
        (message_id(handle),),
    )


@fault("gap", "offsets, and has no row", alone=True)
def tick_deleted(story: Story) -> None:
    story.business()
    story.drain()
    story.business()
    story.drain()
    story.broker.execute(
        "delete from mqpg.tick where tick_id = (select max(tick_id) from mqpg.consume_queue where tick_id < "
        "(select max(tick_id) from mqpg.consume_queue where subscription_id = 0))"
    )


@fault("gap", "has still to read the offsets 0 to 0, and no row holds them", alone=True, **BROKER_ONLY)
def queue_dropped_before_it_was_read(story: Story) -> None:
    story.broker.execute("select mqpg.create_topic('slow', 1)")
    story.broker.execute("select mqpg.subscribe('lazy', 'slow')")
    for _ in range(2):
        story.broker.execute("select mqpg.send('slow', '{}'::text)")
        story.append()
    story.broker.execute(
        "delete from mqpg.consume_queue where base_offset = 0 "
        "and topic_id = (select topic_id from mqpg.topic where name = 'slow')"
    )
    # As if retention had dropped it.
    story.broker.execute(
        "update mqpg.segment set left_out = array[(select topic_id from mqpg.topic where name = 'slow')] "
        "where family = 'tick' and opened_at is not null"
    )
