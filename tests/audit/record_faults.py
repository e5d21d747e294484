"""Planted faults of records that are written twice, and of what is still to be read."""

import time

from tests.audit.faults import commit_slipped_past_the_appender
from tests.audit.planting import BROKER_ONLY, Story, fault, half_moved, message_id


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


@fault("mismatch", "its topic is normal, and its half message relays its phases")
def undecided_half_that_would_be_relayed(story: Story) -> None:
    handle = story.prepare()
    story.broker.execute("update mqpg.commit_log set relay = true where batch_id = %s", (message_id(handle) >> 10,))


@fault("mismatch", "its handles have incarnation 2, and the broker is in its 1")
def handle_that_the_broker_does_not_know(story: Story) -> None:
    handle = story.prepare()
    story.broker.execute(
        "update mqpg.commit_log set incarnation = incarnation + 1 where batch_id = %s", (message_id(handle) >> 10,)
    )


@fault("mismatch", "its decision says that it is due at")
def delayed_half_postponed_in_one_place(story: Story) -> None:
    handle = story.prepare(delay="1 hour")
    story.local(handle, done=True)
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    story.broker.execute(
        "update mqpg.delayed set visible_at = visible_at + interval '100 years' where first_id = %s",
        (message_id(handle),),
    )


@fault("mismatch", "says topic orders, and the broker has it in topic other", alone=True)
def half_moved_to_another_topic(story: Story) -> None:
    story.broker.execute("select mqpg.alter_topic('orders', checksums => false)")
    story.commit(half_moved(story, "other"))
    story.drain()


@fault("undecided", "no decision", alone=True)
def check_back_moved_to_the_next_century(story: Story) -> None:
    story.broker.execute("select mqpg.alter_topic('orders', checksums => false)")
    handle = story.prepare()
    story.broker.execute(
        "update mqpg.commit_log set check_at = check_at + interval '100 days' where batch_id = %s",
        (message_id(handle) >> 10,),
    )


@fault("lost", "later than any call may ask", alone=True)
def delayed_send_postponed_by_a_month(story: Story) -> None:
    message = story.one("select mqpg.send('orders', '{}'::text, delay => interval '1 hour')")
    story.broker.execute(
        "update mqpg.delayed set visible_at = visible_at + interval '1 month' where first_id = %s", (message,)
    )


@fault("lost", "which the newest tick has seen, but in no queue", alone=True)
def due_message_recalled_after_its_tick(story: Story) -> None:
    """No tick appended it in time."""
    message = story.one("select mqpg.send('orders', '{}'::text, delay => interval '1 hour')")
    for _ in range(2):
        story.broker.execute("select mqpg.send('orders', '{}'::text)")
        story.append()
        story.broker.execute(
            "update mqpg.delayed set visible_at = (select max(due_until) from mqpg.tick) where first_id = %s "
            "and visible_at > now()",
            (message,),
        )
    assert story.one("select mqpg.recall(%s)", message)
    story.drain()


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
        "update mqpg.segment set merged_at = now(), left_out = array[(select topic_id from mqpg.topic where name = 'slow')] "
        "where family = 'tick' and opened_at is not null"
    )


def _queue_row(story: Story, change: str, where: str) -> None:
    changed = story.broker.execute(f"{change} mqpg.consume_queue {where}".encode())
    assert changed.rowcount == 1


def _three_ticks(story: Story) -> None:
    """Append a message of queue 1 by each of three ticks."""
    for _ in range(3):
        story.broker.execute("select mqpg.send('orders', '{}'::text, key => '1')")
        story.append()
    story.drain()


@fault("gap", "no row holds the offsets 0 to", alone=True)
def row_of_a_queue_deleted(story: Story) -> None:
    """It holds messages that one group has applied, and another one has still to read."""
    _queue_row(story, "delete from", "where subscription_id = 0 and queue_id = 0 and base_offset = 0")


@fault("gap", "no row holds the offsets 2 to 2", alone=True)
def row_of_a_retry_lane_deleted(story: Story) -> None:
    _queue_row(story, "delete from", "where subscription_id > 0 and base_offset = 2")


@fault("gap", "transaction 3, which the newest tick has seen, but in no queue", alone=True)
def commit_slipped_past_the_appender_of_queues_with_holes(story: Story) -> None:
    story.broker.execute("delete from mqpg.consume_queue where subscription_id = 0 and base_offset = 0")
    commit_slipped_past_the_appender(story)


@fault("gap", "which the newest tick has passed, but it is in no retry lane", alone=True)
def retry_missing_in_a_lane_with_a_hole(story: Story) -> None:
    row_of_a_retry_lane_deleted(story)


