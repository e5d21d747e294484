"""Planted faults of what messages are: their queue, their order, their bodies, their dedup ids."""

from typing import Any

from tests.audit.planting import BROKER_ONLY, Story, add_queues, fault, half_moved, id_of, message_id


def _send(story: Story, key: str, **options: Any) -> int:
    extra = "".join(f", {name} => %s" for name in options)
    return int(story.one(f"select mqpg.send('orders', '{{}}'::text, key => %s{extra})", key, *options.values()))


def _final(story: Story, **options: Any) -> int:
    """Commit a half message with a final payload and return its id."""
    handle = story.prepare(**options)
    story.local(handle, done=True)
    story.broker.execute("select mqpg.commit(%s, '{\"final\": 1}'::text)", (handle,))
    return message_id(handle)


def _newest_row(story: Story) -> dict[str, Any]:
    row = story.broker.execute(
        "select * from mqpg.consume_queue where subscription_id = 0 order by tick_id desc, base_offset desc limit 1"
    ).fetchone()
    assert row is not None
    return row


def _move_record(story: Story, message: int) -> None:
    story.broker.execute("update mqpg.commit_log set queue_id = 1 - queue_id where batch_id = %s", (message >> 10,))


@fault("misplaced", "and other messages of its key are in another")
def keyed_message_of_another_queue(story: Story) -> None:
    messages = [_send(story, "k") for _ in range(3)]
    _move_record(story, messages[1])
    story.drain()


@fault("misplaced", "and other messages of its key are in another")
def keyed_half_of_another_queue(story: Story) -> None:
    for _ in range(2):
        _send(story, "half")
    handle = story.prepare(key="half")
    _move_record(story, message_id(handle))


@fault("misplaced", "and other messages of its key are in another")
def delayed_message_of_another_queue(story: Story) -> None:
    for _ in range(2):
        _send(story, "late")
    _move_record(story, int(story.one("select mqpg.send('orders', '{}'::text, key => 'late', delay => '1 hour')")))


@fault("misplaced", "and other messages of its key are in another", alone=True)
def message_of_an_older_queue_after_queues_were_added(story: Story) -> None:
    key = add_queues(story)
    messages = [_send(story, key) for _ in range(3)]
    story.broker.execute("update mqpg.commit_log set queue_id = 1 where batch_id = %s", (messages[1] >> 10,))
    story.drain()


@fault("misplaced", "and other messages of its key are in another", alone=True)
def message_of_a_queue_that_was_never_its_keys(story: Story) -> None:
    message = _send(story, add_queues(story))
    story.broker.execute("update mqpg.commit_log set queue_id = 2 where batch_id = %s", (message >> 10,))
    story.drain()


@fault("misplaced", "in this queue, but its record says queue")
def message_appended_to_another_queue(story: Story) -> None:
    _move_record(story, id_of(story, "kind = 'n' and n = 1"))


@fault("misplaced", "its final payload queue")
def final_payload_of_another_queue(story: Story) -> None:
    message = _final(story)
    story.drain()
    story.broker.execute(
        "update mqpg.commit_log set queue_id = 1 - queue_id where batch_id = "
        "(select deliver_id >> 10 from mqpg.op_log where message_id = %s and stage = 0)",
        (message,),
    )


@fault("disorder", "which was committed later in the order of tick")
def messages_of_a_key_swapped(story: Story) -> None:
    first, second = _send(story, "swap"), _send(story, "swap")
    story.append()
    row = _newest_row(story)
    assert row["first_ids"] == [first, second]
    story.broker.execute(
        "update mqpg.consume_queue set first_ids = %s where tick_id = %s", ([second, first], row["tick_id"])
    )
    story.drain()


