"""Planted faults that a restore of one table or a repair by hand leaves."""

from tests.audit.planting import Story, add_queues, fault, message_id

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