@fault("gap", "is beyond the end of the queue", alone=True)
def retry_lane_deleted(story: Story) -> None:
    assert story.broker.execute("delete from mqpg.consume_queue where subscription_id > 0").rowcount > 9


@fault("gap", "is beyond the end of the queue", alone=True)
def newest_row_of_a_queue_deleted(story: Story) -> None:
    _three_ticks(story)
    _queue_row(story, "delete from", "where tick_id = (select max(tick_id) from mqpg.consume_queue)")


@fault("gap", "messages, and the queues have 0 of them", alone=True)
def unread_message_deleted_with_its_row(story: Story) -> None:
    """It is the newest one of its queue, so nothing else names it."""
    story.drain("mail", journal=False)
    message = story.one("select mqpg.send('orders', '{}'::text)")
    story.append()
    for table, where in {"commit_log": "batch_id * 1024 = %s", "consume_queue": "first_ids[1] = %s"}.items():
        assert story.broker.execute(f"delete from mqpg.{table} where {where}".encode(), (message,)).rowcount == 1


@fault("gap", "no row holds the offsets", alone=True)
def row_of_a_queue_moved_by_one(story: Story) -> None:
    """It is at the offset of the next one, too."""
    _three_ticks(story)
    _queue_row(
        story,
        "update",
        "set base_offset = base_offset + 1 where tick_id = (select max(tick_id) - 1 from mqpg.consume_queue)",
    )


def _call_kind(story: Story, message: int, kind: str) -> None:
    """Change the kind of a message's record batch, once it is in its queue."""
    story.append()
    changed = story.broker.execute("update mqpg.commit_log set kind = %s where batch_id = %s", (kind, message >> 10))
    assert changed.rowcount == 1


@fault("corrupt", "a record batch of kind z, and by its other columns and tables of kind n")
def message_of_an_unknown_kind(story: Story) -> None:
    _call_kind(story, story.one("select mqpg.send('orders', '{}'::text)"), "z")


@fault("corrupt", "a record batch of kind n, and by its other columns and tables of kind h")
def half_called_normal(story: Story) -> None:
    _call_kind(story, story.business(), "n")


@fault("corrupt", "a record batch of kind n, and by its other columns and tables of kind d")
def delayed_message_called_normal(story: Story) -> None:
    message = story.one("select mqpg.send('orders', '{}'::text, delay => interval '1 millisecond')")
    time.sleep(0.01)
    _call_kind(story, message, "n")


@fault("gap", "it was delayed, and no row of the delayed messages says until when", alone=True)
def rows_of_delayed_messages_deleted(story: Story) -> None:
    """They are gone after their messages are in the queue."""
    handle = story.prepare(delay="1 millisecond")
    story.local(handle)
    story.commit(handle)
    message = story.one("select mqpg.send('orders', '{}'::text, delay => interval '1 millisecond')")
    time.sleep(0.01)
    story.drain()
    gone = story.broker.execute("delete from mqpg.delayed where first_id = any(%s)", ([message, message_id(handle)],))
    assert gone.rowcount == 2


@fault("gap", "in the retry lane 1 times, and the delayed messages have 0 rows that say when", alone=True)
def row_of_a_retry_deleted(story: Story) -> None:
    deleted = story.broker.execute(
        "delete from mqpg.delayed where first_id = (select min(first_id) from mqpg.delayed where subscription_id > 0)"
    )
    assert deleted.rowcount == 1


@fault("mismatch", "and that this message is the one before it", alone=True)
def stored_offset_set_back(story: Story) -> None:
    story.consumer.execute(
        "update mqpg_offsets o set next_offset = a.queue_offset, last_message_id = a.message_id from mqpg_applied a "
        "where o.queue_id = 0 and a.queue_id = 0 and a.queue_offset = 5"
    )


@fault("mismatch", "and had applied and acknowledged more", alone=True)
def stored_offset_of_an_earlier_release_set_back(story: Story) -> None:
    story.consumer.execute("update mqpg_offsets set next_offset = next_offset - 1 where queue_id = 1")


@fault("mismatch", "its row in the journal names subscription 99, and the group has")
def effect_of_another_subscription(story: Story) -> None:
    story.consumer.execute("update mqpg_applied set subscription_id = 99 where queue_id = 0 and queue_offset = 3")


@fault("mismatch", "its row in the journal names subscription 0, and the group has")
def effect_of_no_subscription(story: Story) -> None:
    story.consumer.execute("update mqpg_applied set subscription_id = 0 where queue_id = 1 and queue_offset = 3")
