# Generated from mqpg/_async/stores/database.py by tools/async_to_sync.py: change that file.
"""A database of the user's, in which a ledger, an outbox or the offsets of a consumer live."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from sqlalchemy import URL, Executable, Table, event
from sqlalchemy import Connection as SyncConnection
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    IntegrityError,
    InvalidRequestError,
    NoSuchModuleError,
    SQLAlchemyError,
)

from mqpg._sync._acompat import (
    Connection,
    Engine,
    database_url,
    make_engine,
    require_driver,
    run_sync,
    sync_engine,
)
from mqpg.connection.dsn import describe
from mqpg.connection.engines import closed_on_error, forget_in_child, in_memory, roll_back_when_cancelled
from mqpg.user_tables import dialects
from mqpg.user_tables.tables import by_hand, in_schema, located
from mqpg.values.arguments import schema_of
from mqpg.values.errors import ConfigurationError, ConnectionFailed, DatabaseError, Error, LedgerError
from mqpg.values.translation import translate

if TYPE_CHECKING:
    from mqpg._sync._acompat import Session  # with SQLAlchemy's ORM, which others need not load

__all__ = ["DatabaseAway", "ConstraintViolated", "UserDatabase", "begin_immediate"]

logger = logging.getLogger("mqpg")


class ConstraintViolated(DatabaseError):
    """A constraint refused a row, because its key is taken as a rule."""


class DatabaseAway(ConnectionFailed):
    """A database of the user's does not answer, which is no fault of the broker."""


