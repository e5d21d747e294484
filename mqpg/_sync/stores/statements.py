# Generated from mqpg/_async/stores/statements.py by tools/async_to_sync.py: change that file.
"""Statements over mqpg's tables that run on both kinds of connection: psycopg's and SQLAlchemy's.

A C1 handler works on a psycopg connection in the broker's database, a C2 handler on a SQLAlchemy
connection in its own. The journal and the inbox of a relay topic exist in both, so their tables and
statements are declared once and compiled for psycopg if that is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from psycopg.rows import tuple_row
from sqlalchemy import Executable
from sqlalchemy.dialects.postgresql import asyncpg
from sqlalchemy.dialects.postgresql import psycopg as dialect

from mqpg._sync._acompat import Connection, DriverConnection, PgConnection, driver_connection
from mqpg.user_tables.tables import in_schema

__all__ = ["POSTGRESQL", "StoreStatement", "bare_connection"]

POSTGRESQL = dialect.dialect()  # type: ignore[no-untyped-call]
_ASYNCPG = asyncpg.dialect()  # type: ignore[no-untyped-call]
_SEEN_BY = ("before_execute", "after_execute", "before_cursor_execute", "after_cursor_execute")


class StoreStatement:
    """One statement with named parameters, for either kind of connection."""

    def __init__(self, clause: Executable) -> None:
        self._clause: Any = clause
        self._queries: dict[str | None, bytes] = {}
        self._of_asyncpg: dict[str | None, str] = {}

    def _query(self, schema: str | None) -> bytes:
        if schema not in self._queries:
            self._queries[schema] = self._compiled(schema, POSTGRESQL).encode()
        return self._queries[schema]

    def _compiled(self, schema: str | None, dialect: Any) -> str:
        place: Any = {} if schema is None else {"schema_translate_map": {None: schema}}
        return str(self._clause.compile(dialect=dialect, render_schema_translate=bool(place), **place))

    def execute(self, conn: PgConnection | Connection, values: dict[str, Any], schema: str | None) -> int:
        """Run it once, and return how many rows it wrote."""
        if isinstance(conn, DriverConnection):
            return (conn.execute(self._query(schema), values)).rowcount
        return (conn.execute(in_schema(self._clause, schema), values)).rowcount

    def execute_all(self, conn: PgConnection | Connection, rows: Sequence[dict[str, Any]], schema: str | None) -> None:
        """Run it once for each row of values."""
        if not rows:
            return
        if isinstance(conn, DriverConnection):
            with conn.cursor() as cursor:
                cursor.executemany(self._query(schema), rows)
        else:
            conn.execute(in_schema(self._clause, schema), list(rows))

    def scalar(self, conn: PgConnection | Connection, values: dict[str, Any], schema: str | None) -> Any:
        """The first column of its first row, or None if there is no row."""
        if not isinstance(conn, DriverConnection):
            return (conn.execute(in_schema(self._clause, schema), values)).scalar()
        # The connection may have a row factory that makes dictionaries, objects or single values.
        with conn.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(self._query(schema), values)
            row = cursor.fetchone()
        return None if row is None else row[0]

    def rows(self, conn: Connection, values: dict[str, Any], schema: str | None) -> Iterable[Any]:
        """Its rows. asyncpg itself gives those of a statement with one value in a third of SQLAlchemy's time."""
        if conn.dialect.driver == "asyncpg" and len(values) == 1 and _may_be_bare(conn):
            if schema not in self._of_asyncpg:
                self._of_asyncpg[schema] = self._compiled(schema, _ASYNCPG)
            with suppress(Exception):  # SQLAlchemy's error is the one that callers know
                driver = driver_connection(conn)
                return list(driver.fetch(self._of_asyncpg[schema], *values.values()))
        return conn.execute(in_schema(self._clause, schema), values)


def bare_connection(conn: Connection) -> PgConnection | Connection:
    """The connection of psycopg itself, on which a statement takes half as long. Else that of SQLAlchemy."""
    driver = driver_connection(conn) if _may_be_bare(conn) else None
    return driver if isinstance(driver, DriverConnection) else conn


def _may_be_bare(conn: Connection) -> bool:
    """Whether the driver itself may run a statement.

    It may not if SQLAlchemy has not begun a transaction, of which it would not know then, or if an event or a map of
    schemas is to see each statement.
    """
    known: Any = getattr(conn, "sync_connection", None) or conn
    options = known.get_execution_options()
    return known.in_transaction() and "schema_translate_map" not in options and not _is_seen(known)


def _is_seen(conn: Any) -> bool:
    """Whether an event of SQLAlchemy is to see each statement of its connection."""
    # It notes whether there are listeners at all. To ask for each kind takes longer than the statement's own work.
    if not getattr(conn, "_has_events", True) and not getattr(conn.engine, "_has_events", True):
        return False
    return any(getattr(conn.dispatch, name) for name in _SEEN_BY)
