"""Ledgers and journals in databases other than PostgreSQL, each read in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import URL, Connection, create_engine, func, inspect, select, text
from sqlalchemy import table as table_named
from sqlalchemy.exc import SQLAlchemyError

from mqpg.connection.dsn import describe, to_sqlalchemy
from mqpg.user_tables.tables import clock
from mqpg.values.errors import ConnectionFailed, LedgerError
from mqpg.values.handle import HANDLE

from . import schemas
from .chunks import frame_of_rows
from .stores import FrameStore

__all__ = ["SqlalchemySnapshot"]

_ROWS_FETCHED = 10_000


@dataclass
class SqlalchemySnapshot:
    """One transaction of a database that is read through SQLAlchemy instead of JDBC.

    All reads happen in this transaction, so they are one snapshot. The isolation is the database's:
    a transaction of SQLite is a snapshot by itself, and the others run at REPEATABLE READ.

    Attributes:
        taken_at: The clock of this machine just after the transaction began.
        store: Where the rows of large tables are kept while they are read. None holds them in
            memory.
    """

    url: str
    connection: Connection
    taken_at: datetime
    store: FrameStore | None = None

    @classmethod
    def open(cls, url: str) -> SqlalchemySnapshot:
        """Connect and begin the transaction.

        Raises ConnectionFailed if the database does not answer, or there is no such file.
        """
        address = to_sqlalchemy(url)
        try:
            if address.get_backend_name() == "sqlite":
                # The driver does not begin a transaction before a SELECT.
                connection = create_engine(_read_only(address)).connect()
                connection.exec_driver_sql("BEGIN")
            else:
                connection = create_engine(address, isolation_level="REPEATABLE READ").connect()
            connection.execute(text("select 1"))
            # A deferred transaction takes its snapshot when it first reads a table.
            inspect(connection).get_table_names()
        except SQLAlchemyError as error:
            raise ConnectionFailed(f"no connection to {describe(address)}: {' '.join(str(error).split())}") from error
        return cls(url, connection, datetime.now(UTC))

    def count(self, table: str) -> int:
        """Count the rows of a table, 0 if there is no such table."""
        if not self.has_table(table):
            return 0
        return int(self.connection.execute(select(func.count()).select_from(table_named(table))).scalar_one())

    def has_table(self, name: str) -> bool:
        """Whether the default schema has a table."""
        return inspect(self.connection).has_table(name)

    def ledger(self, spark: SparkSession, label: str, broker_id: str) -> DataFrame:
        """Read the rows of mqpg_ledger that belong to one broker (`schemas.LEDGER`)."""
        rows = self._rows("select handle, entry, created_at, done_at from mqpg_ledger")
        found = (
            (label, int(match[2]), match[3], entry, _utc(created), _utc(done))
            for handle, entry, created, done in rows
            if (match := HANDLE.match(handle)) and match[1] == broker_id
        )
        return frame_of_rows(spark, found, schemas.LEDGER, self.store)

    def outbox(self, spark: SparkSession, label: str, broker_id: str) -> DataFrame:
        """Read the rows of mqpg_outbox that belong to one broker, without payloads (`schemas.OUTBOX`)."""
        rows = self._rows("select id, state, handle, topic, created_at, broker from mqpg_outbox")
        found = (
            (
                label,
                hashlib.sha256(row_id.encode()).hexdigest(),
                state,
                int(match[2]) if handle and (match := HANDLE.match(handle)) else None,
                topic,
                _utc(created),
            )
            for row_id, state, handle, topic, created, broker in rows
            if broker == broker_id
        )
        return frame_of_rows(spark, found, schemas.OUTBOX, self.store)

    def local_commits(self, spark: SparkSession, label: str, broker_id: str, older_than: timedelta) -> DataFrame:
        """Read the committed rows of a broker in mqpg_ledger that are old enough (`schemas.LOCAL_COMMITS`).

        The database's clock decides.
        """
        before = self.now() - older_than
        rows = self._rows("select handle, entry, created_at from mqpg_ledger")
        found = (
            (label, handle, int(match[2]), match[3])
            for handle, entry, created in rows
            if entry == "local"
            and (match := HANDLE.match(handle))
            and match[1] == broker_id
            and (_utc(created) or before) <= before
        )
        return frame_of_rows(spark, found, schemas.LOCAL_COMMITS, self.store)

    def now(self) -> datetime:
        """Return the time of the database's clock."""
        found = _utc(self.connection.execute(select(clock())).scalar_one())
        assert found is not None
        return found

    def applied(self, spark: SparkSession, groups: list[str], topics: list[str] | None, broker_id: str) -> DataFrame:
        """Read the journal rows of some consumer groups and one broker (`schemas.APPLIED`)."""
        origin = ", ".join(self._or_null("mqpg_applied", name) for name in ("subscription_id", "broker"))
        rows = self._rows(
            f"select consumer_group, topic, queue_id, queue_offset, message_id, applied_at, {origin} from mqpg_applied"
        )
        found = (
            (*row[:5], _utc(row[5]), row[6])
            for row in rows
            if _selected(row, groups, topics) and row[7] in (None, broker_id)
        )
        return frame_of_rows(spark, found, schemas.APPLIED, self.store)

    def journal_groups(self, topics: list[str] | None, broker_id: str) -> list[dict[str, Any]]:
        """Count the journal rows of every group and topic: consumer_group and journal_rows.

        Rows of other brokers are left out.
        """
        broker = self._or_null("mqpg_applied", "broker")
        rows = self._rows(f"select consumer_group, topic, {broker}, count(*) from mqpg_applied group by 1, 2, 3")
        return [
            {"consumer_group": row[0], "journal_rows": row[3]}
            for row in rows
            if (topics is None or row[1] in topics) and row[2] in (None, broker_id)
        ]

    def _or_null(self, table: str, column: str) -> str:
        """Return a column's name, or null if a table of an earlier release lacks it."""
        names = {found["name"] for found in inspect(self.connection).get_columns(table)}
        return column if column in names else "null"

    def deferred(self, spark: SparkSession, groups: list[str], topics: list[str] | None, broker_id: str) -> DataFrame:
        """Read the messages of a broker that consumer groups have deferred in their own database."""
        broker = self._or_null("mqpg_inbox", "broker")
        rows = self._rows(
            f"select consumer_group, topic, message_id, {broker} from mqpg_inbox where state = 'deferred'"
        )
        found = (row[:3] for row in rows if _selected(row, groups, topics) and row[3] in (None, broker_id))
        return frame_of_rows(spark, found, schemas.DEFERRED, self.store)

    def offsets(self, groups: list[str], topics: list[str] | None) -> list[dict[str, Any]]:
        """Read the rows of mqpg_offsets of some consumer groups, on all brokers."""
        rows = self._rows("select consumer_group, topic, queue_id, next_offset, broker, incarnation from mqpg_offsets")
        names = ("consumer_group", "topic", "queue_id", "next_offset", "broker", "incarnation")
        return [dict(zip(names, row, strict=True)) for row in rows if _selected(row, groups, topics)]

    def close(self) -> None:
        """End the transaction and the connection."""
        self.connection.close()
        self.connection.engine.dispose()

    def _rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        try:
            found = self.connection.execute(text(query), execution_options={"yield_per": _ROWS_FETCHED})
            yield from (tuple(row) for row in found)
        except SQLAlchemyError as error:
            raise LedgerError(f"{describe(to_sqlalchemy(self.url))}: {' '.join(str(error).split())}") from error


def _read_only(address: URL) -> URL:
    """Name the same file of SQLite to be opened for reading, so that a wrong path makes no file."""
    path = address.database or ""
    if path.startswith("file:"):
        return address.update_query_dict({"mode": "ro", "uri": "true"})
    if not Path(path).is_file():
        raise ConnectionFailed(f"no connection to {describe(address)}: there is no such file")
    return address.set(database=f"file:{quote(str(Path(path).absolute()))}").update_query_dict(
        {"mode": "ro", "uri": "true"}
    )


def _selected(row: tuple[Any, ...], groups: list[str], topics: list[str] | None) -> bool:
    return row[0] in groups and (topics is None or row[1] in topics)


def _utc(value: datetime | str | None) -> datetime | None:
    """Return a database's time in UTC. Times without a zone are UTC, and SQLite's are text."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if value is None or value.tzinfo is not None:
        return value
    return value.replace(tzinfo=UTC)