class UserDatabase:
    """An engine, made from a URL or the caller's own, and the tables that were verified in it.

    `schema`: the schema of the tables. None: where the connection looks for them. Without
    `create_tables` nothing is created or upgraded.
    """

    def __init__(self, database: str | URL | Engine, schema: str | None = None, create_tables: bool = True) -> None:
        self.schema, self.creates_tables = schema_of(schema), create_tables
        self._own = not isinstance(database, Engine)
        self.engine = database if isinstance(database, Engine) else _engine(database)
        require_driver(self.engine)
        forget_in_child(sync_engine(self.engine))
        roll_back_when_cancelled(sync_engine(self.engine))
        self._verified: set[str] = set()

    @property
    def dialect(self) -> str:
        """SQLAlchemy's name of the kind of database, such as "postgresql"."""
        return self.engine.dialect.name

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What SQLAlchemy and the driver raise if something is wrong with the database."""
        return SQLAlchemyError, OSError, self.engine.dialect.loaded_dbapi.Error

    def describe(self) -> str:
        """The URL without its password, for messages."""
        return describe(self.engine.url)

    @cached_property
    def place(self) -> str:
        """Where the database is, without user and password. A path or a local server is on this host."""
        url = self.engine.url
        host = url.host or url.query.get("host")
        local = host is None or str(host).startswith(("/", "127.", "localhost", "::1"))
        name = url.database or ""
        if self.dialect == "sqlite":
            name = os.path.realpath(unquote(name.removeprefix("file:").partition("?")[0]))
        server = "" if self.dialect == "sqlite" else f"{host or 'localhost'}:{url.port or ''}/"
        options = f" {url.query['options']}" if "options" in url.query else ""
        schema = f" schema {self.schema}" if self.schema else ""
        return f"{self.dialect} {server}{name}{options}{schema}" + (f" on {socket.gethostname()}" if local else "")

    def close(self) -> None:
        """Close the connections, unless the engine is the caller's."""
        if self._own:
            self.engine.dispose()

    def renew(self) -> None:
        """Use none of the present connections again: a handler may have left anything in its session.

        Each is closed where it would be used next, which waits for no server that is away.
        """
        if not in_memory(sync_engine(self.engine)):
            sync_engine(self.engine).pool._invalidate(None)

    def open(self) -> Connection:
        """A connection, which the caller closes. Raises ConnectionFailed."""
        try:
            return self.engine.connect()
        except self.errors as error:
            raise self._unreachable(error) from error

    @contextmanager
    def connect(self) -> Generator[Connection]:
        """A connection, whose transaction is rolled back unless the block commits it.

        What the driver raises in the block becomes an error of mqpg here: ConnectionFailed, DatabaseError,
        and ConstraintViolated if a constraint refuses a row.
        """
        opened = False
        try:
            with self.engine.connect() as conn:
                opened = True
                yield conn
        except Error:
            raise
        except self.errors as error:
            raise (self.failure(error) if opened else self._unreachable(error)) from error

    @contextmanager
    def begin(self) -> Generator[Connection]:
        """As `connect`, but the end of the block commits."""
        with self.connect() as conn, conn.begin():
            yield conn

    def execute(self, conn: Connection | Session, statement: Executable, values: Any = None) -> Any:
        """Run a statement over mqpg's tables. Those of the caller stay where the connection looks for them."""
        return conn.execute(in_schema(statement, self.schema), values)

    def has(self, table: Table) -> bool:
        """Whether a table of this name exists. False also if the database does not answer."""
        try:
            with self.connect() as conn:
                return self.has_in(conn, table)
        except Error:
            return False

    def has_in(self, conn: Connection, table: Table) -> bool:
        """Whether a table of this name exists. Raises the driver's error if the database does not answer."""
        return bool(run_sync(conn, dialects.has, located(table, self.schema)))

    def knows(self, *tables: Table) -> bool:
        """Whether these tables were verified before."""
        return self._verified.issuperset([table.name for table in tables])

    def verify_table(self, table: Table) -> None:
        """Verify one table on a connection of its own, once. Raises LedgerError."""
        if table.name not in self._verified:
            with self.connect() as conn:
                self.verify(conn, table)

    def verify(self, conn: Connection, *tables: Table) -> None:
        """Verify each table once, which ends the transaction.

        Raises LedgerError, which names what is wrong.
        """
        unknown = [table for table in tables if not self.knows(table)]
        if not unknown:
            return
        if self.dialect == "postgresql":  # reading the indexes waits for whoever has locked the table
            conn.exec_driver_sql("set local lock_timeout = '1s'")
        for table in unknown:
            try:
                run_sync(conn, dialects.verify, located(table, self.schema))
            except LedgerError as error:
                if self.creates_tables:
                    raise
                raise LedgerError(f"{error}; {by_hand(self.dialect, table, self.schema)}") from None
        self._warn_of_lost_commits(conn)
        conn.rollback()
        self._verified.update(table.name for table in unknown)

    def _warn_of_lost_commits(self, conn: Connection) -> None:
        if self.dialect == "sqlite":
            level = (conn.exec_driver_sql("pragma synchronous")).scalar()
            if level is not None and int(level) < 2:
                logger.warning("%s: pragma synchronous is %s; below FULL a commit may be lost", self.describe(), level)
        if self.dialect in dialects.MYSQL:
            level = (conn.exec_driver_sql("select @@global.innodb_flush_log_at_trx_commit")).scalar()
            if level not in (1, 3):
                logger.warning(
                    "%s: innodb_flush_log_at_trx_commit is %s; unless it is 1 a commit may be lost",
                    self.describe(),
                    level,
                )

    @contextmanager
    def transaction(self) -> Generator[Connection]:
        """A transaction that looks rows up and then writes them, of which the block commits.

        Raises LedgerError for an engine in autocommit mode of PostgreSQL, where it has no savepoints.
        """
        with self.connect() as conn:
            if self.dialect == "postgresql" and run_sync(conn, _is_autocommit):
                raise LedgerError(f"the engine of {self.describe()} must not be in autocommit mode")
            if self.dialect == "sqlite":
                begin_immediate(conn)
            elif self.dialect in dialects.MYSQL:
                # Otherwise looking for a missing row locks the gap, and two first iterations
                # deadlock.
                conn.execution_options(isolation_level="READ COMMITTED")
            yield conn

    @contextmanager
    def short_transaction(self, lock_timeout: float) -> Generator[Connection]:
        """A durable READ COMMITTED transaction with `lock_timeout` seconds to wait for locks.

        It runs on a connection apart from the pool if its settings would outlive the
        transaction.
        """
        with self.connect() as conn:
            milliseconds = max(1, round(lock_timeout * 1000))
            if self.dialect == "postgresql":
                conn.execution_options(isolation_level="READ COMMITTED")
                conn.exec_driver_sql(_SHORT.format(milliseconds))
            else:
                run_sync(conn, _set_apart, self.dialect, milliseconds)
                if self.dialect == "sqlite":
                    begin_immediate(conn)
            yield conn
            conn.commit()

    def failure(self, error: BaseException) -> Exception:
        """What to raise for an error of this database: one line that names it."""
        known = translate(error)
        lost = isinstance(known, ConnectionFailed) or getattr(error, "connection_invalidated", False)
        if lost or isinstance(error, OSError):
            return self._unreachable(error)
        if isinstance(error, IntegrityError):
            return ConstraintViolated(f"database {self.describe()}: {known}")
        # Its class may blame an argument, or the broker's schema, which this database does not have.
        said = (type(known) if isinstance(known, DatabaseError) else DatabaseError)(
            f"database {self.describe()}: {known}"
        )
        said.sqlstate = known.sqlstate
        return said

    def _unreachable(self, error: BaseException) -> DatabaseAway:
        return DatabaseAway(f"connection to database {self.describe()} failed: {translate(error)}")


