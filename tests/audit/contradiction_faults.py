"""Planted faults of rows that contradict another row, each changed alone."""

import time

from tests.audit.planting import BROKER_ONLY, Story, fault, message_id
from tests.audit.story import JOURNAL_DDL

_DEAD = "select min(message_id) from mqpg.dead_letter"


def _change(story: Story, statement: str, *parameters: object, rows: int = 1) -> None:
    changed = story.broker.execute(statement.encode(), parameters)
    assert changed.rowcount == rows, statement


def _new_slot(story: Story) -> None:
    """Let the cursors continue in a new slot, and the versions of older ones be dropped."""
    story.broker.execute("update mqpg.settings set value = '0 s' where name = 'cursor_slot_age'")
    story.broker.execute("select * from mqpg.keep()")


@fault("lost", "let it expire and become a dead letter, but there is none", alone=True)
def dead_letter_of_an_expiry_deleted(story: Story) -> None:
    broker = story.broker
    broker.execute("select mqpg.create_topic('short', 1)")
    broker.execute("select mqpg.alter_topic('short', message_ttl => '20 ms', on_expired => 'dead_letter')")
    broker.execute("select mqpg.subscribe('late', 'short')")
    messages = [story.one("select mqpg.send('short', '{}'::text)") for _ in range(2)]
    story.append()
    time.sleep(0.05)
    assert broker.execute("select * from mqpg.receive('late', 'short')").fetchall() == []
    _change(story, "delete from mqpg.dead_letter where message_id = %s", messages[0])


@fault("dead_letter", "2 dead letters of")
def dead_letter_recorded_twice(story: Story) -> None:
    _change(
        story,
        "insert into mqpg.former_dead_letter (subscription_id, message_id, attempts, reason, died_at, fate) "
        "select subscription_id, message_id, attempts, reason, died_at, 'discarded' from mqpg.dead_letter "
        f"where message_id = ({_DEAD})",
    )


@fault("mismatch", "its dead letter says queue")
def dead_letter_of_another_queue(story: Story) -> None:
    _change(story, "update mqpg.dead_letter set queue_id = 1 - queue_id")


@fault("mismatch", "its delayed row says topic")
def delayed_row_of_another_topic(story: Story) -> None:
    _change(story, "update mqpg.delayed set topic_id = topic_id + 5 where subscription_id = 0")


@fault("mismatch", "its dedup id says topic")
def dedup_id_of_another_topic(story: Story) -> None:
    story.broker.execute("select mqpg.send('orders', '{}'::text, dedup_id => 'once')")
    story.drain()
    _change(story, "update mqpg.dedup set topic_id = topic_id + 5", rows=2)


@fault("mismatch", "its record batch says a delay, and its commit none")
def delay_of_a_half_that_was_not_delayed(story: Story) -> None:
    _change(
        story,
        "update mqpg.commit_log set delay = '1 hour' where batch_id = "
        "(select min(message_id) >> 10 from mqpg.op_log where stage = 0 and op = 'c')",
    )


@fault("mismatch", "is behind the tick before it")
def tick_that_reached_a_later_time(story: Story) -> None:
    story.append()
    _change(story, "update mqpg.tick set due_until = due_until + interval '1 hour' where tick_id = 2")


@fault("mismatch", "is behind the tick before it", alone=True)
def tick_of_a_later_transaction(story: Story) -> None:
    _change(story, "update mqpg.tick set xid = '4000000000' where tick_id = 2")


@fault("mismatch", "the time of tick 2 is", alone=True)
def tick_of_the_year_before(story: Story) -> None:
    story.append()
    _change(story, "update mqpg.tick set at = at - interval '400 days' where tick_id = 2")


@fault("mismatch", "the time of tick 2 is", alone=True)
def tick_of_the_next_year(story: Story) -> None:
    story.append()
    _change(story, "update mqpg.tick set at = at + interval '400 days' where tick_id = 2")


@fault("mismatch", "the time of tick 2 is", alone=True)
def tick_of_the_next_year_before_a_delayed_send(story: Story) -> None:
    tick_of_the_next_year(story)
    story.one("select mqpg.send('orders', '{}'::text, delay => interval '1 hour')")


@fault("mismatch", "names group nobody and topic orders", alone=True)
def position_jump_of_another_group(story: Story) -> None:
    story.broker.execute("select mqpg.seek('mail', 'orders', '3', queue_id => 0)")
    _change(story, "update mqpg.position_jump set consumer_group = 'nobody'")


