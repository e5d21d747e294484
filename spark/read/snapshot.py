"""One snapshot of one database for all connections of Spark.

A plain partitioned JDBC read is no snapshot: each partition is a transaction of its own, and under load the
sums are wrong. So one connection exports its snapshot and stays open, every partition's session adopts it,
and readers compare what came back with what the exporter saw.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row
from psycopg.sql import SQL, Composed, Identifier

from mqpg.errors import ConfigurationError, ConnectionFailed, DatabaseError

from .database import Database, jdbc_options

__all__ = ["Snapshot", "pinned", "table_named"]

_EXPORT = """
select pg_export_snapshot() as snapshot_id, pg_current_snapshot()::text as snapshot,
    (select system_identifier from pg_control_system()) as system_identifier,
    current_database() as database, current_setting('server_version') as server_version
"""
# Tables with partitions, as far as the database has them; LOCK TABLE takes the partitions along.
_PARTITIONED = """
select c.relname from pg_class c
where c.relnamespace = to_regnamespace('mqpg') and c.relkind = 'p'
    and c.relname in ('commit_log', 'op_log', 'consume_queue', 'tick', 'delayed', 'cursor')
"""


@dataclass(frozen=True)
class Snapshot:
    """An exported snapshot, good while its exporter is open. `taken_at`: the database's clock just before it."""

    database: Database
    connection: psycopg.Connection[dict[str, Any]]
    snapshot_id: str
    snapshot: str
    taken_at: datetime
    system_identifier: int
    server_version: str

    def session_init(self) -> str:
        """What each JDBC session runs first.

        BEGIN opens the transaction itself: with SET TRANSACTION alone and no fetch size, the driver is in
        autocommit mode, and the statement would silently pin nothing.
        """
        return f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{self.snapshot_id}'"

    def jdbc(self) -> dict[str, str]:
        """Options of a Spark JDBC read at this snapshot."""
        info = self.connection.info
        options = jdbc_options(info.host, info.port, info.dbname, info.get_parameters(), info.password)
        return options | {"sessionInitStatement": self.session_init(), "fetchsize": "5000"}

    def rows(self, query: LiteralString | Composed, *parameters: object) -> list[dict[str, Any]]:
        """Rows of a small query, in the exporter's own transaction. Raises DatabaseError."""
        try:
            return self.connection.execute(query, parameters).fetchall()
        except psycopg.Error as error:
            raise DatabaseError(f"{self.database.name}: {_line(error)}") from error


@contextlib.contextmanager
def pinned(database: Database) -> Iterator[Snapshot]:
    """Pins the database at one snapshot until the block ends.

    Vacuum cannot pass the snapshot meanwhile, so read, then leave. Raises ConnectionFailed, and
    ConfigurationError for a server that JDBC cannot reach.
    """
    try:
        connection = psycopg.connect(database.conninfo, row_factory=dict_row, application_name="mqpg audit")
    except psycopg.OperationalError as error:
        raise ConnectionFailed(f"no connection to {database.name}: {_line(error)}") from error
    with connection:
        try:
            connection.execute("set idle_in_transaction_session_timeout = 0")
            clock = connection.execute("select clock_timestamp() as now").fetchone()
            tables = [row["relname"] for row in connection.execute(_PARTITIONED).fetchall()]
            connection.commit()
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            _hold(connection, tables)
            row = connection.execute(_EXPORT).fetchone()
        except psycopg.Error as error:
            raise ConnectionFailed(f"no snapshot of {database.name}: {_line(error)}") from error
        if row is None or clock is None:
            raise ConfigurationError(f"no snapshot of {database.name}")
        snapshot = Snapshot(
            database,
            connection,
            row["snapshot_id"],
            row["snapshot"],
            clock["now"],
            row["system_identifier"],
            row["server_version"],
        )
        snapshot.jdbc()
        yield snapshot


def table_named(snapshot: Snapshot, name: str) -> tuple[str, str] | None:
    """Schema and name of a table as the connection's search_path finds it."""
    rows = snapshot.rows(
        "select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where c.oid = to_regclass(%s)",
        name,
    )
    return (rows[0]["nspname"], rows[0]["relname"]) if rows else None


def _hold(connection: psycopg.Connection[dict[str, Any]], tables: list[str]) -> None:
    """Keeps a broker's partitions from being dropped before they are read: a snapshot alone does not.

    Locks first, then the snapshot: LOCK TABLE takes none. keep() gives up on them after 100 ms and comes back.
    """
    if tables:
        names = SQL(", ").join(Identifier("mqpg", table) for table in tables)
        connection.execute(SQL("lock table {} in access share mode").format(names))


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
