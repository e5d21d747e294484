"""Statements over mqpg's tables that run on both kinds of connection: psycopg's and SQLAlchemy's.

A C1 handler works on a psycopg connection in the broker's database, a C2 handler on a SQLAlchemy
connection in its own. The journal and the inbox of a relay topic exist in both, so their tables and
statements are declared once and compiled for psycopg if that is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg.rows import tuple_row
from sqlalchemy import Executable
from sqlalchemy.dialects.postgresql import psycopg as dialect

from mqpg._async._acompat import Connection, DriverConnection, PgConnection, driver_connection
from mqpg.user_tables.tables import in_schema

__all__ = ["POSTGRESQL", "StoreStatement", "bare_connection"]

POSTGRESQL = dialect.dialect()  # type: ignore[no-untyped-call]
_SEEN_BY = ("before_execute", "after_execute", "before_cursor_execute", "after_cursor_execute")


class StoreStatement:
    """One statement with named parameters, for either kind of connection."""

    def __init__(self, clause: Executable) -> None:
        self._clause: Any = clause
        self._queries: dict[str | None, bytes] = {}

    def _query(self, schema: str | None) -> bytes:
        if schema not in self._queries:
            place: Any = {} if schema is None else {"schema_translate_map": {None: schema}}
            compiled = self._clause.compile(dialect=POSTGRESQL, render_schema_translate=bool(place), **place)
            self._queries[schema] = str(compiled).encode()
        return self._queries[schema]

    async def execute(self, conn: PgConnection | Connection, values: dict[str, Any], schema: str | None) -> int:
        """Run it once, and return how many rows it wrote."""
        if isinstance(conn, DriverConnection):
            return (await conn.execute(self._query(schema), values)).rowcount
        return (await conn.execute(in_schema(self._clause, schema), values)).rowcount

    async def execute_all(
        self, conn: PgConnection | Connection, rows: Sequence[dict[str, Any]], schema: str | None
    ) -> None:
        """Run it once for each row of values."""
        if not rows:
            return
        if isinstance(conn, DriverConnection):
            async with conn.cursor() as cursor:
                await cursor.executemany(self._query(schema), rows)
        else:
            await conn.execute(in_schema(self._clause, schema), list(rows))

    async def scalar(self, conn: PgConnection | Connection, values: dict[str, Any], schema: str | None) -> Any:
        """The first column of its first row, or None if there is no row."""
        if not isinstance(conn, DriverConnection):
            return (await conn.execute(in_schema(self._clause, schema), values)).scalar()
        # The connection may have a row factory that makes dictionaries, objects or single values.
        async with conn.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(self._query(schema), values)
            row = await cursor.fetchone()
        return None if row is None else row[0]


async def bare_connection(conn: Connection) -> PgConnection | Connection:
    """The connection of psycopg itself, on which a statement takes half as long.

    It is that of SQLAlchemy if that has not begun a transaction, of which it would not know then, if the driver is
    another one, or if an event or a map of schemas is to see each statement.
    """
    known: Any = getattr(conn, "sync_connection", None) or conn
    if not known.in_transaction() or "schema_translate_map" in known.get_execution_options() or _is_seen(known):
        return conn
    driver = await driver_connection(conn)
    return driver if isinstance(driver, DriverConnection) else conn


def _is_seen(conn: Any) -> bool:
    """Whether an event of SQLAlchemy is to see each statement of its connection."""
    # It notes whether there are listeners at all. To ask for each kind takes longer than the statement's own work.
    if not getattr(conn, "_has_events", True) and not getattr(conn.engine, "_has_events", True):
        return False
    return any(getattr(conn.dispatch, name) for name in _SEEN_BY)
