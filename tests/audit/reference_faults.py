"""Planted faults of check-backs, and of rows that name a topic, a body or a slot that is not there."""

import time

from tests.audit.planting import BROKER_ONLY, Story, fault, message_id

_GONE = "(select max(topic_id) from mqpg.dropped_topic)"


def _change(story: Story, statement: str, *parameters: object) -> None:
    assert story.broker.execute(statement.encode(), parameters).rowcount == 1, statement


def _without_checksums(story: Story) -> None:
    story.broker.execute("select mqpg.alter_topic('orders', checksums => false)")


def _drop_another_topic(story: Story) -> None:
    story.broker.execute("select mqpg.create_topic('gone'), mqpg.send('gone', '{}'::text)")
    story.broker.execute("select mqpg.drop_topic('gone', force => true)")


def _with_final_payload(story: Story) -> int:
    """Commit a half message with another payload. Returns the record batch that holds it."""
    handle = story.prepare()
    story.local(handle, done=True)
    story.broker.execute("select mqpg.commit(%s, '{}'::text)", (handle,))
    story.drain()
    story.drain("mail", journal=False)
    return int(story.one("select deliver_id >> 10 from mqpg.op_log where message_id = %s", message_id(handle)))


def _settle(story: Story, verdict: str = "rollback") -> int:
    handle = story.prepare()
    story.broker.execute("select mqpg.settle(%s, %s::mqpg.verdict, 'by hand')", (handle, verdict))
    return message_id(handle)


@fault("gap", "has no row, but the message is in the op log", alone=True)
def final_payload_deleted(story: Story) -> None:
    _change(story, "delete from mqpg.commit_log where batch_id = %s", _with_final_payload(story))


@fault("corrupt", "its decision names the body", alone=True)
def final_payload_of_another_topic(story: Story) -> None:
    _without_checksums(story)
    story.broker.execute("select mqpg.create_topic('other')")
    _change(
        story,
        "update mqpg.commit_log set topic_id = (select max(topic_id) from mqpg.topic) where batch_id = %s",
        _with_final_payload(story),
    )


@fault("mismatch", "its record batch says topic 1001, which never was", alone=True)
def half_of_a_topic_that_never_was(story: Story) -> None:
    _without_checksums(story)
    handle = story.prepare()
    _change(story, "update mqpg.commit_log set topic_id = 1001 where batch_id = %s", message_id(handle) >> 10)


@fault("mismatch", "which never was", alone=True)
def dropped_topic_forgotten(story: Story) -> None:
    _drop_another_topic(story)
    _change(story, f"delete from mqpg.dropped_topic where topic_id = {_GONE}")


@fault("phantom", "in a queue, but the message is one of another topic", alone=True, **BROKER_ONLY)
def message_moved_to_a_dropped_topic(story: Story) -> None:
    _without_checksums(story)
    _drop_another_topic(story)
    _change(story, f"update mqpg.commit_log set topic_id = {_GONE} where n = 40")


@fault("misplaced", "its decision queue")
def decision_of_the_appender_in_another_queue(story: Story) -> None:
    _change(story, "update mqpg.op_log set queue_id = 1 - queue_id where stage = 1")


@fault("unexplained", "decided by the checker, but there is no record of a check-back")
def rollback_called_a_check_back(story: Story) -> None:
    handle = story.prepare()
    story.broker.execute("select mqpg.rollback(%s)", (handle,))
    _change(story, "update mqpg.op_log set decided_by = 'checker' where message_id = %s", message_id(handle))


@fault("unexplained", "its check-back says settled, and its decision is by the producer")
def settled_half_called_the_producers(story: Story) -> None:
    _change(story, "update mqpg.op_log set decided_by = 'producer' where message_id = %s", _settle(story))


@fault("unexplained", "its check-back says settled, and its decision is missing", alone=True)
def decision_deleted_that_was_settled(story: Story) -> None:
    _change(story, "delete from mqpg.op_log where message_id = %s", _settle(story))


@fault("unexplained", "its check-back says unheard, and its decision is by the admin")
def check_back_of_an_unknown_event(story: Story) -> None:
    message = _settle(story)
    _change(
        story,
        "insert into mqpg.check_log select message_id, at + interval '1 second', 'unheard', by, reason "
        "from mqpg.check_log where message_id = %s",
        message,
    )


@fault("unexplained", "its check-back (settled) is recorded 2 times")
def check_back_recorded_twice(story: Story) -> None:
    _change(story, "insert into mqpg.check_log select * from mqpg.check_log where message_id = %s", _settle(story))


