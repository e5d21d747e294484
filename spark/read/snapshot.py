"""One snapshot of one database for all connections of Spark.

A partitioned JDBC read is not a snapshot by itself: each partition is a transaction of its own, and
under load the sums are wrong. So one connection exports its snapshot and stays open, the session of
every partition adopts that snapshot, and `jdbc` compares what came back with what the exporter saw.
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

from mqpg.values.errors import ConfigurationError, ConnectionFailed, DatabaseError

from .database import Database, jdbc_options

__all__ = ["Snapshot", "pinned_snapshot"]

_EXPORT = """
select pg_export_snapshot() as snapshot_id, pg_current_snapshot()::text as snapshot,
    (select system_identifier from pg_control_system()) as system_identifier,
    current_database() as database, current_setting('server_version') as server_version
"""
# The views of the tables with partitions. Auditors read no table, and LOCK TABLE locks what a view
# reads, its partitions too. A ledger may lie in a broker's database and be read by a role that is
# no auditor there. It reads none of these views, so it needs no lock.
_PARTITIONED = """
select c.relname from pg_class c
where c.relnamespace = to_regnamespace('mqpg') and c.relkind = 'v'
    and c.relname in ('audit_commit_log', 'audit_op_log', 'audit_consume_queue', 'audit_tick', 'audit_delayed',
        'audit_cursor', 'audit_dedup')
    and has_table_privilege(c.oid, 'select')
"""


@dataclass(frozen=True)
class Snapshot:
    """An exported snapshot. It is valid while the connection that exported it is open.

    Attributes:
        connection: The exporter: an open transaction with this snapshot.
        snapshot_id: The name under which other sessions adopt the snapshot.
        snapshot: Its content, as pg_current_snapshot() writes it.
        taken_at: The database's clock just before the snapshot.
        system_identifier: The server cluster.
    """

    database: Database
    connection: psycopg.Connection[dict[str, Any]]
    snapshot_id: str
    snapshot: str
    taken_at: datetime
    system_identifier: int
    server_version: str

    def session_init(self) -> str:
        """Return what each JDBC session runs first.

        BEGIN opens the transaction explicitly. With SET TRANSACTION alone and no fetch size the
        driver is in autocommit mode, and the statement would silently pin nothing. Times within
        JSON are in UTC, as in an archive.
        """
        return (
            f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{self.snapshot_id}'; "
            "SET LOCAL timezone = 'UTC'"
        )

    def jdbc(self) -> dict[str, str]:
        """The options of a Spark JDBC read at this snapshot."""
        info = self.connection.info
        options = jdbc_options(info.host, info.port, info.dbname, info.get_parameters(), info.password)
        return options | {"sessionInitStatement": self.session_init(), "fetchsize": "5000"}

    def rows(self, query: LiteralString | Composed, *parameters: object) -> list[dict[str, Any]]:
        """Run a small query in the exporter's own transaction."""
        try:
            return self.connection.execute(query, parameters).fetchall()
        except psycopg.Error as error:
            raise DatabaseError(f"{self.database.name}: {_one_line(error)}") from error

    def find_table(self, name: str) -> tuple[str, str] | None:
        """Find schema and name of a table as the connection's search_path does. None: there is no such table."""
        rows = self.rows(
            "select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
            "where c.oid = to_regclass(%s)",
            name,
        )
        return (rows[0]["nspname"], rows[0]["relname"]) if rows else None

    def find_columns(self, table: tuple[str, str]) -> frozenset[str]:
        """The names of a table's columns."""
        rows = self.rows(
            "select a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid "
            "join pg_namespace n on n.oid = c.relnamespace "
            "where n.nspname = %s and c.relname = %s and a.attnum > 0 and not a.attisdropped",
            *table,
        )
        return frozenset(row["attname"] for row in rows)

    def find_ledger(self) -> tuple[str, str] | None:
        """Find the ledger: the user's mqpg_ledger, or else the view of a broker's own ledger (schema mqpg).

        None: the database has no ledger.
        """
        return self.find_table("mqpg_ledger") or self.find_table("mqpg.audit_ledger")


@contextlib.contextmanager
def pinned_snapshot(database: Database) -> Iterator[Snapshot]:
    """Pin a database at one snapshot until the block ends.

    Vacuum cannot remove rows that the snapshot sees. Keep the block short. A broker's partitions are locked
    against being dropped.
    """
    try:
        connection = psycopg.connect(database.conninfo, row_factory=dict_row, application_name="mqpg audit")
    except psycopg.OperationalError as error:
        raise ConnectionFailed(f"no connection to {database.name}: {_one_line(error)}") from error
    with connection:
        try:
            connection.execute("set idle_in_transaction_session_timeout = 0")
            clock = connection.execute("select clock_timestamp() as now").fetchone()
            tables = [row["relname"] for row in connection.execute(_PARTITIONED).fetchall()]
            connection.commit()
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            _lock_tables(connection, tables)
            row = connection.execute(_EXPORT).fetchone()
        except psycopg.Error as error:
            raise ConnectionFailed(f"no snapshot of {database.name}: {_one_line(error)}") from error
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


def _lock_tables(connection: psycopg.Connection[dict[str, Any]], tables: list[str]) -> None:
    """Keep a broker's partitions from being dropped before they are read.

    A snapshot alone does not do that. The locks come first: LOCK TABLE takes no snapshot, so the
    snapshot that follows sees every partition that is locked. keep() waits 100 ms for a partition
    and tries again later.
    """
    if tables:
        names = SQL(", ").join(Identifier("mqpg", table) for table in tables)
        connection.execute(SQL("lock table {} in access share mode").format(names))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
