# Generated from mqpg/_async/client/execute.py by tools/async_to_sync.py: change that file.
"""Running one statement on a connection that the caller hands in as `conn=`.

It is never committed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from sqlalchemy.exc import SQLAlchemyError

from mqpg._sql import Statement
from mqpg._sync._acompat import Connection, DriverConnection, PgConnection, ScopedSession, Session
from mqpg.errors import InvalidArgument, translate

__all__ = ["Caller", "rows_in", "savepoint", "scalar"]

Caller = PgConnection | Connection | Session | ScopedSession[Any]


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
    except (psycopg.Error, SQLAlchemyError) as error:
        raise translate(error) from error
    raise InvalidArgument(
        f"conn must be a psycopg {DriverConnection.__name__}, a SQLAlchemy {Connection.__name__} "
        f"or {Session.__name__}, not {type(conn).__module__}.{type(conn).__qualname__}"
    )


def scalar(rows: Sequence[Sequence[Any]]) -> Any:
    """The first column of the first row, or None where there is no row."""
    return rows[0][0] if rows else None


def savepoint(conn: PgConnection | Connection) -> Any:
    """A context manager that undoes its block in the caller's transaction when the block fails."""
    return conn.transaction() if isinstance(conn, DriverConnection) else conn.begin_nested()
