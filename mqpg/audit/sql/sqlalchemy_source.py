"""A database of users other than PostgreSQL, read in one transaction and in small parts."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, bindparam, create_engine, func, inspect, select, text
from sqlalchemy import table as table_named
from sqlalchemy.exc import SQLAlchemyError

from mqpg.audit.state import Digests, Judged
from mqpg.connection.dsn import describe, to_sqlalchemy
from mqpg.connection.text_session import one_line
from mqpg.user_tables.tables import clock
from mqpg.values.errors import ConnectionFailed, LedgerError
from mqpg.values.handle import HANDLE

from .user_tables import COLUMNS, OF_ONE_BROKER
from .workspace import Workspace

__all__ = ["SqlalchemySource"]

_PART = 5000


@dataclass
class SqlalchemySource:
    """Another database, with the attributes and methods of `PostgresqlSource`.

    SQLite's transaction is a snapshot, the others run at REPEATABLE READ.
    """

    connection: Connection
    name: str
    taken_at: datetime
    snapshot: str = "one transaction"
    system_identifier: int | None = None
    is_broker: bool = False
    digests: Digests = field(default_factory=dict)

    @classmethod
    @contextlib.contextmanager
    def open(cls, url: str) -> Iterator[SqlalchemySource]:
        """Open it until the block ends.

        Raises ConnectionFailed if the database does not answer, or the SQLite file does not exist.
        """
        address = to_sqlalchemy(url)
        name, sqlite = describe(address), address.get_backend_name() == "sqlite"
        if sqlite:
            address = _read_only(address)
        engine = create_engine(address, **({} if sqlite else {"isolation_level": "REPEATABLE READ"}))
        try:
            with engine.connect() as connection:
                if sqlite:  # The driver does not begin a transaction before a SELECT.
                    connection.exec_driver_sql("BEGIN")
                # A deferred transaction takes its snapshot when it first reads a table.
                inspect(connection).get_table_names()
                taken_at = _utc(connection.execute(select(clock())).scalar_one())
                assert taken_at is not None
                yield cls(connection, name, taken_at)
        except SQLAlchemyError as error:
            raise ConnectionFailed(f"no connection to {name}: {one_line(error)}") from error
        finally:
            engine.dispose()

    def copy_consumers(
        self,
        work: Workspace,
        table: str,
        groups: list[str],
        topics: list[str] | None,
        broker_id: str,
        judged: Judged | None = None,
    ) -> int | None:
        """See PostgresqlSource. Judged rows are copied too, because not every database can hash them."""
        theirs, columns = COLUMNS[table]
        if not inspect(self.connection).has_table(theirs):
            return None
        present = self._columns(theirs)
        listed = ", ".join(name if name in present else "null" for name in columns)
        query = f"select {listed} from {theirs} where consumer_group in :groups"
        query += " and topic in :topics" if topics is not None else ""
        query += " and state = 'deferred'" if table == "deferred" else ""
        broker = broker_id if table in OF_ONE_BROKER and "broker" in present else None
        query += " and coalesce(broker, :broker) = :broker" if broker is not None else ""
        rows = self._stream(query, {"broker": broker}, groups=groups, topics=topics)
        times = columns.index("applied_at") if "applied_at" in columns else None
        return work.insert(table, (row if times is None else _with_time(row, times) for row in rows))

    def journal_rows(self, topics: list[str] | None, broker_id: str) -> dict[str, int]:
        """See PostgresqlSource."""
        if not inspect(self.connection).has_table("mqpg_applied"):
            return {}
        broker = broker_id if "broker" in self._columns("mqpg_applied") else None
        query = "select consumer_group, count(*) from mqpg_applied where 1 = 1"
        query += " and topic in :topics" if topics is not None else ""
        query += " and coalesce(broker, :broker) = :broker" if broker is not None else ""
        rows = self._stream(f"{query} group by consumer_group", {"broker": broker}, topics=topics)
        return dict(rows)

    def _columns(self, name: str) -> set[str]:
        return {column["name"] for column in inspect(self.connection).get_columns(name)}

    def count(self, table: str) -> int:
        """Count the rows of a table, 0 if there is none."""
        if not inspect(self.connection).has_table(table):
            return 0
        return int(self.connection.execute(select(func.count()).select_from(table_named(table))).scalar_one())

    def has_table(self, name: str) -> bool:
        """Whether the database has a table."""
        return inspect(self.connection).has_table(name)

    def outbox_identities(self) -> list[str]:
        """See PostgresqlSource."""
        if not self.has_table("mqpg_outbox_count"):
            return []
        return [row[0] for row in self._stream("select broker from mqpg_outbox_count where topic = ''")]

    def copy_outbox(self, work: Workspace, label: str, broker_id: str) -> int:
        """See PostgresqlSource."""
        rows = self._stream("select id, state, handle, topic, broker from mqpg_outbox")
        found = (
            (label, hashlib.sha256(row_id.encode()).hexdigest(), state, _message_id(handle), topic)
            for row_id, state, handle, topic, broker in rows
            if broker == broker_id
        )
        return work.insert("outbox_row", found)

    def copy_ledger(
        self,
        work: Workspace,
        label: str,
        broker_id: str,
        *,
        also_the_brokers: bool,
        judged: Judged | None = None,
    ) -> tuple[int, bool] | None:
        """See PostgresqlSource. Judged rows are copied too."""
        if not inspect(self.connection).has_table("mqpg_ledger"):
            return None
        rows = self._stream("select handle, entry, created_at, done_at, topic from mqpg_ledger")
        found = (
            (label, int(match[2]), _hash(match[3]), entry, _utc(created), _utc(done), topic)
            for handle, entry, created, done, topic in rows
            if (match := HANDLE.match(handle)) and match[1] == broker_id
        )
        return work.insert("ledger_row", found), False

    def local_commits(self, label: str, broker_id: str, before: datetime) -> Iterator[tuple[str, str, int, str]]:
        """The committed rows of one broker that were written up to a time: label, handle, message id, nonce.

        Raises LedgerError if there is no ledger.
        """
        rows = self._stream("select handle, created_at from mqpg_ledger where entry = 'local'")
        for handle, created in rows:
            match = HANDLE.match(handle)
            if match and match[1] == broker_id and (_utc(created) or before) <= before:
                yield label, handle, int(match[2]), match[3]

    def _stream(
        self, query: str, single: dict[str, str | None] | None = None, **lists: list[str] | None
    ) -> Iterator[tuple[Any, ...]]:
        expanded = {name: value for name, value in lists.items() if value is not None}
        given = {name: value for name, value in (single or {}).items() if value is not None}
        bound = text(query).bindparams(*(bindparam(name, expanding=True) for name in expanded))
        try:
            result = self.connection.execution_options(yield_per=_PART).execute(bound, expanded | given)
            yield from (tuple(row) for row in result)
        except SQLAlchemyError as error:
            raise LedgerError(f"{self.name}: {one_line(error)}") from error


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


def _with_time(row: tuple[Any, ...], place: int) -> tuple[Any, ...]:
    return (*row[:place], _utc(row[place]), *row[place + 1 :])


def _hash(nonce: str) -> str:
    return hashlib.sha256(bytes.fromhex(nonce)).hexdigest()


def _message_id(handle: str | None) -> int | None:
    match = HANDLE.match(handle or "")
    return int(match[2]) if match else None


def _utc(value: datetime | str | None) -> datetime | None:
    """Return a time in UTC. Times without a zone are UTC, and SQLite's are text."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value