@fault("disorder", "which was committed later in the order of tick")
def decisions_renumbered(story: Story) -> None:
    first, second = (story.prepare(key="order") for _ in range(2))
    for handle in (first, second):
        story.local(handle)
        story.commit(handle)
    story.drain()
    story.broker.execute(
        "update mqpg.op_log o set order_no = s.order_no from mqpg.op_log s where o.message_id = any(%s) "
        "and s.message_id = any(%s) and o.message_id <> s.message_id",
        ([message_id(first), message_id(second)],) * 2,
    )


@fault("disorder", "although the tick before had seen its commit")
def message_appended_a_tick_late(story: Story) -> None:
    early = _send(story, "tardy")
    story.append()
    row = _newest_row(story)
    assert row["first_ids"] == [early]
    _send(story, "another key")
    story.append()
    story.broker.execute(
        "update mqpg.consume_queue set tick_id = tick_id + 1 where tick_id = %s and subscription_id = 0",
        (row["tick_id"],),
    )
    story.drain()


@fault("disorder", "in one transaction")
def calls_of_one_transaction_renumbered(story: Story) -> None:
    handles = [story.prepare() for _ in range(2)]
    with story.broker.transaction():
        for handle in handles:
            story.broker.execute("select mqpg.rollback(%s)", (handle,))
    story.broker.execute(
        "update mqpg.op_log o set order_no = s.order_no from mqpg.op_log s where o.message_id = any(%s) "
        "and s.message_id = any(%s) and o.message_id <> s.message_id",
        ([message_id(handle) for handle in handles],) * 2,
    )


@fault("disorder", "applied before a message of its key with a lower offset")
def effects_of_a_key_out_of_order(story: Story) -> None:
    first, _ = _send(story, "effect"), _send(story, "effect")
    story.drain()
    story.consumer.execute(
        "update mqpg_applied set applied_at = applied_at + interval '10 s' where message_id = %s", (first,)
    )


@fault("corrupt", "a record batch of 40 messages has [5,null,null,null] payloads")
def payloads_missing(story: Story) -> None:
    story.broker.execute("update mqpg.commit_log set payloads = payloads[1:5] where n = 40")


@fault("corrupt", "[1,2,null,null] payloads, keys, tags and headers")
def keys_too_many(story: Story) -> None:
    message = id_of(story, "keys is not null")
    story.broker.execute("update mqpg.commit_log set keys = keys || keys where batch_id = %s", (message >> 10,))


@fault("corrupt", "its decision names the body")
def final_payload_of_another_message(story: Story) -> None:
    message = _final(story)
    story.drain()
    story.broker.execute(
        "update mqpg.op_log set deliver_id = 1024 where message_id = %s and deliver_id is not null", (message,)
    )


@fault("corrupt", "its queue names the body")
def queue_with_another_body(story: Story) -> None:
    _final(story)
    story.append()
    story.broker.execute(
        "update mqpg.consume_queue set deliver_ids = array_fill(1024::bigint, array[cardinality(first_ids)]) "
        "where tick_id = %s",
        (_newest_row(story)["tick_id"],),
    )
    story.drain()


@fault("corrupt", "its queue names the body")
def retry_lane_with_another_body(story: Story) -> None:
    story.broker.execute(
        "update mqpg.consume_queue set deliver_ids = array_fill(2048::bigint, array[cardinality(first_ids)]) "
        "where subscription_id > 0 and tick_id = (select min(tick_id) from mqpg.consume_queue where subscription_id > 0)"
    )


@fault("corrupt", "its delayed row names the body")
def delayed_message_with_another_body(story: Story) -> None:
    handle = story.prepare(delay="1 hour")
    story.local(handle, done=True)
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    story.broker.execute(
        "update mqpg.delayed set deliver_id = 1024 where first_id = %s and subscription_id = 0", (message_id(handle),)
    )


@fault("corrupt", "its dead letter names the body", **BROKER_ONLY)
def dead_letter_with_another_body(story: Story) -> None:
    story.broker.execute("update mqpg.dead_letter set deliver_id = 3072")


