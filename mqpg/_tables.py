"""Tables that mqpg keeps in databases of its users, and what differs between those databases.

The producer's ledger (protocols T2, T3), the consumer's offsets, inbox and journal (protocol C2).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    text,
)
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError, NoSuchTableError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from mqpg.errors import LedgerError

__all__ = [
    "applied",
    "clock",
    "consumer_metadata",
    "in_transaction",
    "inbox",
    "is_answer",
    "ledger",
    "ledger_metadata",
    "offsets",
    "verify",
]

ledger_metadata = MetaData()
consumer_metadata = MetaData()


class clock(FunctionElement[datetime]):
    """The database's clock, not the transaction's begin where both exist."""

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
    # Microseconds, as SQLAlchemy writes them: times are compared as text there.
    return "strftime('%Y-%m-%d %H:%M:%f000', 'now')"


@compiles(clock, "mysql", "mariadb")
def _clock_mysql(element: clock, compiler: Any, **kw: Any) -> str:
    return "utc_timestamp(6)"


_time = DateTime(timezone=True)
_name = String(127)

ledger = Table(
    "mqpg_ledger",
    ledger_metadata,
    Column("handle", String(200), primary_key=True),
    Column("entry", String(8), nullable=False),  # local, or the fence of a check-back
    Column("topic", _name),
    Column("payload", Text),  # JSON: the final payload, where the commit is to carry one
    Column("created_at", _time, nullable=False),
    Column("done_at", _time),  # the broker has the decision
    CheckConstraint("entry in ('local', 'fence')", name="mqpg_ledger_entry"),
)
_open = ledger.c.done_at.is_(None)
Index("mqpg_ledger_open", ledger.c.created_at, ledger.c.handle, postgresql_where=_open, sqlite_where=_open)

offsets = Table(
    "mqpg_offsets",
    consumer_metadata,
    Column("consumer_group", _name, primary_key=True),
    Column("topic", _name, primary_key=True),
    Column("queue_id", Integer, primary_key=True, autoincrement=False),
    Column("next_offset", BigInteger, nullable=False),
    Column("last_message_id", BigInteger),  # at next_offset - 1: tells a log that lost its end from one that did not
    Column("broker", String(40), nullable=False),
    Column("incarnation", Integer, nullable=False),
    Column("updated_at", _time),
)

# Messages that did not go the way of the offset: failed, and applied later if at all.
inbox = Table(
    "mqpg_inbox",
    consumer_metadata,
    Column("consumer_group", _name, primary_key=True),
    Column("topic", _name, primary_key=True),
    Column("message_id", BigInteger, primary_key=True, autoincrement=False),
    Column("state", String(8), nullable=False),  # deferred | applied
    Column("reason", Text),
    Column("updated_at", _time),
    CheckConstraint("state in ('deferred', 'applied')", name="mqpg_inbox_state"),
)

# One row per effect, in its transaction. No unique key: an audit must be able to see a duplicate.
applied = Table(
    "mqpg_applied",
    consumer_metadata,
    Column("consumer_group", _name, nullable=False),
    Column("topic", _name, nullable=False),
    Column("queue_id", Integer, nullable=False),
    Column("queue_offset", BigInteger, nullable=False),
    Column("message_id", BigInteger, nullable=False),
    Column("applied_at", _time, nullable=False),
    Index("mqpg_applied_message", "consumer_group", "topic", "message_id"),
)

_DEFERRABLE = text(
    "select exists (select from pg_constraint where conrelid = cast(:name as regclass)"
    " and contype = 'p' and condeferrable)"
)


def verify(conn: Connection, table: Table) -> None:
    """Raise LedgerError unless the table is there with all columns and exactly its primary key.

    Without the key two processes would both win; with a deferrable one they would not meet in time.
    """
    name, catalog = table.name, inspect(conn)
    try:
        found = {column["name"] for column in catalog.get_columns(name)}
    except NoSuchTableError:
        raise LedgerError(f"no table {name} in {_where(conn)}: create it first") from None
    missing = sorted({column.name for column in table.columns} - found)
    if missing:
        raise LedgerError(f"table {name} in {_where(conn)} lacks {', '.join(missing)}")
    wanted = {column.name for column in table.primary_key}
    key = set(catalog.get_pk_constraint(name)["constrained_columns"])
    if key != wanted:
        has = f"({', '.join(sorted(key))})" if key else "none"
        raise LedgerError(
            f"table {name} in {_where(conn)} must have the primary key ({', '.join(sorted(wanted))}), has {has}"
        )
    if conn.dialect.name == "postgresql" and conn.execute(_DEFERRABLE, {"name": name}).scalar():
        raise LedgerError(f"the primary key of table {name} in {_where(conn)} must not be deferrable")


def _where(conn: Connection) -> str:
    from mqpg.dsn import describe

    return describe(conn.engine.url)


def is_answer(error: BaseException) -> bool:
    """Whether the server itself refused, so that nothing was done; else it may or may not have happened."""
    if not isinstance(error, DBAPIError) or error.connection_invalidated:
        return False
    sqlstate = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
    if isinstance(sqlstate, str):
        return not sqlstate.startswith(("08", "57P", "40003"))
    # SQLite: after these the transaction is still open; an I/O error may have done anything.
    message = str(error.orig)
    return "database is locked" in message or "constraint failed" in message


def in_transaction(driver: Any) -> bool | None:
    """Whether a driver's connection is in a transaction that can still commit; None: the driver cannot tell.

    COMMIT of a failed transaction is no error in PostgreSQL: it rolls back and says so in passing.
    """
    status = getattr(getattr(driver, "info", None), "transaction_status", None)
    if status is not None:  # psycopg
        return int(status) == 2
    state = getattr(driver, "in_transaction", None)  # sqlite3, aiosqlite
    return bool(state) if isinstance(state, bool) else None