@fault("mismatch", "more than a day from the ticks before and after it", alone=True)
def newest_tick_of_the_next_year(story: Story) -> None:
    _change(
        story,
        "update mqpg.tick set at = at + interval '400 days' where tick_id = (select max(tick_id) from mqpg.tick)",
    )


@fault("mismatch", "the time of its effect is", alone=True)
def effect_in_the_next_year(story: Story) -> None:
    story.consumer.execute(
        "update mqpg_applied set applied_at = applied_at + interval '400 days' where queue_id = 1 and queue_offset = "
        "(select max(queue_offset) from mqpg_applied where queue_id = 1)"
    )


@fault("mismatch", "the time of its decision is")
def decision_of_the_year_before(story: Story) -> None:
    _change(
        story,
        "update mqpg.op_log set at = at - interval '400 days' where message_id = "
        "(select max(message_id) from mqpg.op_log where op = 'c')",
    )


@fault("mismatch", "attempts, and the last one that it lists is")
def dead_letter_of_one_attempt_more(story: Story) -> None:
    _change(story, "update mqpg.dead_letter set attempts = attempts + 1")


@fault("mismatch", "the time of its dead letter is", alone=True)
def dead_letter_of_the_next_year(story: Story) -> None:
    _change(story, "update mqpg.dead_letter set died_at = died_at + interval '400 days'")


@fault("mismatch", "is the last that it took, and the queue does not have it", alone=True)
def stored_offset_behind_an_unknown_message(story: Story) -> None:
    story.consumer.execute("update mqpg_offsets set last_message_id = 1 where queue_id = 0")


@fault("mismatch", "but the queue has the message at another one")
def effect_before_the_beginning_of_its_lane(story: Story) -> None:
    story.consumer.execute(
        "update mqpg_applied set queue_offset = -1 where ctid = "
        "(select min(ctid) from mqpg_applied where queue_id = -1)"
    )


@fault("mismatch", "which never got this offset", alone=True)
def effect_of_a_subscription_that_has_ended(story: Story) -> None:
    story.broker.execute(JOURNAL_DDL)
    story.broker.execute("select mqpg.subscribe('inside', 'orders', start => 'latest')")
    ended = story.one("select max(subscription_id) from mqpg.subscription")
    story.broker.execute("select mqpg.unsubscribe('inside', 'orders')")
    story.broker.execute("select mqpg.subscribe('inside', 'orders', start => 'latest')")
    story.business()
    story.drain()
    (row,) = story.broker.execute("select * from mqpg.receive('inside', 'orders')").fetchall()
    with story.broker.transaction():
        story.broker.execute(
            "insert into mqpg_applied select 'inside', 'orders', %s, %s, %s, clock_timestamp(), broker_id, %s "
            "from mqpg.broker",
            (row["queue_id"], row["queue_offset"], row["message_id"], ended),
        )
        story.broker.execute(
            "insert into mqpg_offsets select 'inside', 'orders', %s, %s, broker_id, 1, clock_timestamp() from mqpg.broker",
            (row["queue_id"], row["queue_offset"] + 1),
        )
        story.broker.execute("select mqpg.ack(%s)", (row["receipt"],))


@fault("mismatch", "and no nack of it said so", alone=True)
def retry_of_a_dead_letter_twice(story: Story) -> None:
    """The message has a nack more than retries, because the last one made it a dead letter."""
    _change(
        story,
        "insert into mqpg.delayed select d.* from mqpg.delayed as d where d.subscription_id > 0 and d.first_id = "
        f"({_DEAD}) order by d.written_at limit 1",
    )


@fault("gap", "in the retry lane 1 times, and the delayed messages have 0 rows that say when", alone=True)
def row_of_a_retry_deleted_after_its_nack(story: Story) -> None:
    _new_slot(story)
    newest = "(select max(slot) from mqpg.cursor)"
    story.broker.execute(f"delete from mqpg.cursor where slot < {newest}")
    story.broker.execute(
        "update mqpg.segment set closed_at = clock_timestamp(), body_dropped_at = clock_timestamp(), "
        f"dropped_at = clock_timestamp() where family = 'cursor' and segment_no < {newest}"
    )
    _change(
        story,
        "delete from mqpg.delayed where subscription_id > 0 and first_id = "
        f"(select min(d.first_id) from mqpg.delayed as d where d.first_id <> ({_DEAD}) and d.subscription_id > 0)",
    )


@fault("gap", "and none of this queue is stored", alone=True)
def stored_offset_of_a_queue_deleted(story: Story) -> None:
    story.consumer.execute("delete from mqpg_offsets where queue_id = 1")


