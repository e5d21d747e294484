# Generated from mqpg/_async/client/execute.py by tools/async_to_sync.py: change that file.
"""Running one statement on a connection that the caller hands in as `conn=`.

It is never committed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row
from sqlalchemy.exc import SQLAlchemyError

from mqpg._sql import Statement
from mqpg._sync._acompat import Connection, DriverConnection, PgConnection, ScopedSession, Session
from mqpg.errors import Error, InvalidArgument, shown, translate

__all__ = ["REFUSALS", "Caller", "failure", "rows_in", "savepoint", "scalar"]

Caller = PgConnection | Connection | Session | ScopedSession[Any]


# What drivers raise for a value that they cannot send: text with a lone surrogate, an object of a
# foreign type, an integer of thousands of digits.
REFUSALS = (TypeError, ValueError, ArithmeticError, RecursionError)


def rows_in(conn: Caller, statement: Statement, values: Mapping[str, Any]) -> list[Sequence[Any]]:
    """All rows of a statement, as tuples whatever row factory the connection has.

    Errors are translated.
    """
    try:
        if isinstance(conn, DriverConnection):
            with conn.cursor(row_factory=tuple_row) as cursor:
                cursor.execute(statement.query, values)
                return cursor.fetchall()  # type: ignore[return-value]
        if isinstance(conn, (Connection, Session, ScopedSession)):
            return [tuple(row) for row in conn.execute(statement.clause, dict(values))]
    except (psycopg.Error, SQLAlchemyError, *REFUSALS) as error:
        raise failure(error, values) from error
    raise InvalidArgument(
        f"conn must be a psycopg {DriverConnection.__name__}, a SQLAlchemy {Connection.__name__} "
        f"or {Session.__name__}, not {type(conn).__module__}.{type(conn).__qualname__}"
    )


def failure(error: Exception, values: Mapping[str, Any]) -> Error:
    """The exception for an error of a statement with these values.

    Where the driver refused to send a value, it names the argument.
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


def scalar(rows: Sequence[Sequence[Any]]) -> Any:
    """The first column of the first row, or None where there is no row."""
    return rows[0][0] if rows else None


def savepoint(conn: PgConnection | Connection) -> Any:
    """A context manager that undoes its block in the caller's transaction when the block fails."""
    return conn.transaction() if isinstance(conn, DriverConnection) else conn.begin_nested()