@fault("mismatch", "the check-back decided it, and it is no half message")
def check_back_of_a_sent_message(story: Story) -> None:
    _change(
        story,
        "insert into mqpg.check_log select min(batch_id) * 1024, clock_timestamp(), 'asked', 'url' from mqpg.commit_log "
        "where kind = 'n'",
    )


@fault("mismatch", "the time of its check-back is")
def check_back_of_the_next_year(story: Story) -> None:
    _change(story, "update mqpg.check_log set at = at + interval '400 days' where message_id = %s", _settle(story))


@fault("gap", "has no row, but the message is in the check-backs", alone=True)
def check_back_of_no_message(story: Story) -> None:
    message = _settle(story)
    story.business()
    story.drain()
    _change(
        story,
        "insert into mqpg.check_log select %s - 1024, at, 'asked', by, reason from mqpg.check_log where message_id = %s",
        message, message,
    )  # fmt: skip


@fault("gap", "in the retry lane 1 times, and the delayed messages have 0 rows that say when", alone=True)
def row_of_a_redriven_message_deleted(story: Story) -> None:
    story.broker.execute("select mqpg.redrive('board', 'orders')")
    time.sleep(0.01)
    story.drain()
    _change(story, "delete from mqpg.delayed where subscription_id > 0 and attempt = 1")


@fault("skipped", "no version in a newer slot continues it", alone=True)
def cursor_not_carried_into_the_next_slot(story: Story) -> None:
    story.broker.execute("update mqpg.settings set value = '0 s' where name = 'cursor_slot_age'")
    story.broker.execute("select * from mqpg.keep()")
    _change(
        story,
        "delete from mqpg.cursor where action = 'k' and queue_id = 1 and subscription_id = "
        "(select subscription_id from mqpg.subscription where consumer_group = 'mail')",
    )


@fault("unexplained", "rows of family log are in no segment", alone=True)
def segment_of_messages_forgotten(story: Story) -> None:
    _change(story, "delete from mqpg.segment where family = 'log' and lower_bound = '0'")


@fault("unexplained", "rows of family cursor are in no segment", alone=True)
def slot_of_cursors_forgotten(story: Story) -> None:
    story.broker.execute("update mqpg.settings set value = '0 s' where name = 'cursor_slot_age'")
    story.broker.execute("select * from mqpg.keep()")
    _change(story, "delete from mqpg.segment where family = 'cursor' and lower_bound = '1'")


@fault("unexplained", "is in no segment", alone=True)
def segment_of_delayed_messages_forgotten(story: Story) -> None:
    _change(story, "delete from mqpg.segment where family = 'delayed' and lower_bound = '-infinity'")


@fault("gap", "no row says where it began in queue 0", alone=True)
def start_of_members_to_come_deleted(story: Story) -> None:
    story.broker.execute("select mqpg.subscribe('each', 'orders', mode => 'broadcast')")
    _change(
        story,
        "delete from mqpg.queue_start where queue_id = 0 and subscription_id = "
        "(select max(subscription_id) from mqpg.subscription)",
    )


@fault("gap", "a setting by which dedup ids or position jumps are judged is gone", alone=True)
def setting_deleted(story: Story) -> None:
    _change(story, "delete from mqpg.settings where name = 'dedup_window'")


@fault("mismatch", "the time of the drop of its topic is")
def topic_dropped_the_year_before(story: Story) -> None:
    _drop_another_topic(story)
    _change(story, "update mqpg.dropped_topic set dropped_at = dropped_at - interval '400 days'")


@fault("mismatch", "it was redriven, and is due at", alone=True)
def redriven_message_postponed_by_a_century(story: Story) -> None:
    story.broker.execute("select mqpg.redrive('board', 'orders')")
    _change(
        story,
        "update mqpg.delayed set visible_at = visible_at + interval '100 years' where subscription_id > 0 "
        "and attempt = 1",
    )


@fault("corrupt", "a record batch of kind n, and by its other columns and tables of kind h")
def sent_message_with_a_check_back(story: Story) -> None:
    message = story.one("select mqpg.send('orders', '{}'::text)")
    story.append()
    _change(story, "update mqpg.commit_log set check_at = born_at where batch_id = %s", message >> 10)


@fault("corrupt", "a record batch of kind h, and by its other columns and tables of kind n", alone=True)
def half_without_a_producer_group(story: Story) -> None:
    _without_checksums(story)
    handle = story.prepare()
    _change(story, "update mqpg.commit_log set producer_group_id = null where batch_id = %s", message_id(handle) >> 10)


@fault("mismatch", "the time of the creation of group mail is", alone=True)
def subscription_of_the_next_year(story: Story) -> None:
    _change(
        story,
        "update mqpg.subscription set created_at = created_at + interval '400 days' where consumer_group = 'mail'",
    )


