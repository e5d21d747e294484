"""Ledgers and journals in databases other than PostgreSQL, each read in one transaction."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from sqlalchemy import Connection, create_engine, inspect, select, text
from sqlalchemy.exc import SQLAlchemyError

from mqpg._tables import clock
from mqpg.dsn import describe, to_sqlalchemy
from mqpg.errors import ConnectionFailed, LedgerError

from . import schemas

__all__ = ["SqlalchemySnapshot"]

_HANDLE = re.compile(r"^([^.]+)\.\d+\.(\d{1,18})\.([0-9a-f]{32})$")


@dataclass
class SqlalchemySnapshot:
    """One transaction of a database that is read through SQLAlchemy instead of JDBC.

    All reads happen in this transaction, so they are one snapshot. The isolation is the database's:
    a transaction of SQLite is a snapshot by itself, and the others run at REPEATABLE READ.

    Attributes:
        url: The SQLAlchemy URL.
        connection: The connection with the open transaction.
        taken_at: The clock of this machine just after the transaction began.
    """

    url: str
    connection: Connection
    taken_at: datetime

    @classmethod
    def open(cls, url: str) -> SqlalchemySnapshot:
        """Connect and begin the transaction.

        Args:
            url: The SQLAlchemy URL.

        Returns:
            The snapshot.

        Raises:
            ConnectionFailed: The database does not answer.
        """
        address = to_sqlalchemy(url)
        try:
            if address.get_backend_name() == "sqlite":
                # The driver does not begin a transaction before a SELECT.
                connection = create_engine(address).connect()
                connection.exec_driver_sql("BEGIN")
            else:
                connection = create_engine(address, isolation_level="REPEATABLE READ").connect()
            connection.execute(text("select 1"))
            # A deferred transaction takes its snapshot when it first reads a table.
            inspect(connection).get_table_names()
        except SQLAlchemyError as error:
            raise ConnectionFailed(f"no connection to {describe(address)}: {' '.join(str(error).split())}") from error
        return cls(url, connection, datetime.now(UTC))

    def has_table(self, name: str) -> bool:
        """Say whether the default schema has a table.

        Args:
            name: The table's name.

        Returns:
            True where it exists.
        """
        return inspect(self.connection).has_table(name)

    def ledger(self, spark: SparkSession, label: str, broker_id: str) -> DataFrame:
        """Read the rows of mqpg_ledger that belong to one broker.

        Args:
            spark: The session.
            label: The value of the column `ledger`.
            broker_id: The broker's id. Rows of other brokers are left out.

        Returns:
            Rows with the columns of `schemas.LEDGER`.

        Raises:
            LedgerError: The table cannot be read.
        """
        rows = self._rows("select handle, entry, created_at, done_at from mqpg_ledger")
        found = (
            (label, int(match[2]), match[3], entry, _utc(created), _utc(done))
            for handle, entry, created, done in rows
            if (match := _HANDLE.match(handle)) and match[1] == broker_id
        )
        return _frame(spark, found, schemas.LEDGER)

    def local_commits(self, spark: SparkSession, label: str, broker_id: str, older_than: timedelta) -> DataFrame:
        """Read the committed rows of mqpg_ledger that belong to one broker and are old enough.

        Args:
            spark: The session.
            label: The value of the column `ledger`.
            broker_id: The broker's id. Rows of other brokers are left out.
            older_than: Younger rows are left out. The database's clock decides.

        Returns:
            Rows with the columns of `schemas.LOCAL_COMMITS`.

        Raises:
            LedgerError: The table cannot be read.
        """
        before = self.now() - older_than
        rows = self._rows("select handle, entry, created_at from mqpg_ledger")
        found = (
            (label, handle, int(match[2]), match[3])
            for handle, entry, created in rows
            if entry == "local"
            and (match := _HANDLE.match(handle))
            and match[1] == broker_id
            and (_utc(created) or before) <= before
        )
        return _frame(spark, found, schemas.LOCAL_COMMITS)

    def now(self) -> datetime:
        """Return the time of the database's clock."""
        found = _utc(self.connection.execute(select(clock())).scalar_one())
        assert found is not None
        return found

    def applied(self, spark: SparkSession, groups: list[str], topics: list[str] | None) -> DataFrame:
        """Read the journal rows of some consumer groups.

        Args:
            spark: The session.
            groups: The consumer groups.
            topics: Only these topics. None means all.

        Returns:
            Rows with the columns of `schemas.APPLIED`.

        Raises:
            LedgerError: The table cannot be read.
        """
        rows = self._rows(
            "select consumer_group, topic, queue_id, queue_offset, message_id, applied_at from mqpg_applied"
        )
        found = ((*row[:5], _utc(row[5])) for row in rows if _selected(row, groups, topics))
        return _frame(spark, found, schemas.APPLIED)

    def deferred(self, spark: SparkSession, groups: list[str], topics: list[str] | None) -> DataFrame:
        """Read the messages that some consumer groups have deferred in their own database.

        Args:
            spark: The session.
            groups: The consumer groups.
            topics: Only these topics. None means all.

        Returns:
            Rows with the columns of `schemas.DEFERRED`.

        Raises:
            LedgerError: The table cannot be read.
        """
        rows = self._rows("select consumer_group, topic, message_id from mqpg_inbox where state = 'deferred'")
        return _frame(spark, (row for row in rows if _selected(row, groups, topics)), schemas.DEFERRED)

    def offsets(self, groups: list[str], topics: list[str] | None) -> list[dict[str, Any]]:
        """Read the rows of mqpg_offsets of some consumer groups, on all brokers.

        Args:
            groups: The consumer groups.
            topics: Only these topics. None means all.

        Returns:
            The rows.

        Raises:
            LedgerError: The table cannot be read.
        """
        rows = self._rows("select consumer_group, topic, queue_id, next_offset, broker, incarnation from mqpg_offsets")
        names = ("consumer_group", "topic", "queue_id", "next_offset", "broker", "incarnation")
        return [dict(zip(names, row, strict=True)) for row in rows if _selected(row, groups, topics)]

    def close(self) -> None:
        """End the transaction and the connection."""
        self.connection.close()
        self.connection.engine.dispose()

    def _rows(self, query: str) -> Iterator[tuple[Any, ...]]:
        try:
            yield from (tuple(row) for row in self.connection.execute(text(query)))
        except SQLAlchemyError as error:
            raise LedgerError(f"{describe(to_sqlalchemy(self.url))}: {' '.join(str(error).split())}") from error


def _selected(row: tuple[Any, ...], groups: list[str], topics: list[str] | None) -> bool:
    return row[0] in groups and (topics is None or row[1] in topics)


def _utc(value: datetime | str | None) -> datetime | None:
    """Return a database's time in UTC. Times without a zone are UTC, and SQLite's are text."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if value is None or value.tzinfo is not None:
        return value
    return value.replace(tzinfo=UTC)


def _frame(spark: SparkSession, rows: Iterator[tuple[Any, ...]], schema: StructType) -> DataFrame:
    return spark.createDataFrame(list(rows), schema)
