"""Planted faults that a second table contradicts: retries, decisions, deleted record batches."""

import time

from tests.audit.planting import BROKER_ONLY, Story, fault, message_id


def _nack(story: Story, delay: str, message: int | None = None) -> int:
    """Let group board nack a message, which it retries after a delay, and return its id.

    `message` is the only one that waits. None means a new one.
    """
    if message is None:
        message = story.business()
    story.append()
    rows = story.broker.execute(
        "select * from mqpg.receive('board', 'orders', 1000, consumer => 'c1') order by queue_offset"
    ).fetchall()
    assert [row["message_id"] for row in rows] == [message]
    story.broker.execute("select mqpg.nack(%s, array[%s], delay => %s::interval)", (rows[0]["receipt"], message, delay))
    story.consumer.execute(
        "update mqpg_offsets set next_offset = %s where queue_id = %s",
        (rows[0]["queue_offset"] + 1, rows[0]["queue_id"]),
    )
    return message


def _pass_over(story: Story, message: int) -> None:
    """Let the newest tick pass the time of a retry that waits, without appending it."""
    story.broker.execute("select mqpg.send('orders', '{}'::text)")
    story.append()
    story.broker.execute(
        "update mqpg.delayed set visible_at = (select max(due_until) - interval '1 microsecond' from mqpg.tick) "
        "where first_id = %s and visible_at > now() + interval '1 minute'",
        (message,),
    )
    story.broker.execute("select mqpg.send('orders', '{}'::text)")
    story.append()


def _half_ids(story: Story) -> list[int]:
    """The half messages that the producer or its checker committed, and that group board applied."""
    rows = story.broker.execute("select message_id from mqpg.op_log where op = 'c' and stage = 0 order by 1").fetchall()
    return [row["message_id"] for row in rows]


@fault("lost", "attempt 2 was due at")
def retry_never_appended(story: Story) -> None:
    _pass_over(story, _nack(story, "1 hour"))


@fault("mismatch", "and no nack of it said so before the last purge", alone=True)
def retry_that_no_purge_ended(story: Story) -> None:
    story.drain()
    story.broker.execute("select mqpg.purge_topic('orders')")
    message = _nack(story, "1 hour")
    story.broker.execute(
        "update mqpg.delayed set written_at = (select min(retries_from) - interval '1 s' from mqpg.subscription) "
        "where first_id = %s",
        (message,),
    )


@fault("lost", "attempt 2 was due at")
def retry_of_a_redriven_message_never_appended(story: Story) -> None:
    """The lane has attempt 2 of the message already, from before it became a dead letter."""
    story.drain()
    message = int(story.one("select message_id from mqpg.dead_letter"))
    story.broker.execute("select mqpg.redrive('board', 'orders')")
    _pass_over(story, _nack(story, "1 hour", message))


@fault("lost", "retention has dropped its body", alone=True)
def bodies_dropped_before_they_were_read(story: Story) -> None:
    message = story.business()
    story.drain()
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (message,))
    _drop_bodies(story)


def _drop_bodies(story: Story) -> None:
    """Drop the bodies of all messages, as retention does, and go on in a new segment."""
    story.broker.execute("update mqpg.settings set value = '0 s' where name = 'segment_age'")
    story.broker.execute("select * from mqpg.keep()")
    story.broker.execute("update mqpg.settings set value = '6 hours' where name = 'segment_age'")
    for _ in range(3):
        story.business()
    story.drain()
    story.broker.execute(
        "update mqpg.segment set body_dropped_at = clock_timestamp(), closed_at = clock_timestamp() "
        "where family = 'log' and segment_no = 1"
    )
    partition = story.one("select 'mqpg.' || mqpg._partition_name('commit_log', 1)")
    story.broker.execute(f"drop table {partition}")


@fault("lost", "which the newest tick has seen, but in no queue", alone=True, ledgers={})
def rollback_turned_into_a_commit(story: Story) -> None:
    story.broker.execute(
        "update mqpg.op_log set op = 'c' where message_id = (select min(message_id) from mqpg.op_log where op = 'b')"
    )


@fault("lost", "which the newest tick has seen, but in no queue", alone=True)
def rollback_turned_into_a_commit_with_a_ledger(story: Story) -> None:
    story.broker.execute(
        "update mqpg.op_log set op = 'c' where message_id = (select min(message_id) from mqpg.op_log where op = 'b')"
    )


@fault("phantom", "in a queue, but the message was rolled back", alone=True)
def commit_turned_into_a_rollback(story: Story) -> None:
    story.broker.execute("update mqpg.op_log set op = 'b' where message_id = %s and stage = 0", (_half_ids(story)[0],))


@fault("early", "in a queue, but the half message is undecided", alone=True)
def decision_deleted_after_delivery(story: Story) -> None:
    story.broker.execute("delete from mqpg.op_log where message_id = %s", (_half_ids(story)[0],))


@fault("early", "retry 2 was appended by tick")
def retry_appended_before_its_time(story: Story) -> None:
    story.broker.execute(
        "update mqpg.delayed set visible_at = clock_timestamp() + interval '1 hour' where subscription_id > 0 "
        "and attempt = 2 and first_id = (select min(first_id) from mqpg.delayed where subscription_id > 0)"
    )
    # The effect keeps its distance from the retry's time.
    story.consumer.execute("update mqpg_applied set applied_at = applied_at + interval '2 hours' where queue_id = -1")