@fault("gap", "only, and a send writes it into two", alone=True)
def dedup_id_of_one_slot(story: Story) -> None:
    for n, which in enumerate(("min", "max")):
        story.one("select mqpg.send('orders', '{}'::text, dedup_id => %s)", f"id {n}")
        _change(
            story,
            f"delete from mqpg.dedup where dedup_id = 'id {n}' and slot = "
            f"(select {which}(slot) from mqpg.dedup where dedup_id = 'id {n}')",
        )


@fault("gap", "is in slot", alone=True)
def dedup_id_of_another_message_in_one_slot(story: Story) -> None:
    message = story.one("select mqpg.send('orders', '{}'::text, dedup_id => 'id')")
    _change(
        story,
        "update mqpg.dedup set message_id = message_id + 1 where message_id = "
        f"{message} and slot = (select max(slot) from mqpg.dedup where message_id = {message})",
    )


@fault("gap", "no row says where it began in queue 1", alone=True)
def start_of_a_subscription_deleted(story: Story) -> None:
    _change(
        story,
        "delete from mqpg.queue_start where queue_id = 1 and subscription_id = "
        "(select subscription_id from mqpg.subscription where consumer_group = 'board')",
    )


@fault("stale_epoch", "(action subscribe): no claim had epoch 1")
def epoch_of_no_delivery(story: Story) -> None:
    _change(
        story,
        "update mqpg.cursor set epoch = 1 where action = 's' and queue_id = 1 and subscription_id = "
        "(select subscription_id from mqpg.subscription where consumer_group = 'mail')",
    )


@fault("skipped", "which its action does not explain", alone=True)
def carried_into_the_slot_where_it_was(story: Story) -> None:
    _new_slot(story)
    _change(
        story,
        "update mqpg.cursor set action = 'k' where action = 'c' and queue_id = 1 and subscription_id = "
        "(select subscription_id from mqpg.subscription where consumer_group = 'mail')",
    )


@fault("mismatch", "its commit names transaction 4000000000, which has not begun")
def send_of_a_transaction_to_come(story: Story) -> None:
    """No tick will ever append it."""
    message = story.one("select mqpg.send('orders', '{}'::text)")
    _change(story, "update mqpg.commit_log set xid = '4000000000' where batch_id = %s", message >> 10)


@fault("mismatch", "its commit names transaction 4000000000, which has not begun")
def commit_of_a_transaction_to_come(story: Story) -> None:
    _change(story, "update mqpg.op_log set xid = '4000000000' where message_id = %s", story.business())


@fault("mismatch", "its delayed row names transaction 4000000000, which has not begun")
def delayed_row_of_a_transaction_to_come(story: Story) -> None:
    message = story.one("select mqpg.send('orders', '{}'::text, delay => '1 hour')")
    _change(story, "update mqpg.delayed set xid = '4000000000' where first_id = %s", message)


@fault("mismatch", "its record batch says a delay, and its commit a shorter one")
def delay_of_a_half_made_longer(story: Story) -> None:
    handle = story.prepare(delay="1 hour")
    story.local(handle, done=True)
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    _change(story, "update mqpg.commit_log set delay = '100 years' where batch_id = %s", message_id(handle) >> 10)


@fault("mismatch", "its record batch says a delay, and its commit a longer one", alone=True)
def delayed_half_postponed_in_both_places(story: Story) -> None:
    """One by days, one beyond any retention."""
    for days in (3, 30):
        handle = story.prepare(delay="1 hour")
        story.local(handle, done=True)
        story.broker.execute("select mqpg.commit(%s)", (handle,))
        for table, column in {"op_log": "message_id", "delayed": "first_id"}.items():
            later = f"update mqpg.{table} set visible_at = visible_at + %s * interval '1 day' where {column} = %s"
            _change(story, later, days, message_id(handle))


@fault("mismatch", "rolled back by the checker that sets a fence, and the ledger shop has none")
def fence_deleted(story: Story) -> None:
    handle = story.prepare()
    story.local(handle, "fence")
    story.broker.execute("select mqpg._log_check(%s, 'asked', 'url')", (message_id(handle),))
    story.broker.execute("select mqpg._answer(%s, 'rollback', 'ledger shop', null)", (handle,))
    story.ledger.execute("delete from mqpg_ledger where handle = %s", (handle,))


@fault("mismatch", "the time of its record batch is")
def batch_of_the_year_before(story: Story) -> None:
    _change(story, "update mqpg.commit_log set born_at = born_at - interval '400 days' where n = 40")


