# Generated from mqpg/_async/caller.py by tools/async_to_sync.py: change that file.
"""conn=: statements in the caller's own transaction, which is never committed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from sqlalchemy.exc import SQLAlchemyError

from mqpg._sql import Statement
from mqpg._sync._io import Connection, DriverConnection, PgConnection, ScopedSession, Session
from mqpg.errors import InvalidArgument, translate

__all__ = ["Caller", "rows_in", "rows_on", "savepoint"]

Caller = PgConnection | Connection | Session | ScopedSession[Any]


def rows_in(conn: Caller, statement: Statement, values: Mapping[str, Any]) -> list[Sequence[Any]]:
    """All rows of a statement on the caller's connection. Errors are translated."""
    try:
        if isinstance(conn, DriverConnection):
            return rows_on(conn, statement, values)
        if isinstance(conn, (Connection, Session, ScopedSession)):
            return [tuple(row) for row in conn.execute(statement.clause, dict(values))]
    except (psycopg.Error, SQLAlchemyError) as error:
        raise translate(error) from error
    raise InvalidArgument(
        f"conn must be a psycopg {DriverConnection.__name__}, a SQLAlchemy {Connection.__name__} "
        f"or {Session.__name__}, not {type(conn).__module__}.{type(conn).__qualname__}"
    )


def rows_on(conn: PgConnection, statement: Statement, values: Mapping[str, Any]) -> list[Sequence[Any]]:
    """All rows of a statement on a psycopg connection, as tuples whatever its row factory is."""
    with conn.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(statement.query, values)
        return cursor.fetchall()  # type: ignore[return-value]


def savepoint(conn: PgConnection | Connection) -> Any:
    """A context manager in the caller's transaction, which undoes what was done in it when that fails."""
    return conn.transaction() if isinstance(conn, DriverConnection) else conn.begin_nested()