_SHORT = (
    "select set_config('lock_timeout', '{}', true), set_config('synchronous_commit', "
    "case when current_setting('synchronous_commit') in ('off', 'local') then 'on' "
    "else current_setting('synchronous_commit') end, true)"
)


def begin_immediate(conn: Connection) -> None:
    """Take SQLite's write lock now, even if an event of the engine begins its transactions."""
    try:
        conn.exec_driver_sql("begin immediate")
    except DBAPIError as error:
        # The engine has begun a transaction itself. Its first write takes the lock.
        if "within a transaction" not in str(error.orig):
            raise


def _is_autocommit(conn: SyncConnection) -> bool:
    return bool(getattr(conn.connection.dbapi_connection, "autocommit", False))


# Statements for a connection apart from the pool, outside of transactions.
_APART = {
    "sqlite": ("pragma busy_timeout = {ms}", "pragma synchronous = extra"),
} | dict.fromkeys(
    dialects.MYSQL,
    (
        "set innodb_lock_wait_timeout = {s}",
        "set lock_wait_timeout = {s}",  # for locks of the whole table
        "set transaction isolation level read committed",
    ),
)


def _set_apart(conn: SyncConnection, dialect: str, milliseconds: int) -> None:
    """Take a connection out of the pool, and configure it before its first transaction."""
    conn.detach()
    cursor = conn.connection.cursor()
    for statement in _APART.get(dialect, ()):
        cursor.execute(statement.format(ms=milliseconds, s=max(1, milliseconds // 1000)))
    cursor.close()


def _engine(url: str | URL) -> Engine:
    try:
        engine = make_engine(database_url(url))
    except (ArgumentError, NoSuchModuleError, ImportError, InvalidRequestError) as error:
        raise ConfigurationError(f"cannot use {describe(url)}: {error}") from error
    if engine.dialect.name == "sqlite":
        event.listen(sync_engine(engine), "connect", _flush_every_commit)
    return engine


def _flush_every_commit(connection: Any, record: Any) -> None:
    with closed_on_error(connection) as cursor:
        # FULL may lose the last commit in a power failure if the journal is a file that each commit
        # deletes.
        cursor.execute("pragma synchronous = extra")
