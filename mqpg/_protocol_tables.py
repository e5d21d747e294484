"""Tables of FastMiniMQ's protocols in databases of users: a producer's stored messages, a consumer's prepared ones."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, Index, Integer, MetaData, Table

from mqpg._tables import _long, _name, _time, _transactional, _word

__all__ = ["outbox", "outbox_metadata", "prepared", "prepared_metadata"]

outbox_metadata = MetaData()
prepared_metadata = MetaData()

# One row per message that its broker may not have for good yet (P1); deleted when it has (P7, or P4 of QoS 1).
outbox = Table(
    "mqpg_outbox",
    outbox_metadata,
    Column("id", _word(64), primary_key=True),  # the message's own id, and its dedup id at the broker
    # send (QoS 1); stored (PREPARE may be on its way), commit, rollback (decided here, to be told)
    Column("state", _word(8), nullable=False),
    Column("broker", _word(40), nullable=False),
    Column("producer_group", _name),
    Column("handle", _word(200)),
    Column("topic", _name, nullable=False),
    Column("payload", _long, nullable=False),
    Column("message_key", _long),
    Column("tag", _long),
    Column("headers", _long),
    Column("delay", _word(64)),
    Column("created_at", _time, nullable=False),
    CheckConstraint("state in ('send', 'stored', 'commit', 'rollback')", name="mqpg_outbox_state"),
    Index("mqpg_outbox_broker", "broker", "created_at", "id"),
    **_transactional,
)

# The inbox of a relay topic (protocol T4, S3): the last PREPARE of each half that is not decided yet.
prepared = Table(
    "mqpg_prepared",
    prepared_metadata,
    Column("consumer_group", _name, primary_key=True),
    Column("topic", _name, primary_key=True),
    Column("handle", _word(200), primary_key=True),
    Column("message_id", BigInteger, nullable=False),
    Column("queue_id", Integer, nullable=False),
    Column("payload", _long, nullable=False),
    Column("prepared_at", _time, nullable=False),
    **_transactional,
)