@fault("mismatch", "the time of its record batch is")
def message_of_the_next_year(story: Story) -> None:
    _change(
        story,
        "update mqpg.commit_log set born_at = born_at + interval '400 days' where batch_id = "
        "(select min(batch_id) + 4 from mqpg.commit_log where kind = 'n')",
    )


@fault("mismatch", "the time of its ledger row is")
def ledger_row_of_the_year_before(story: Story) -> None:
    story.ledger.execute(
        "update mqpg_ledger set created_at = created_at - interval '400 days' where handle = "
        "(select min(handle) from mqpg_ledger where entry = 'local')"
    )


@fault("mismatch", "of a cursor is")
def version_of_the_next_year(story: Story) -> None:
    _change(
        story,
        "update mqpg.cursor set at = at + interval '400 days' where action = 's' and queue_id = -1 and subscription_id = "
        "(select subscription_id from mqpg.subscription where consumer_group = 'mail')",
    )


_NEWEST_TICK = "where tick_id = (select max(tick_id) from mqpg.tick)"


@fault("mismatch", "is ahead of itself", alone=True)
def tick_that_has_passed_ids_to_come(story: Story) -> None:
    _change(story, f"update mqpg.tick set floor_id = floor_id + 1000000 {_NEWEST_TICK}")


@fault("mismatch", "is ahead of itself", alone=True)
def tick_that_has_seen_transactions_to_come(story: Story) -> None:
    _change(
        story, f"update mqpg.tick set snapshot = '4000000000:4000000000:', snapshot_xmax = '4000000000' {_NEWEST_TICK}"
    )


@fault("mismatch", "is ahead of itself", alone=True)
def tick_that_has_reached_the_next_year(story: Story) -> None:
    """The next one would append what waits for its time."""
    _change(story, f"update mqpg.tick set due_until = due_until + interval '400 days' {_NEWEST_TICK}")


@fault("gap", "no decision of the appender says that it was due")
def decision_of_the_appender_deleted(story: Story) -> None:
    _change(story, "delete from mqpg.op_log where stage = 1")


@fault("mismatch", "the ledger inside says fence, the broker says undecided")
def rollback_deleted_beside_its_fence(story: Story) -> None:
    story.broker.execute("select mqpg.create_producer_group('inside', checker => 'ledger', check_after => '1 hour')")
    handle = story.one("select mqpg.prepare('orders', '{}'::text, 'inside')")
    story.broker.execute("insert into mqpg.ledger (handle, entry) values (%s, 'fence')", (handle,))


@fault("mismatch", "the producer decided it, and it is no delayed message")
def sent_message_recalled(story: Story) -> None:
    _change(
        story,
        "insert into mqpg.op_log (message_id, stage, order_no, xid, op, at, topic_id, queue_id, decided_by) "
        "select batch_id * 1024, 1, nextval('mqpg.batch_id'), pg_current_xact_id(), 'r', clock_timestamp(), topic_id, "
        "queue_id, 'producer' from mqpg.commit_log where kind = 'n' order by batch_id limit 1",
    )


@fault("mismatch", "the producer decided it, and it is no half message")
def sent_message_rolled_back(story: Story) -> None:
    _change(
        story,
        "insert into mqpg.op_log (message_id, stage, order_no, xid, op, at, topic_id, queue_id, decided_by) "
        "select batch_id * 1024, 0, nextval('mqpg.batch_id'), pg_current_xact_id(), 'b', clock_timestamp(), topic_id, "
        "queue_id, 'producer' from mqpg.commit_log where kind = 'n' order by batch_id desc limit 1",
    )


@fault("mismatch", "the time of its position jump is")
def seek_in_the_next_year(story: Story) -> None:
    story.business()
    story.append()
    story.broker.execute("select mqpg.seek('mail', 'orders', 'latest')")
    _change(story, "update mqpg.position_jump set at = at + interval '400 days' where jump_id = (select max(jump_id) "
                   "from mqpg.position_jump)")  # fmt: skip


@fault("mismatch", "the time of its dead letter is", alone=True)
def letter_redriven_the_year_before(story: Story) -> None:
    story.broker.execute("select mqpg.redrive('board', 'orders')")
    _change(story, "update mqpg.former_dead_letter set left_at = left_at - interval '400 days'")
    story.drain()


@fault("gap", "does not fit the runs", **BROKER_ONLY)
def queue_that_counts_attempts(story: Story) -> None:
    _change(
        story,
        "update mqpg.consume_queue set attempts = array_fill(5::smallint, array[cardinality(first_ids)]) "
        "where (base_offset, queue_id) = (select base_offset, queue_id from mqpg.consume_queue "
        "where subscription_id = 0 order by tick_id limit 1) and subscription_id = 0",
    )