def _send_twice(story: Story, dedup_id: str, **options: Any) -> None:
    """Store two messages under one dedup id, each in one slot."""
    extra = "".join(f", {name} => %s" for name in options)
    for kept in ("min", "max"):
        story.one(
            f"select mqpg.send('orders', '{{}}'::text, dedup_id => %s{extra})", f"{dedup_id} {kept}", *options.values()
        )
        story.broker.execute(
            f"delete from mqpg.dedup where dedup_id = %s and slot <> "
            f"(select {kept}(slot) from mqpg.dedup where dedup_id = %s)",
            (f"{dedup_id} {kept}",) * 2,
        )
    story.broker.execute("update mqpg.dedup set dedup_id = %s where dedup_id like %s", (dedup_id, f"{dedup_id} %"))


@fault("duplicate_send", "it has the dedup id of message")
def dedup_id_stored_twice(story: Story) -> None:
    _send_twice(story, "once")
    story.drain()


@fault("duplicate_send", "it has the dedup id of message")
def dedup_id_of_a_delayed_message_stored_twice(story: Story) -> None:
    _send_twice(story, "late", delay="1 hour")


@fault("corrupt", "does not match its checksum")
def bodies_of_two_messages_exchanged(story: Story) -> None:
    ids = [_send(story, str(number)) >> 10 for number in range(2)]
    story.broker.execute(
        "update mqpg.commit_log l set payloads = o.payloads, checksum = o.checksum from mqpg.commit_log o "
        "where l.batch_id = any(%(ids)s) and o.batch_id = any(%(ids)s) and o.batch_id <> l.batch_id",
        {"ids": ids},
    )


@fault("corrupt", "a record batch of 1 messages does not match its checksum")
def body_of_a_half_changed_after_its_delivery(story: Story) -> None:
    message = story.business()
    story.drain()
    _change(story, message >> 10)


@fault("corrupt", "a record batch of 30 messages does not match its checksum")
def body_of_a_large_batch_changed(story: Story) -> None:
    first = story.one("select min(m) from mqpg.send_batch('orders', array_fill('{}'::text, array[30])) as m")
    story.drain()
    _change(story, int(first) >> 10)


@fault("corrupt", "does not match its checksum")
def final_payload_changed(story: Story) -> None:
    message = _final(story)
    _change(story, int(story.one("select deliver_id >> 10 from mqpg.op_log where message_id = %s", message)))


@fault("corrupt", "does not match its checksum")
def headers_changed(story: Story) -> None:
    message = story.one("select mqpg.send('orders', '{}'::text, headers => '{\"price\": 1}')")
    story.drain()
    story.broker.execute(
        "update mqpg.commit_log set headers = array['{\"price\": 1000}'::jsonb] where batch_id = %s", (message >> 10,)
    )


@fault("corrupt", "does not match its checksum")
def tag_changed(story: Story) -> None:
    message = story.one("select mqpg.send('orders', '{}'::text, tag => 'a')")
    story.drain()
    story.broker.execute("update mqpg.commit_log set tags = array['b'] where batch_id = %s", (message >> 10,))


@fault("corrupt", "does not match its checksum")
def keys_of_a_queue_exchanged(story: Story) -> None:
    one, other = (_send(story, f"{key}") >> 10 for key in ("first", "other"))
    story.broker.execute(
        "update mqpg.commit_log as l set keys = o.keys, queue_id = 0 from mqpg.commit_log as o "
        "where l.batch_id in (%(one)s, %(other)s) and o.batch_id in (%(one)s, %(other)s) and o.batch_id <> l.batch_id",
        {"one": one, "other": other},
    )


@fault("corrupt", "does not match its checksum")
def half_moved_to_a_group_without_a_ledger(story: Story) -> None:
    """Its commit needs no local transaction there."""
    story.broker.execute("select mqpg.create_producer_group('bare', checker => 'due_checks')")
    handle = story.prepare()
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    story.drain()
    story.broker.execute(
        "update mqpg.commit_log set producer_group_id = (select producer_group_id from mqpg.producer_group "
        "where name = 'bare') where batch_id = %s",
        (message_id(handle) >> 10,),
    )