@fault("mismatch", "the time of the creation of topic orders is", alone=True)
def topic_of_the_next_year(story: Story) -> None:
    _change(story, "update mqpg.topic set created_at = created_at + interval '400 days'")


@fault("mismatch", "the time of the creation of its producer group is", alone=True)
def producer_group_of_the_next_year(story: Story) -> None:
    _change(story, "update mqpg.producer_group set created_at = created_at + interval '400 days'")


@fault("mismatch", "its rollback names transaction 4000000000, which has not begun")
def rollback_of_a_transaction_to_come(story: Story) -> None:
    _change(story, "update mqpg.op_log set xid = '4000000000' where message_id = %s", _settle(story))


@fault("mismatch", "its record batch names transaction 4000000000, which has not begun", alone=True)
def half_of_a_transaction_to_come(story: Story) -> None:
    message = story.business()
    story.drain()
    _change(story, "update mqpg.commit_log set xid = '4000000000' where batch_id = %s", message >> 10)


@fault("mismatch", "and its rollback one")
def rollback_that_is_due(story: Story) -> None:
    _change(story, "update mqpg.op_log set visible_at = at where message_id = %s", _settle(story))


@fault("corrupt", "its decision names the body")
def rollback_with_a_final_payload(story: Story) -> None:
    _change(
        story,
        "update mqpg.op_log set deliver_id = (select min(batch_id) * 1024 from mqpg.commit_log where kind = 'n') "
        "where message_id = %s",
        _settle(story),
    )


@fault("unexplained", "decided by the somebody, but there is no record of a check-back")
def decision_by_nobody_known(story: Story) -> None:
    _change(story, "update mqpg.op_log set decided_by = 'somebody' where stage = 1")


@fault("unexplained", "its decision is recorded 2 times")
def decision_recorded_twice(story: Story) -> None:
    story.broker.execute("alter table mqpg.op_log drop constraint op_log_pkey")
    message = _settle(story)
    _change(story, "insert into mqpg.op_log select * from mqpg.op_log where message_id = %s", message)


@fault("mismatch", "is behind the tick before it", alone=True)
def tick_recorded_twice(story: Story) -> None:
    story.broker.execute("alter table mqpg.tick drop constraint tick_pkey")
    _change(story, "insert into mqpg.tick select * from mqpg.tick order by tick_id desc limit 1")


@fault("disorder", "which another transaction drew")
def decision_with_the_number_of_the_next_prepare(story: Story) -> None:
    handle = story.prepare()
    story.broker.execute("select mqpg.rollback(%s)", (handle,))
    story.business()
    _change(story, "update mqpg.op_log set order_no = order_no + 1 where message_id = %s", message_id(handle))


@fault("gap", "does not fit the runs", alone=True)
def body_beside_the_runs_of_a_row(story: Story) -> None:
    _change(
        story,
        "update mqpg.consume_queue set deliver_ids = array_fill(null::bigint, array[cardinality(first_ids)]) || first_ids[1] "
        "where tick_id = (select min(tick_id) from mqpg.consume_queue) and queue_id = 0",
    )


@fault("gap", "no row says where it is in queue 0", alone=True)
def all_versions_of_a_queue_deleted(story: Story) -> None:
    """Two messages of it were nacked."""
    assert story.broker.execute("delete from mqpg.cursor where queue_id = 0 and subscription_id = 1").rowcount > 2


@fault("gap", "no row says where it is in queue -1", alone=True)
def all_versions_of_a_retry_lane_deleted(story: Story) -> None:
    for table in ("cursor", "queue_start"):
        story.broker.execute(f"delete from mqpg.{table} where queue_id = -1 and subscription_id = 2".encode())


@fault("corrupt", "its decision names the message", alone=True)
def commit_called_one_of_a_relay_topic(story: Story) -> None:
    handle = story.prepare()
    story.local(handle, done=True)
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    _change(story, "update mqpg.op_log set visible_at = 'infinity' where message_id = %s", message_id(handle))


@fault("gap", "no decision of the appender says that it was due", alone=True)
def due_decision_of_another_transaction(story: Story) -> None:
    _change(story, "update mqpg.op_log set xid = '3' where stage = 1 and op = 'd'")


@fault("gap", "no row of the delayed messages says until when", alone=True)
def row_of_a_recalled_message_deleted(story: Story) -> None:
    message = int(story.one("select mqpg.send('orders', '{}'::text, delay => interval '1 hour')"))
    story.broker.execute("select mqpg.recall(%s)", (message,))
    _change(story, "delete from mqpg.delayed where first_id = %s", message)
