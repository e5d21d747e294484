"""A database of the user's, where a ledger or the offsets of a consumer live."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import URL, MetaData, Table, event
from sqlalchemy import Connection as SyncConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from mqpg import _dialects
from mqpg._async._io import Connection, Engine, database_url, make_engine, run_sync, sync_engine
from mqpg.dsn import describe
from mqpg.errors import ConfigurationError, ConnectionFailed, translate

__all__ = ["LocalDatabase"]

logger = logging.getLogger("mqpg")


class LocalDatabase:
    """An engine, made from a URL or the caller's own, and which tables in it were found to be right."""

    def __init__(self, database: str | URL | Engine) -> None:
        self._own = not isinstance(database, Engine)
        self.engine = database if isinstance(database, Engine) else _engine(database)
        self._verified: set[str] = set()

    @property
    def dialect(self) -> str:
        return self.engine.dialect.name

    def describe(self) -> str:
        return describe(self.engine.url)

    async def close(self) -> None:
        """Close the connections, unless the engine is the caller's."""
        if self._own:
            await self.engine.dispose()

    async def create(self, metadata: MetaData) -> None:
        """Create the tables that are not there. Raises ConnectionFailed, DatabaseError.

        One by one: where DDL is no part of a transaction, another process may be faster with each of them.
        """
        for table in metadata.sorted_tables:
            try:
                async with self.engine.begin() as conn:
                    await run_sync(conn, table.create, True)
            except SQLAlchemyError as error:
                if not await self._has(table):
                    raise self.failure(error) from error

    async def _has(self, table: Table) -> bool:
        try:
            async with self.engine.connect() as conn:
                return bool(await run_sync(conn, _dialects.has, table))
        except SQLAlchemyError:
            return False

    def knows(self, *tables: Table) -> bool:
        """Whether `verify` found these tables to be right before."""
        return all(table.name in self._verified for table in tables)

    async def verify(self, conn: Connection, *tables: Table) -> None:
        """Look once at each table; raises LedgerError naming what is wrong with it. Ends the transaction."""
        wanted = [table for table in tables if not self.knows(table)]
        for table in wanted:
            await run_sync(conn, _dialects.verify, table)
        if wanted and self.dialect == "sqlite":
            level = (await conn.exec_driver_sql("pragma synchronous")).scalar()
            if level is not None and int(level) < 2:
                logger.warning("%s: pragma synchronous is %s; below FULL a commit may be lost", self.describe(), level)
        if wanted and self.dialect in _dialects.MYSQL:
            level = (await conn.exec_driver_sql("select @@global.innodb_flush_log_at_trx_commit")).scalar()
            if level not in (1, 3):
                logger.warning(
                    "%s: innodb_flush_log_at_trx_commit is %s; unless it is 1 a commit may be lost",
                    self.describe(),
                    level,
                )
        if wanted:
            await conn.rollback()
            self._verified.update(table.name for table in wanted)

    @asynccontextmanager
    async def short_transaction(self, lock_timeout: float) -> AsyncGenerator[Connection]:
        """A READ COMMITTED transaction that waits for locks only so long, is durable when committed, and commits.

        On a connection apart from the pool where its settings would outlive the transaction.
        """
        async with self.engine.connect() as conn:
            milliseconds = max(1, round(lock_timeout * 1000))
            if self.dialect == "postgresql":
                await conn.execution_options(isolation_level="READ COMMITTED")
                await conn.exec_driver_sql(_SHORT.format(milliseconds))
            else:
                await run_sync(conn, _set_apart, self.dialect, milliseconds)
                if self.dialect == "sqlite":
                    await begin_immediate(conn)
            yield conn
            await conn.commit()

    def failure(self, error: BaseException) -> Exception:
        """What to raise for an error of this database: one line that says which database it was."""
        known = translate(error)
        if isinstance(error, DBAPIError) and (error.connection_invalidated or isinstance(known, ConnectionFailed)):
            return ConnectionFailed(f"connection to {self.describe()} failed: {known}")
        return known


_SHORT = (
    "select set_config('lock_timeout', '{}', true), set_config('synchronous_commit', "
    "case when current_setting('synchronous_commit') in ('off', 'local') then 'on' "
    "else current_setting('synchronous_commit') end, true)"
)


async def begin_immediate(conn: Connection) -> None:
    """Take SQLite's write lock now, whoever begins transactions on this engine."""
    try:
        await conn.exec_driver_sql("begin immediate")
    except DBAPIError as error:
        # The engine has begun one itself (by an event): its first write takes the lock.
        if "within a transaction" not in str(error.orig):
            raise


# Statements for a connection of its own, outside of transactions.
_APART = {
    "sqlite": ("pragma busy_timeout = {ms}", "pragma synchronous = extra"),
} | dict.fromkeys(
    _dialects.MYSQL,
    (
        "set innodb_lock_wait_timeout = {s}",
        "set lock_wait_timeout = {s}",  # for those of the table
        "set transaction isolation level read committed",
    ),
)


def _set_apart(conn: SyncConnection, dialect: str, milliseconds: int) -> None:
    """Take a connection out of the pool for good, and set it up before anything begins a transaction on it."""
    conn.detach()
    cursor = conn.connection.cursor()
    for statement in _APART.get(dialect, ()):
        cursor.execute(statement.format(ms=milliseconds, s=max(1, milliseconds // 1000)))
    cursor.close()


def _engine(url: str | URL) -> Engine:
    try:
        engine = make_engine(database_url(url), pool_pre_ping=True)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise ConfigurationError(f"cannot use {describe(url)}: {error}") from error
    if engine.dialect.name == "sqlite":
        event.listen(sync_engine(engine), "connect", _durable)
    return engine


def _durable(connection: Any, record: Any) -> None:
    cursor = connection.cursor()
    # FULL may lose the last commit with the power where the journal is a file that each commit deletes.
    cursor.execute("pragma synchronous = extra")
    cursor.close()
