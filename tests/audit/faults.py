"""Planted faults of messages, queues, effects and ledgers. Each changes a clean history by direct writes."""

from tests.audit.planting import (
    BROKER_ONLY,
    Story,
    apply_at,
    enqueue,
    fault,
    id_of,
    message_id,
    rolled_back,
)


@fault("lost", "position is beyond it")
def effect_missing(story: Story) -> None:
    story.consumer.execute("delete from mqpg_applied where message_id = %s", (id_of(story, "kind = 'n'"),))


@fault("lost", "retry 2 was acknowledged")
def retried_effect_missing(story: Story) -> None:
    story.consumer.execute("delete from mqpg_applied where queue_id = -1")


@fault("lost", "transaction 3, which the newest tick has seen")
def commit_slipped_past_the_appender(story: Story) -> None:
    handle = story.prepare()
    story.local(handle)
    story.commit(handle)
    story.broker.execute("update mqpg.op_log set xid = '3' where message_id = %s", (message_id(handle),))


@fault("lost", "in no queue")
def delayed_row_vanished(story: Story) -> None:
    message = int(story.one("select mqpg.send('orders', '{}'::text, delay => interval '1 hour')"))
    story.append()
    story.broker.execute("delete from mqpg.delayed where first_id = %s", (message,))
    story.broker.execute("select mqpg.send('orders', '{}'::text)")
    story.append()


@fault("duplicated", "applied 2 times")
def effect_repeated(story: Story) -> None:
    story.consumer.execute(
        "insert into mqpg_applied select consumer_group, topic, queue_id, queue_offset, message_id, clock_timestamp(), "
        "broker, subscription_id from mqpg_applied where queue_id >= 0 limit 1"
    )


@fault("duplicated", "at queue:offset")
def message_at_two_offsets(story: Story) -> None:
    enqueue(story, id_of(story, "kind = 'n'"))


@fault("duplicated", "offset held 2 times", **BROKER_ONLY)
def offset_held_twice(story: Story) -> None:
    story.broker.execute(
        "insert into mqpg.consume_queue select base_offset, (select max(tick_id) from mqpg.tick), topic_id, "
        "subscription_id, n, queue_id, first_ids, starts, deliver_ids, attempts from mqpg.consume_queue "
        "where subscription_id = 0 order by tick_id limit 1"
    )


@fault("phantom", "applied, but there is no such message")
def effect_of_no_message(story: Story) -> None:
    apply_at(story, 999 * 1024 * 1024)


@fault("phantom", "applied, but the message was rolled back")
def effect_of_a_rolled_back_half(story: Story) -> None:
    apply_at(story, message_id(rolled_back(story)))


@fault("phantom", "in a queue, but the message was rolled back")
def rolled_back_half_in_a_queue(story: Story) -> None:
    enqueue(story, message_id(rolled_back(story)))


@fault("phantom", "the ledger shop has no row")
def delivered_without_local_transaction(story: Story) -> None:
    story.commit(story.prepare())
    story.drain()


@fault("phantom", "the ledger shop has a fence")
def delivered_over_a_fence(story: Story) -> None:
    handle = story.prepare()
    story.local(handle, "fence")
    story.commit(handle)
    story.drain()


@fault("early", "appended by tick 1, which had not seen")
def appended_by_a_tick_that_had_not_seen_it(story: Story) -> None:
    story.broker.execute(
        "update mqpg.consume_queue set tick_id = 1 where (base_offset, queue_id, tick_id) = "
        "(select base_offset, queue_id, tick_id from mqpg.consume_queue where subscription_id = 0 "
        "order by tick_id desc limit 1)"
    )


@fault("early", "applied, but the half message is undecided")
def effect_of_an_undecided_half(story: Story) -> None:
    apply_at(story, message_id(story.prepare()))


@fault("early", "in a queue, but the half message is undecided")
def undecided_half_in_a_queue(story: Story) -> None:
    enqueue(story, message_id(story.prepare()))


@fault("early", "s before its commit")
def effect_before_its_commit(story: Story) -> None:
    story.consumer.execute(
        "update mqpg_applied set applied_at = applied_at - interval '1 hour' where message_id = %s",
        (
            id_of(
                story,
                "kind = 'h' and exists (select from mqpg.op_log o where o.message_id = batch_id * 1024 and op = 'c')",
            ),
        ),
    )


@fault("early", "the ledger shop has no row")
def commit_without_ledger_row(story: Story) -> None:
    story.broker.execute("select mqpg.commit(%s)", (story.prepare(),))


@fault("early", "applied, but its time has not come")
def effect_of_a_message_to_come(story: Story) -> None:
    apply_at(story, int(story.one("select mqpg.send('orders', '{}'::text, delay => interval '1 hour')")))


@fault("undecided", "no decision", drained=True)
def half_left_open(story: Story) -> None:
    story.prepare()
    story.drain("mail", journal=False)


@fault("gap", "no row holds the offsets", **BROKER_ONLY)
def offsets_skipped(story: Story) -> None:
    story.broker.execute(
        "update mqpg.consume_queue set base_offset = base_offset + 5 where (base_offset, queue_id) = "
        "(select base_offset, queue_id from mqpg.consume_queue where subscription_id = 0 order by tick_id desc limit 1)"
    )


@fault("gap", "does not fit the runs")
def runs_that_do_not_add_up(story: Story) -> None:
    story.broker.execute(
        "update mqpg.consume_queue set first_ids = first_ids || 1024::bigint where (base_offset, queue_id) = "
        "(select base_offset, queue_id from mqpg.consume_queue where subscription_id = 0 order by tick_id limit 1)"
    )


@fault("gap", "beyond the end of the queue")
def position_beyond_the_end(story: Story) -> None:
    story.consumer.execute("update mqpg_offsets set next_offset = next_offset + 100 where queue_id = 0")


@fault("mismatch", "says local, the broker says rolled back (by the producer)")
def local_commit_rolled_back(story: Story) -> None:
    story.local(rolled_back(story), done=True)


@fault("mismatch", "says local, the broker says rolled back (by the expiry)")
def local_commit_of_a_half_that_expired(story: Story) -> None:
    story.local(story.prepare(), done=True)
    story.expire()


@fault("mismatch", "the broker has no such half message", drained=True)
def local_commit_of_an_unknown_half(story: Story) -> None:
    story.local(f"{story.one('select broker_id from mqpg.broker')}.1.999936.{'0' * 32}")
    story.drain("mail", journal=False)


@fault("mismatch", "the queue has the message at another one")
def journal_names_another_offset(story: Story) -> None:
    story.consumer.execute(
        "update mqpg_applied set queue_offset = queue_offset + 1000 where message_id = %s",
        (id_of(story, "kind = 'n'"),),
    )


@fault("mismatch", "says fence, the broker says committed")
def commit_over_a_fence(story: Story) -> None:
    handle = story.prepare()
    story.local(handle, "fence")
    story.broker.execute("select mqpg.commit(%s)", (handle,))
