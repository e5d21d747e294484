"""The tables that mqpg has in its users' databases. The library's `create` methods make them.

A producer has a ledger (protocols T2 and T3) or an outbox (FastMiniMQ's protocols). A consumer has
offsets, an inbox and a journal (protocol C2), and an inbox of prepared messages if it reads a
relay topic (protocol T4). `mqpg.user_tables.dialects` has everything else that differs between
databases.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Executable,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

__all__ = [
    "FAMILIES",
    "IDENTITY",
    "applied",
    "by_hand",
    "clock",
    "in_schema",
    "inbox",
    "ledger",
    "ledger_message",
    "located",
    "offsets",
    "outbox",
    "outbox_count",
    "prepared",
]

S = TypeVar("S", bound=Executable)

_metadata = MetaData()


class clock(FunctionElement[datetime]):
    """The database's clock, which may differ from the time at which the transaction began."""

    type = DateTime(timezone=True)
    inherit_cache = True


@compiles(clock)
def _clock(element: clock, compiler: Any, **kw: Any) -> str:
    return "current_timestamp"


@compiles(clock, "postgresql")
def _clock_postgresql(element: clock, compiler: Any, **kw: Any) -> str:
    return "clock_timestamp()"


@compiles(clock, "sqlite")
def _clock_sqlite(element: clock, compiler: Any, **kw: Any) -> str:
    # Times are compared as text there, so they need the microseconds that SQLAlchemy writes.
    return "strftime('%Y-%m-%d %H:%M:%f000', 'now')"


@compiles(clock, "mysql", "mariadb")
def _clock_mysql(element: clock, compiler: Any, **kw: Any) -> str:
    return "utc_timestamp(6)"


def _word(length: int) -> String:
    """Text that is compared byte by byte. In MySQL's default collations 'A' and 'a' are one key."""
    exact = mysql.VARCHAR(length, charset="ascii", collation="ascii_bin")
    return String(length).with_variant(exact, "mysql", "mariadb")


_MYSQL = ("mysql", "mariadb")
_name = _word(127)
# Without a precision MySQL rounds to the second. A TEXT ends at 64 KiB.
_time = DateTime(timezone=True).with_variant(mysql.DATETIME(fsp=6), *_MYSQL)
_long = Text().with_variant(mysql.LONGTEXT(charset="utf8mb4"), *_MYSQL)
# The other engines have no transactions.
_transactional: dict[str, Any] = {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}

# The handle of the row that has the identity of a ledger table, see mqpg._async.stores.ledger_identity.
IDENTITY = "identity"
_undone = text("done_at is null")

ledger = Table(
    "mqpg_ledger",
    _metadata,
    Column("handle", _word(200), primary_key=True),
    Column("entry", _word(8), nullable=False),  # local, or the fence of a check-back
    Column("topic", _name),
    Column("payload", _long),  # JSON: the final payload, if there is one
    Column("created_at", _time, nullable=False),
    Column("done_at", _time),  # the broker has the decision
    CheckConstraint("entry in ('local', 'fence')", name="mqpg_ledger_entry"),
    # MySQL has no partial indexes, so done_at is its first column.
    Index("mqpg_ledger_undone", "done_at", "created_at", "handle", postgresql_where=_undone, sqlite_where=_undone),
    **_transactional,
)

# What a producer with keep_messages sent, by the handle of its ledger row. A broker that has lost
# the half message gets it again.
ledger_message = Table(
    "mqpg_ledger_message",
    _metadata,
    Column("handle", _word(200), primary_key=True),
    Column("producer_group", _name, nullable=False),
    Column("topic", _name, nullable=False),
    Column("payload", _long, nullable=False),  # as it was prepared; the ledger has the final one
    Column("message_key", _long),
    Column("tag", _long),
    Column("headers", _long),
    Column("delay", _word(64)),
    **_transactional,
)

offsets = Table(
    "mqpg_offsets",
    _metadata,
    Column("consumer_group", _name, primary_key=True),
    Column("topic", _name, primary_key=True),
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    # At next_offset - 1. It shows whether the log has lost its end.
    Column("last_message_id", BigInteger),
    # A group may read topics of one name at several brokers.
    Column("broker", _word(40), primary_key=True),
    Column("incarnation", Integer, nullable=False),
    Column("updated_at", _time),
    # When the offset was moved back behind the end that the broker had lost. From then on every
    # message is looked up in the inbox and the journal before it is applied.
    Column("realigned_at", _time),
    # Where this database began with the queue, and the consumer that wrote the row last. What lies
    # before, and what other consumers did, is another database's. Null in rows of earlier releases.
    Column("first_offset", BigInteger),
    Column("consumer", _name),
    **_transactional,
)

