"""The session at the broker with its temporary tables, in which the engine derives and judges."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from mqpg.audit.kinds import KINDS
from mqpg.connection.dsn import describe
from mqpg.connection.text_session import one_line, text_session
from mqpg.values.errors import ConfigurationError, DatabaseError, NotGranted

from .statements import DERIVED, FINITE, READS, TABLES, Folder, statement

__all__ = ["BEGIN", "LOCK", "SETTINGS", "BrokerSnapshot", "Workspace", "open_workspace"]

# search_path: no table or operator of a user stands before the built-in ones and the temporary
# tables. The memory is for one session, and the temporary tables are large. They are read in full, so
# that a small sample of them is enough to plan by. Nobody misses them after a crash, so no commit waits.
SETTINGS = """
set search_path = pg_catalog, pg_temp;
set default_statistics_target = 10;
set work_mem = '128MB';
set temp_buffers = '256MB';
set jit = off;
set synchronous_commit = off;
set default_transaction_isolation = 'read committed';
"""
BEGIN = "begin isolation level repeatable read read only"
# The views of the tables with partitions. LOCK TABLE locks what a view reads, its partitions too.
LOCK = """
lock table mqpg_audit.record_batch, mqpg_audit.decision, mqpg_audit.queue_row, mqpg_audit.tick,
    mqpg_audit.delayed, mqpg_audit.position_change, mqpg_audit.dedup, mqpg_audit.check_back in access share mode