@fault("early", "s before its time", alone=True)
def retry_applied_before_its_time(story: Story) -> None:
    message = _nack(story, "200 milliseconds")
    time.sleep(0.3)
    story.drain()
    due = story.one("select max(visible_at) from mqpg.delayed where first_id = %s", message)
    story.consumer.execute(
        "update mqpg_applied set applied_at = %s - interval '50 milliseconds' where message_id = %s", (due, message)
    )


@fault("duplicated", "applied 2 times")
def effect_repeated_at_another_offset(story: Story) -> None:
    story.consumer.execute(
        "insert into mqpg_applied select consumer_group, topic, 1 - queue_id, queue_offset + 1, message_id, "
        "clock_timestamp() from mqpg_applied where queue_id = 1 order by queue_offset limit 1"
    )


@fault("duplicated", "applied 2 times")
def retry_applied_twice(story: Story) -> None:
    story.consumer.execute("insert into mqpg_applied select * from mqpg_applied where queue_id = -1 limit 1")


@fault("phantom", "applied, but the group never subscribed to the topic")
def effect_on_a_topic_not_subscribed(story: Story) -> None:
    story.broker.execute("select mqpg.create_topic('other', 1)")
    message = story.one("select mqpg.send('other', '{}'::text)")
    story.append()
    story.consumer.execute(
        "insert into mqpg_applied values ('board', 'other', 0, 0, %s, clock_timestamp())", (message,)
    )


@fault("mismatch", "says that the broker has the decision, and the broker has none")
def done_without_a_decision(story: Story) -> None:
    story.local(story.prepare(), done=True)


@fault("mismatch", "says that the broker has the decision, and the broker has none")
def done_without_a_decision_held(story: Story) -> None:
    handle = story.prepare()
    story.local(handle, done=True)
    story.broker.execute(
        "insert into mqpg.held (message_id, xid, born_at, topic_id, producer_group_id, incarnation, queue_id, kind, "
        "nonce, check_at, payload) select batch_id * 1024, xid, born_at, topic_id, producer_group_id, incarnation, "
        "queue_id, kind, nonce, check_at, payloads[1] from mqpg.commit_log where batch_id = %s",
        (message_id(handle) >> 10,),
    )
    story.broker.execute("delete from mqpg.commit_log where batch_id = %s", (message_id(handle) >> 10,))


@fault("gap", "has no row, but the message is in a queue", **BROKER_ONLY)
def body_deleted_unread(story: Story) -> None:
    message = story.one("select mqpg.send('orders', '{}'::text)")
    story.append()
    story.broker.execute("delete from mqpg.commit_log where batch_id = %s", (message >> 10,))


@fault("gap", "has no row, but the message is in a journal, a queue")
def body_deleted_after_its_effect(story: Story) -> None:
    message = story.one("select mqpg.send('orders', '{}'::text)")
    story.drain()
    story.broker.execute("delete from mqpg.commit_log where batch_id = %s", (message >> 10,))


@fault("gap", "has no row, but the message is in a ledger, a queue, the op log")
def half_deleted_after_its_commit(story: Story) -> None:
    message = story.business()
    story.broker.execute("delete from mqpg.commit_log where batch_id = %s", (message >> 10,))
    story.broker.execute("select mqpg.send('orders', '{}'::text)")
    story.append()


@fault("lost", "the message is in a ledger, and the broker has no trace of it")
def half_lost_without_a_trace(story: Story) -> None:
    handle = story.prepare()
    story.local(handle, done=True)
    story.broker.execute("delete from mqpg.commit_log where batch_id = %s", (message_id(handle) >> 10,))
    story.broker.execute("select mqpg.send('orders', '{}'::text)")
    story.append()


@fault("gap", "has no row, but the message is in the delayed messages")
def delayed_message_deleted(story: Story) -> None:
    message = story.one("select mqpg.send('orders', '{}'::text, delay => interval '1 hour')")
    story.broker.execute("delete from mqpg.commit_log where batch_id = %s", (message >> 10,))
    story.broker.execute("select mqpg.send('orders', '{}'::text)")
    story.append()


@fault("mismatch", "and no nack of it said so", alone=True)
def retry_postponed_by_a_century(story: Story) -> None:
    message = _nack(story, "20 milliseconds")
    story.broker.execute(
        "update mqpg.delayed set visible_at = visible_at + interval '100 years' where first_id = %s", (message,)
    )


@fault("mismatch", "and no nack of it said so", alone=True)
def second_retry_brought_forward(story: Story) -> None:
    message = _nack(story, "1 millisecond")
    time.sleep(0.05)
    _nack(story, "1 day", message)
    story.broker.execute(
        "update mqpg.delayed set visible_at = visible_at - interval '1 second' where first_id = %s and attempt = 3",
        (message,),
    )


@fault("mismatch", "its delayed row names transaction 4000000000, which has not begun", alone=True)
def retry_of_a_transaction_to_come(story: Story) -> None:
    message = _nack(story, "1 hour")
    story.broker.execute("update mqpg.delayed set xid = '4000000000' where first_id = %s", (message,))


@fault("mismatch", "as attempt 7, and no nack of it said so", alone=True)
def retry_of_a_later_attempt(story: Story) -> None:
    """It would be a dead letter sooner."""
    message = _nack(story, "1 hour")
    story.broker.execute("update mqpg.delayed set attempt = 7 where first_id = %s", (message,))
