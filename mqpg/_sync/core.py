# Generated from mqpg/_async/core.py by tools/async_to_sync.py: change that file.
"""The connections of a client, and how one call runs on them."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import psycopg
import psycopg_pool
import stamina

from mqpg import _dial
from mqpg._sql import Statement
from mqpg._sql import statement as sql
from mqpg._sync._io import PgConnection, Pool, in_thread
from mqpg._sync.caller import Caller, rows_in, rows_on
from mqpg._ticks import TickWatch, release, share
from mqpg.dsn import describe, resolve
from mqpg.errors import ConnectionFailed, Error, OutcomeUnknown, SpentReceipt, translate
from mqpg.message import BrokerInfo
from mqpg.settings import Settings

__all__ = ["Core"]

logger = logging.getLogger("mqpg")

_BROKER = sql("select broker_id, incarnation from mqpg.broker")

# The pool tries again in ever longer pauses; asking in slices makes it start anew.
_SLICE = 5.0


class Core:
    """A pool, opened on demand, of autocommit connections; safe to share."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        self.dsn = dsn
        self.settings = settings
        self._info: BrokerInfo | None = None
        # Connections made so far: what was true of the broker may not be after another one (a promotion).
        self.generation = 0
        self._info_generation = 0
        # Producer groups that were found to have one of these checkers.
        self._checked: set[tuple[str, tuple[str, ...]]] = set()
        # Of topics, in bytes, as last seen.
        self._limits: dict[str, int] = {}
        self._watch: TickWatch | None = None
        self._pool = Pool(
            dsn,
            kwargs=_dial.options(dsn, settings),
            min_size=settings.pool_min_size,
            max_size=max(settings.pool_max_size, settings.pool_min_size),
            timeout=settings.pool_timeout,
            reconnect_timeout=_SLICE,
            configure=self._configure,
            check=_check,
            open=False,
            name=settings.application_name,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {describe(self.dsn)}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return bool(self._pool.closed) and self._info is not None

    def close(self) -> None:
        """Close all connections; the client cannot be used after."""
        watch, self._watch = self._watch, None
        if watch is not None:
            release(watch)
        self._pool.close()

    def _ticks(self) -> TickWatch:
        """This process's watcher of the broker, shared by all its clients; from the first wait to `close`."""
        if self._watch is None:
            self._watch = share(self.dsn, self.settings)
        return self._watch

    def info(self) -> BrokerInfo:
        """Who the broker is. Asked at the start, and again when connections had to be made again."""
        if self._info is None:
            self._info = self._verify()
        elif self._info_generation != self.generation:
            generation = self.generation
            broker_id, incarnation = (self._rows(_BROKER, {}, repeat=True))[0]
            self._info = BrokerInfo(broker_id, incarnation, self._info.schema_version)
            self._info_generation = generation
        return self._info

    def _open(self) -> None:
        self.info()
        self._pool.open()

    def _verify(self) -> BrokerInfo:
        """One plain connection, so that its failure has a reason and not a time-out of the pool."""
        try:
            conn = PgConnection.connect(self.dsn, **_dial.options(self.dsn, self.settings))
            with conn:
                return _read_info(conn)
        except psycopg.Error as error:
            known = translate(error)
            if isinstance(known, ConnectionFailed):
                known = ConnectionFailed(f"cannot connect to {describe(self.dsn)}: {known}")
            raise known from error

    @contextmanager
    def transaction(self) -> Generator[PgConnection]:
        """A transaction on a connection of the client's own, to be given as `conn=` to several calls.

        Commits at the end, rolls back on an exception. Raises ConnectionFailed.
        """
        try:
            with self._connection() as conn, conn.transaction():
                yield conn
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            known = translate(error)
            raise (known if isinstance(known, ConnectionFailed) else error) from error

    def _configure(self, conn: PgConnection) -> None:
        self.generation += 1
        conn.execute(_dial.SESSION)

    @contextmanager
    def _connection(self) -> Generator[PgConnection]:
        if self._pool.closed:
            raise ConnectionFailed("this client is closed")
        give_up = time.monotonic() + self.settings.pool_timeout
        while True:
            try:
                conn = self._pool.getconn(timeout=min(_SLICE, max(give_up - time.monotonic(), 0.01)))
                break
            except psycopg_pool.PoolClosed:
                raise ConnectionFailed("this client is closed") from None
            except psycopg_pool.PoolTimeout:
                if time.monotonic() >= give_up:
                    raise ConnectionFailed(
                        f"no connection to {describe(self.dsn)} within {self.settings.pool_timeout:g} s: "
                        "the server does not answer, or all connections of this client are in use"
                    ) from None
        try:
            yield conn
        finally:
            self._pool.putconn(conn)

    def _rows(
        self, statement: Statement, values: Mapping[str, Any], conn: Caller | None = None, *, repeat: bool = False
    ) -> list[Sequence[Any]]:
        """Run a call: in the caller's transaction, or on an own autocommit connection.

        `repeat` says that a repetition does no harm where it is unknown whether the first one arrived.
        """
        if conn is not None:
            return rows_in(conn, statement, values)
        try:
            return self._once(statement, values)
        except OutcomeUnknown:
            if not repeat:
                raise
        return self._again(statement, values)

    def _once(self, statement: Statement, values: Mapping[str, Any]) -> list[Sequence[Any]]:
        with self._connection() as conn:
            try:
                return rows_on(conn, statement, values)
            except psycopg.Error as error:
                known = translate(error)
                if isinstance(known, ConnectionFailed):
                    known = OutcomeUnknown(f"outcome unknown, connection to {describe(self.dsn)} lost: {known}")
                raise known from error

    def _again(self, statement: Statement, values: Mapping[str, Any]) -> list[Sequence[Any]]:
        """Repeat after a lost connection until the server is back, for retry_timeout at most."""
        timeout = self.settings.retry_timeout
        retrying = stamina.retry_context(
            on=ConnectionFailed, attempts=None, timeout=timeout, wait_initial=0.05, wait_max=1.0, wait_jitter=0.2
        )
        rows: list[Sequence[Any]] = []
        for attempt in retrying:
            with attempt:
                try:
                    rows = self._once(statement, values)
                except SpentReceipt:
                    # The first try did arrive: nothing is left to settle.
                    return []
        return rows

    def _value(
        self, statement: Statement, values: Mapping[str, Any], conn: Caller | None = None, *, repeat: bool = False
    ) -> Any:
        rows = self._rows(statement, values, conn, repeat=repeat)
        return rows[0][0] if rows else None


def connected(client: Any) -> None:
    """Open a new client, and close it again if that fails."""
    try:
        client._open()
    except BaseException:
        client.close()
        raise


def resolve_dsn(dsn: str | None, settings: Settings) -> str:
    # May start the embedded server, which takes a second.
    return in_thread(resolve, dsn, settings)


def _check(conn: PgConnection) -> None:
    if conn.closed or _dial.has_news(conn.fileno()):
        Pool.check_connection(conn)


def _read_info(conn: PgConnection) -> BrokerInfo:
    from mqpg import migrate

    version = _scalar(conn, "select to_regclass('mqpg.alembic_version')::text")
    if version is not None:
        version = _scalar(conn, "select version_num from mqpg.alembic_version")
    try:
        migrate.verify(version)
    except Error as error:
        raise type(error)(f"{error} ({describe(conn.info.dsn)})") from None
    cursor = conn.execute(_BROKER.query)
    row = cursor.fetchone()
    assert row is not None  # the migration put it there
    return BrokerInfo(row[0], row[1], version)


def _scalar(conn: PgConnection, query: str) -> Any:
    cursor = conn.execute(query.encode())
    row = cursor.fetchone()
    return row[0] if row else None