"""
_ADD = "insert into anomaly"
_ROWS_AT_ONCE = 1000
# With jumps, whose ranges of offsets are looked up.
_ENTRY_INDEX = "create index on entry (topic_id, queue_id, lane, queue_offset)"


@dataclass(frozen=True)
class BrokerSnapshot:
    """The snapshot at which the broker was read."""

    taken_at: datetime  # the broker's clock just before it
    snapshot: str  # its content, as PostgreSQL writes it
    rows: dict[str, int]  # how many each table got


@dataclass(frozen=True)
class Workspace:
    """The session of one audit. It is in autocommit mode but for `read_broker`.

    `name` is the broker's database, without a password.
    """

    connection: psycopg.Connection[dict[str, Any]]
    dsn: str = field(repr=False)
    name: str

    def query(self, query: str) -> list[dict[str, Any]]:
        """Run a query. If it returns no columns, the result is empty."""
        with self._errors("the broker"):
            cursor = self.connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    def rows(
        self, folder: Folder, name: str, parameters: Sequence[object] | Mapping[str, object] | None = None
    ) -> list[dict[str, Any]]:
        """Run one of the engine's queries."""
        with self._errors(name):
            return self.connection.execute(statement(folder, name).encode(), parameters).fetchall()

    def insert(self, table: str, rows: Iterable[Sequence[object]]) -> int:
        """Copy rows with all columns of a temporary table into it, as they come. Returns how many there were."""
        into = sql.SQL("copy {} from stdin").format(sql.Identifier(table))
        with self._errors(table), self.connection.cursor() as cursor:
            with cursor.copy(into) as copy:
                for row in rows:
                    copy.write_row(row)
            return cursor.rowcount

    def insert_copy(self, table: str, source: psycopg.Connection[Any], query: sql.Composable) -> int:
        """Copy the rows of a query in another database into a temporary table, in small parts.

        Its columns are those of the table. Returns how many rows there were.
        """
        into = sql.SQL("copy {} from stdin").format(sql.Identifier(table))
        out_of = sql.SQL("copy ({}) to stdout").format(query)
        with self._errors(table), self.connection.cursor() as cursor:
            with source.cursor().copy(out_of) as read, cursor.copy(into) as write:
                rows = iter(read)
                while part := b"".join(itertools.islice(rows, _ROWS_AT_ONCE)):
                    write.write(part)
            return cursor.rowcount

    def read_broker(self, then: Callable[[], None] | None = None) -> BrokerSnapshot:
        """Read the broker into temporary tables, at one snapshot, at which `then` is called too.

        The locks keep partitions from being dropped between the snapshot and the read. They come first,
        because LOCK TABLE takes no snapshot. Snapshot and locks end with the read.
        """
        for name in READS:  # A read-only transaction may fill temporary tables but not create them.
            self._execute(name, f"create temp table {name} as {statement('read', name)} with no data")
        taken_at = self.now()
        self._execute("the snapshot", BEGIN)
        self._execute("the locks", LOCK)
        snapshot = self._value("select pg_current_snapshot()::text")
        rows = {}
        for name in READS:
            rows[name] = self._analyzed(name, f"insert into {name} {self.reading(name)}")
        if then is not None:
            then()
        self._execute("the end of the snapshot", "commit")
        return BrokerSnapshot(taken_at, snapshot, rows)

    def reading(self, name: str) -> str:
        """The query that fills a table with what it reads of the broker, once the table is there."""
        columns = self.query(
            "select a.attname as name, a.atttypid = 'timestamptz'::regtype as is_time from pg_attribute as a "
            f"where a.attrelid = 'pg_temp.{name}'::regclass and a.attnum > 0 order by a.attnum"
        )
        listed = ", ".join((FINITE if c["is_time"] else "{0}").format(f"q.{c['name']}") for c in columns)
        return f"select {listed} from ({statement('read', name)}) as q"

    def derive(self) -> None:
        """Make the frames from what was read."""
        self._execute("the tables", f"analyze {', '.join(TABLES)}")
        for folder, name in DERIVED:
            self._derive(folder, name)

    def judge(self) -> dict[str, int]:
        """Look for the anomalies of each kind in the frames, and count them."""
        into = "insert into anomaly select '{0}', q.* from ({1}) as q"
        counts = {kind: self._execute(kind, into.format(kind, statement("kinds", kind))) for kind in KINDS}
        for row in self.query(f"{_ADD} {statement('conservation', 'found')} returning kind"):
            counts[row["kind"]] += 1
        return counts

    def now(self) -> datetime:
        """The time of the broker's clock."""
        found: datetime = self._value("select clock_timestamp()")
        return found

    def _derive(self, folder: Folder, name: str) -> None:
        self._analyzed(name, f"create temp table {name} as {statement(folder, name)}")
        if name == "entry" and self._value("select exists (select from jump)"):
            self._execute(name, _ENTRY_INDEX)

    def _analyzed(self, name: str, filling: str) -> int:
        """Fill a table, and let the planner know it. An empty one is small as it is."""
        if rows := self._execute(name, filling):
            self._execute(name, f"analyze {name}")
        return rows

    def _value(self, query: str) -> Any:
        with self._errors("the broker"):
            row = self.connection.execute(query.encode()).fetchone()
        assert row is not None
        return next(iter(row.values()))

    def _execute(self, what: str, query: str) -> int:
        with self._errors(what):
            return self.connection.execute(query.encode()).rowcount

    @contextlib.contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise DatabaseError(f"{what} of {self.name}: {one_line(error)}") from error


@contextlib.contextmanager
def open_workspace(dsn: str) -> Iterator[Workspace]:
    """Open the session at the broker, with empty temporary tables, until the block ends.

    Raises:
        NotGranted: The role may not create temporary tables.
        ConfigurationError: The server is a standby.
    """
    with text_session(dsn, "mqpg audit") as connection:
        name = describe(dsn)
        workspace = Workspace(connection, dsn, name)
        connection.execute(SETTINGS.encode())
        try:
            for table in TABLES:
                connection.execute(statement("tables", table).encode())
        except psycopg.errors.InsufficientPrivilege as error:
            database, role = connection.info.dbname, connection.info.user
            raise NotGranted(
                f"{name}: the SQL engine needs temporary tables, and {one_line(error)}: "
                f'grant temporary on database "{database}" to "{role}"'
            ) from error
        except psycopg.errors.ReadOnlySqlTransaction as error:
            raise ConfigurationError(
                f"{name}: the SQL engine needs temporary tables, which a read-only server has not: "
                "audit the primary, or use --engine spark"
            ) from error
        yield workspace