@fault("corrupt", "does not match its checksum")
def half_moved_to_another_topic_with_a_checksum(story: Story) -> None:
    handle = half_moved(story, "else")
    story.broker.execute(
        "update mqpg.commit_log set check_at = check_at + interval '100 years' where batch_id = %s",
        (message_id(handle) >> 10,),
    )
    story.commit(handle)


@fault("corrupt", "has no checksum, and its topic asks for one")
def checksum_emptied(story: Story) -> None:
    message = story.one("select mqpg.send('orders', '{}'::text, tag => 'a')")
    story.drain()
    story.broker.execute(
        "update mqpg.commit_log set tags = array['b'], checksum = null where batch_id = %s", (message >> 10,)
    )


def _change(story: Story, batch_id: int) -> None:
    changed = story.broker.execute(
        "update mqpg.commit_log set payloads[1] = '{\"changed\": true}' where batch_id = %s", (batch_id,)
    )
    assert changed.rowcount == 1


@fault("duplicated", "at queue:offset", alone=True, **BROKER_ONLY)
def run_appended_again_and_longer(story: Story) -> None:
    """The second run names a message that its record batch has not."""
    row = _newest_row(story)
    story.broker.execute(
        "insert into mqpg.consume_queue (base_offset, tick_id, topic_id, n, queue_id, first_ids, starts) "
        "select mqpg._tail(topic_id, 0, 0), (select max(tick_id) from mqpg.tick), topic_id, 2, 0, "
        "array[%s::bigint], array[0] from mqpg.topic",
        (row["first_ids"][0],),
    )


@fault("disorder", "although the tick before had seen its commit", alone=True)
def two_ticks_have_each_others_messages(story: Story) -> None:
    messages = []
    for _ in range(2):
        messages.append(_send(story, "twin"))
        story.append()
    first, second = messages
    story.broker.execute(
        "update mqpg.consume_queue set first_ids = array[%s::bigint + %s::bigint - first_ids[1]] "
        "where first_ids in (array[%s::bigint], array[%s::bigint])",
        (first, second, first, second),
    )
    story.drain()


@fault("duplicated", "the delayed messages have it 2 times for")
def delayed_message_scheduled_twice(story: Story) -> None:
    message = story.one("select mqpg.send('orders', '{}'::text, delay => '1 hour')")
    story.broker.execute("insert into mqpg.delayed select * from mqpg.delayed where first_id = %s", (message,))


@fault("misplaced", "its row of the delayed messages queue")
def delayed_row_of_another_queue(story: Story) -> None:
    message = story.one("select mqpg.send('orders', '{}'::text, delay => '1 hour')")
    story.broker.execute("update mqpg.delayed set queue_id = 1 - queue_id where first_id = %s", (message,))


@fault("misplaced", "its record says queue 1, of which the topic has 1", alone=True)
def queue_taken_away(story: Story) -> None:
    story.broker.execute("update mqpg.topic set queues = 1")


@fault("corrupt", "its decision names the body")
def final_payloads_of_one_call_exchanged(story: Story) -> None:
    handles = [
        row["handle"]
        for row in story.broker.execute("select mqpg.prepare_batch('orders', array['1', '2'], 'shop') as handle")
    ]
    for handle in handles:
        story.local(handle, done=True)
    story.broker.execute("select mqpg.commit_batch(%s, array['3', '4'])", (handles[::-1],))
    changed = story.broker.execute(
        "update mqpg.op_log as d set deliver_id = o.deliver_id from mqpg.op_log as o where d.message_id = any(%(ids)s) "
        "and o.message_id = any(%(ids)s) and o.message_id <> d.message_id",
        {"ids": [message_id(handle) for handle in handles]},
    )
    assert changed.rowcount == 2
