"""Planted faults that a restore of one table or a repair by hand leaves."""

import time

from tests.audit.planting import Story, add_queues, fault, message_id
from tests.audit.story import JOURNAL_DDL

_HALF = "(select batch_id from mqpg.commit_log where kind = 'h' and relay)"
_COLUMNS = (
    "xid, born_at, topic_id, producer_group_id, incarnation, queue_id, n, kind, nonce, check_at, keys, tags, headers, "
    "payloads, relay"
)


def _change(story: Story, statement: str, *parameters: object, rows: int = 1) -> None:
    changed = story.broker.execute(statement.encode(), parameters)
    assert changed.rowcount == rows, statement


def _without_checksums(story: Story) -> None:
    story.broker.execute("select mqpg.alter_topic('orders', checksums => false)")


def _relay(story: Story) -> None:
    """Commit a half message of a relay topic."""
    story.broker.execute("select mqpg.create_topic('phases', 1, kind => 'relay')")
    handle = story.one("select mqpg.prepare('phases', '{}'::text, 'shop')")
    story.local(handle)
    story.ledger.execute("update mqpg_ledger set topic = 'phases' where handle = %s", (handle,))
    story.commit(handle)
    story.append()


def _store_twice(story: Story, batch: str) -> None:
    story.broker.execute("alter table mqpg.commit_log replica identity default")
    story.broker.execute("drop index mqpg.commit_log_batch")
    _change(story, f"insert into mqpg.commit_log select * from mqpg.commit_log where batch_id = {batch}")


@fault("duplicated", "its record batch is stored 2 times", alone=True)
def half_of_a_relay_topic_stored_twice(story: Story) -> None:
    _relay(story)
    _store_twice(story, _HALF)


@fault("duplicated", "its record batch is stored 2 times", alone=True)
def sent_message_stored_twice(story: Story) -> None:
    _store_twice(story, "(select min(batch_id) from mqpg.commit_log where kind = 'n' and n = 1)")


@fault("mismatch", "2 half messages are stored with 1 PREPAREs", alone=True)
def half_of_a_relay_topic_copied(story: Story) -> None:
    _relay(story)
    _change(
        story,
        f"insert into mqpg.commit_log (batch_id, {_COLUMNS}) select nextval('mqpg.batch_id'), {_COLUMNS} "
        f"from mqpg.commit_log where batch_id = {_HALF}",
    )


@fault("mismatch", "1 half messages are stored with 0 PREPAREs", alone=True)
def prepare_of_a_relay_topic_deleted_before_its_tick(story: Story) -> None:
    _relay(story)
    handle = story.one("select mqpg.prepare('phases', '{}'::text, 'shop')")
    _change(story, "delete from mqpg.commit_log where batch_id = %s", (message_id(handle) >> 10) + 1)


@fault("mismatch", "its dead letter says", alone=True)
def dead_letter_without_its_last_attempt(story: Story) -> None:
    _change(story, "update mqpg.dead_letter set attempts = attempts - 1, history = history - -1")


@fault("mismatch", "its retry names a transaction that the tick had seen", alone=True)
def retry_of_an_older_transaction(story: Story) -> None:
    _change(
        story,
        "update mqpg.delayed set xid = '3' where subscription_id > 0 and first_id = "
        "(select min(first_id) from mqpg.delayed where subscription_id > 0)",
    )


@fault("mismatch", "its record batch says producer group 99, which never was", alone=True)
def half_of_a_producer_group_that_never_was(story: Story) -> None:
    _without_checksums(story)
    handle = story.prepare()
    _change(story, "update mqpg.commit_log set producer_group_id = 99 where batch_id = %s", message_id(handle) >> 10)


@fault("mismatch", "the notes of added queues lead to another number", alone=True)
def growth_of_another_number(story: Story) -> None:
    add_queues(story)
    _change(story, "update mqpg.topic_growth set queues = 8")


@fault("mismatch", "it has 2 queues, and cursors of more", alone=True)
def queues_without_messages_taken_away(story: Story) -> None:
    story.broker.execute("select mqpg.create_topic('wide', 4), mqpg.subscribe('reader', 'wide')")
    _change(story, "update mqpg.topic set queues = 2 where name = 'wide'")


@fault("gap", "it was delayed, and no row of the delayed messages says until when", alone=True)
def delayed_rows_of_yesterday(story: Story) -> None:
    """A tick came between the message and its time."""
    message = story.one("select mqpg.send('orders', '{}'::text, delay => interval '100 milliseconds')")
    story.business()
    story.drain()
    time.sleep(0.1)
    story.drain()
    _change(story, "delete from mqpg.delayed where first_id = %s", message)


@fault("mismatch", "its row in the journal names subscription 3, and the group has another", alone=True)
def groups_that_exchanged_their_names(story: Story) -> None:
    """With equal options, and journals in the broker's database."""
    story.broker.execute(JOURNAL_DDL)
    story.broker.execute("select mqpg.subscribe('one', 'orders', mode => 'shared')")
    story.broker.execute("select mqpg.subscribe('other', 'orders', mode => 'shared')")
    for group in ("one", "other"):
        Story(story.broker, story.ledger, story.broker).apply_all(group)
    _change(
        story,
        "update mqpg.subscription set consumer_group = case consumer_group when 'one' then 'two' else 'one' end "
        "where consumer_group in ('one', 'other')",
        rows=2,
    )
    _change(story, "update mqpg.subscription set consumer_group = 'other' where consumer_group = 'two'")


@fault("mismatch", "is no member of its group", alone=True)
def member_without_its_group(story: Story) -> None:
    story.broker.execute("select mqpg.subscribe('each', 'orders', mode => 'broadcast')")
    story.broker.execute("select * from mqpg.receive('each', 'orders', consumer => 'pod')")
    _change(story, "update mqpg.subscription set member_of = null where member = 'pod'")


@fault("mismatch", "attempts, and the last one that it lists is 0")
def history_of_a_dead_letter_emptied(story: Story) -> None:
    _change(story, "update mqpg.dead_letter set history = '[]'")


@fault("unexplained", "segment 1 of log has bounds that are no range", alone=True)
def segment_with_the_bounds_of_another(story: Story) -> None:
    _change(story, "update mqpg.segment set lower_bound = upper_bound where family = 'log' and segment_no = 1")


@fault("unexplained", "has bounds that are no range", alone=True)
def segment_with_the_bounds_of_another_family(story: Story) -> None:
    _change(story, "update mqpg.segment set lower_bound = '1' where family = 'delayed' and segment_no = 1")


@fault("mismatch", "its dead letter says 0 attempts, and the last one was another", alone=True)
def dead_letter_called_expired(story: Story) -> None:
    _change(story, "update mqpg.dead_letter set attempts = 0, reason = 'expired', history = '[]'")


@fault("disorder", "before it was stored", alone=True)
def decision_with_the_number_of_its_message(story: Story) -> None:
    """As its commit has a delay, no order of messages shows it."""
    handle = story.prepare(delay="1 hour")
    story.local(handle, done=True)
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    _change(story, "update mqpg.op_log set order_no = message_id >> 10 where message_id = %s", message_id(handle))


@fault("mismatch", "is ahead of itself", alone=True)
def tick_that_is_looked_up_by_another_transaction(story: Story) -> None:
    _change(story, "update mqpg.tick set snapshot_xmax = '900000' where tick_id = 2")