# Messages that the offset skipped because they failed. They are applied later, if at all.
inbox = Table(
    "mqpg_inbox",
    _metadata,
    Column("consumer_group", _name, primary_key=True),
    Column("topic", _name, primary_key=True),
    Column("message_id", BigInteger, primary_key=True, autoincrement=False),
    Column("broker", _word(40), primary_key=True),
    Column("state", _word(8), nullable=False),  # deferred | applied
    Column("reason", _long),
    Column("updated_at", _time),
    CheckConstraint("state in ('deferred', 'applied')", name="mqpg_inbox_state"),
    **_transactional,
)

# One row for each effect, in its transaction. Without a unique key an audit can see duplicates.
applied = Table(
    "mqpg_applied",
    _metadata,
    Column("consumer_group", _name, nullable=False),
    Column("topic", _name, nullable=False),
    Column("queue_id", Integer, nullable=False),
    Column("queue_offset", BigInteger, nullable=False),
    Column("message_id", BigInteger, nullable=False),
    Column("applied_at", _time, nullable=False),
    # Null in rows of earlier releases. A group that subscribes again, and each member of a
    # broadcast group, has a subscription of its own, and may apply every message once.
    Column("broker", _word(40)),
    Column("subscription_id", Integer),
    Index("mqpg_applied_message", "consumer_group", "topic", "message_id"),
    **_transactional,
)

# One row for each message that its broker may not have permanently yet (P1). It is deleted when the
# broker has it (P7, or P4 of QoS 1).
outbox = Table(
    "mqpg_outbox",
    _metadata,
    Column("id", _word(64), primary_key=True),  # also the dedup id at the broker
    # send (QoS 1); stored (PREPARE may be under way); commit, rollback (decided here, while the
    # broker may not know yet)
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

# How many messages of each broker and topic were deleted from the outbox because the broker has them
# permanently (FastMiniMQ's transaction_record_cnt), so that an audit sees if it loses some later. The
# sum over the slots counts: with one row, all transactions of a topic would wait for one another. The
# row of topic '' is the identity of the outbox.
outbox_count = Table(
    "mqpg_outbox_count",
    _metadata,
    Column("broker", _word(40), primary_key=True),
    Column("topic", _name, primary_key=True),
    Column("slot", Integer, primary_key=True, autoincrement=False),
    Column("sent", BigInteger, nullable=False),  # QoS 1
    Column("committed", BigInteger, nullable=False),  # QoS 2
    **_transactional,
)

# The inbox of a relay topic, or (topic '') of another queue (protocol T4, S3): the last PREPARE of each
# half message that is not decided yet. For another queue a decided one stays for some days, with an
# empty payload, and prepared_at is when it was decided.
prepared = Table(
    "mqpg_prepared",
    _metadata,
    Column("consumer_group", _name, primary_key=True),
    Column("topic", _name, primary_key=True),
    Column("handle", _word(200), primary_key=True),
    Column("message_id", BigInteger, nullable=False),
    Column("queue_id", Integer, nullable=False),
    Column("payload", _long, nullable=False),
    Column("prepared_at", _time, nullable=False),
    **_transactional,
)

# What is created together, by the names that users choose them by.
FAMILIES: dict[str, tuple[Table, ...]] = {
    "ledger": (ledger,),
    "ledger_message": (ledger_message,),
    "outbox": (outbox, outbox_count),
    "consumer": (offsets, inbox, applied),
    "prepared": (prepared,),
}


def by_hand(dialect: str, table: Table, schema: str | None) -> str:
    """How a user makes a table, or upgrades it, where the library may not."""
    family = next(name for name, tables in FAMILIES.items() if table.name in [one.name for one in tables])
    place = "" if schema is None else f" --schema {schema}"
    return (
        f"create_tables=False: `mqpg tables sql --dialect {dialect}{place} {family}` prints what creates it. "
        f"With Alembic, mqpg.tables.add_to(target_metadata, {family}=True) lets autogenerate write it, and "
        "`alembic upgrade mqpg_tables@head` upgrades one of an earlier release"
    )


def in_schema(statement: S, schema: str | None) -> S:
    """A statement over mqpg's tables that finds them in a schema."""
    return statement if schema is None else statement.execution_options(schema_translate_map={None: schema})


def located(table: Table, schema: str | None) -> Table:
    """The same table in a schema. None: where the connection looks for tables."""
    return table if schema is None else table.to_metadata(MetaData(), schema=schema)
