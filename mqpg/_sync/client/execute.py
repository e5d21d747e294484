# Generated from mqpg/_async/client/execute.py by tools/async_to_sync.py: change that file.
"""Running one statement on a connection that the caller hands in as `conn=`.

It is never committed here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from psycopg import sql

from mqpg._sync._acompat import DriverConnection, PgConnection, is_sqlalchemy
from mqpg.connection.pooled import open_cursor
from mqpg.connection.statements import Statement, statement
from mqpg.values.errors import Error, InvalidArgument, SchemaMissing, shown
from mqpg.values.translation import translate

if TYPE_CHECKING:
    from mqpg._sync._acompat import Connection, ScopedSession, Session

__all__ = [
    "OF_ANOTHER",
    "REFUSALS",
    "Caller",
    "current_xid",
    "failure",
    "is_rolled_back",
    "rows_in",
    "savepoint",
    "scalar",
]

_XID = statement("select cast(pg_current_xact_id_if_assigned() as text)")
_STATUS = statement("select pg_xact_status(cast(cast(%(xid)s as text) as xid8))")
OF_ANOTHER = "mqpg.TransactionalProducer sends with a transaction of another database"

Caller: TypeAlias = "PgConnection | Connection | Session | ScopedSession[Any]"


# What drivers raise for a value that they cannot send: text with a lone surrogate, an object of a
# foreign type, an integer of thousands of digits.
REFUSALS = (TypeError, ValueError, ArithmeticError, RecursionError)


def rows_in(conn: Caller, statement: Statement, values: Mapping[str, Any]) -> list[Sequence[Any]]:
    """All rows of a statement, as tuples whatever row factory the connection has.

    Errors are translated.
    """
    try:
        if isinstance(conn, DriverConnection):
            with open_cursor(conn) as cursor:
                cursor.execute(statement.query, values)
                return cursor.fetchall()  # type: ignore[no-any-return]
        if is_sqlalchemy(conn):
            _require_postgresql(conn)
            return [tuple(row) for row in conn.execute(statement.clause, dict(values))]
    except _driver_errors() as error:
        known = failure(error, values)
        if isinstance(known, SchemaMissing):
            known = SchemaMissing(f"{known}. Where conn is of another database than the broker's: {OF_ANOTHER}")
        raise known from error
    from mqpg._sync._acompat import Connection, Session

    raise InvalidArgument(
        f"conn must be a psycopg {DriverConnection.__name__}, a SQLAlchemy {Connection.__name__} "
        f"or {Session.__name__}, not {type(conn).__module__}.{type(conn).__qualname__}"
    )


def _require_postgresql(conn: Any) -> None:
    """Raises InvalidArgument where the connection is to a database that cannot be the broker."""
    dialect = getattr(conn, "dialect", None) or getattr(getattr(conn, "bind", None), "dialect", None)
    name = getattr(dialect, "name", "postgresql")
    if name != "postgresql":
        raise InvalidArgument(f"conn is a connection to {name}, not to the broker: {OF_ANOTHER}")


def failure(error: Exception, values: Mapping[str, Any]) -> Error:
    """The exception for an error of a statement with these values.

    If the driver refused to send a value, it names the argument.
    """
    known = InvalidArgument(" ".join(str(error).split())) if isinstance(error, REFUSALS) else translate(error)
    if isinstance(known, InvalidArgument) and getattr(error, "sqlstate", None) is None:
        for name, value in values.items():
            try:
                sql.Literal(value).as_bytes(None)
            except Exception as refusal:
                why = " ".join(str(refusal).encode("utf-8", "backslashreplace").decode().split())
                return InvalidArgument(f"{name} cannot be {shown(value)}: {why}")
    return known


def _driver_errors() -> tuple[type[Exception], ...]:
    """What a driver raises. SQLAlchemy's errors cannot come where it is not loaded."""
    if "sqlalchemy" not in sys.modules:
        return (psycopg.Error, *REFUSALS)
    from sqlalchemy.exc import SQLAlchemyError

    return (psycopg.Error, SQLAlchemyError, *REFUSALS)


def scalar(rows: Sequence[Sequence[Any]]) -> Any:
    """The first column of the first row, or None if there is no row."""
    return rows[0][0] if rows else None


def savepoint(conn: PgConnection | Connection) -> Any:
    """A context manager that undoes its block in the caller's transaction when the block fails."""
    return conn.transaction() if isinstance(conn, DriverConnection) else conn.begin_nested()


def current_xid(conn: PgConnection | Connection) -> str | None:
    """The id of the transaction of a connection to PostgreSQL. None: it has none yet."""
    found = scalar(rows_in(conn, _XID, {}))
    return None if found is None else str(found)


def is_rolled_back(conn: PgConnection | Connection, xid: str) -> bool:
    """Whether a transaction of a connection's server was rolled back, and is neither committed nor prepared."""
    return bool(scalar(rows_in(conn, _STATUS, {"xid": xid})) == "aborted")
