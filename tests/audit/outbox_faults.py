"""Planted faults of an outbox, in the place of the ledger of producer group shop.

FastMiniMQ's producer stores a message in its outbox before it sends it, and deletes the row when the
broker has the message.
"""

from tests.audit.planting import Story, fault, message_id

OUTBOX_DDL = """
create table if not exists mqpg_outbox (
    id varchar(64) primary key, state varchar(8) not null, broker varchar(40) not null, producer_group varchar(127),
    handle varchar(200), topic varchar(127) not null, payload text not null, created_at timestamptz not null);
"""


def use_outbox(story: Story) -> None:
    """Replace the ledger by an empty outbox."""
    story.ledger.execute(f"{OUTBOX_DDL} drop table if exists mqpg_ledger")


def store_row(story: Story, row: str, state: str, handle: str | None = None) -> None:
    """Write a row of the outbox."""
    broker = story.one("select broker_id from mqpg.broker")
    story.ledger.execute(
        "insert into mqpg_outbox values (%s, %s, %s, 'shop', %s, 'orders', '{}', clock_timestamp())",
        (row, state, broker, handle),
    )


def _drain(story: Story) -> None:
    story.drain()
    story.drain("mail", journal=False)


@fault("unconfirmed", "prepared (P2) for the outbox shop, and not decided", drained=True)
def prepared_and_not_decided(story: Story) -> None:
    use_outbox(story)
    story.prepare(dedup_id="p2")
    store_row(story, "p2", "stored")
    _drain(story)


@fault("unconfirmed", "prepared (P2) for the outbox shop, and not decided", drained=True)
def committed_here_and_not_at_the_broker(story: Story) -> None:
    use_outbox(story)
    store_row(story, "p4", "commit", story.prepare(dedup_id="p4"))
    _drain(story)


@fault("unconfirmed", "the broker has it (P7), and the outbox shop still has its row", drained=True)
def confirmed_and_not_deleted(story: Story) -> None:
    use_outbox(story)
    handle = story.prepare(dedup_id="p7")
    store_row(story, "p7", "commit", handle)
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    _drain(story)


@fault("unconfirmed", "the broker has it (P7), and the outbox shop still has its row", drained=True)
def sent_and_not_deleted(story: Story) -> None:
    use_outbox(story)
    store_row(story, "q1", "send")
    story.one("select mqpg.send('orders', '{}'::text, dedup_id => 'q1')")
    _drain(story)


@fault("mismatch", "the ledger shop says local, the broker says rolled back", alone=True)
def outbox_says_commit(story: Story) -> None:
    use_outbox(story)
    handle = story.prepare()
    store_row(story, "c", "commit", handle)
    story.broker.execute("select mqpg.rollback(%s)", (handle,))


@fault("phantom", "delivered, committed by the producer, but the ledger shop has a fence", alone=True)
def outbox_says_rollback(story: Story) -> None:
    use_outbox(story)
    handle = story.prepare()
    assert message_id(handle)
    store_row(story, "r", "rollback", handle)
    story.broker.execute("select mqpg.commit(%s)", (handle,))
    _drain(story)
