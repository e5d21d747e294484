"""The connections of a client, and how one call runs on them."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import psycopg
import psycopg_pool
import stamina

from mqpg._async._acompat import BrokerConnection, PgConnection, Pool, cancellations, raise_cancellation
from mqpg._async._batcher import Batcher
from mqpg._async.client.execute import REFUSALS, Caller, failure, rows_in
from mqpg._async.client.same_broker import SameBroker
from mqpg._async.closing import AsyncClosing
from mqpg.connection.dsn import describe
from mqpg.connection.forking import abandon, in_child
from mqpg.connection.listener import TickListener, release, share
from mqpg.connection.options import SESSION, connect_options, has_news
from mqpg.connection.pooled import READ_ONLY, RESET, reads_only
from mqpg.connection.settings import Settings
from mqpg.connection.statements import Statement, statement
from mqpg.connection.stopping import BrokerAway, is_stopping
from mqpg.connection.time_limit import time_limit
from mqpg.schema.compatibility import FIND, READ, Installed, is_there, require_compatible
from mqpg.schema.source import packaged
from mqpg.values.errors import ConnectionFailed, Error, InvalidArgument, OutcomeUnknown, SpentReceipt
from mqpg.values.messages import BrokerInfo
from mqpg.values.translation import translate

__all__ = ["BaseClient"]

logger = logging.getLogger("mqpg")

_BROKER = statement("select b.broker_id, b.incarnation from mqpg._broker() b")
_SCHEMA = statement(READ)

# How much longer calls may take that work through all that has accumulated.
_LONG = 10

# Where a batch of calls ends. So many bytes of payloads end a record batch on the server, too.
_MOST_CALLS = 1000
_MOST_BYTES = 262144

# The pool pauses longer after each failed attempt to connect, and begins again with the first pause
# when it is asked after so many seconds. A call therefore asks in slices.
_RECONNECT = 5.0
_SLICE = 2.0

_MOST_ROWS = 100  # of a result that stays in memory until the next call

# The clients of whose `transaction` blocks the caller is in one.
_inside: ContextVar[tuple[BaseClient, ...]] = ContextVar("mqpg_inside", default=())


class BaseClient(AsyncClosing):
    """A pool of autocommit connections, opened when it is first needed.

    Threads and tasks may share it.
    """

    def __init__(self, dsn: str, settings: Settings) -> None:
        self.dsn = dsn
        self.settings = settings
        # How many connections were made so far. The broker may have been promoted or restored
        # between two of them, so what was learnt before the last one may no longer be true.
        self.generation = 0
        self._info: BrokerInfo | None = None
        self._info_generation = 0
        self._listener: TickListener | None = None
        self._same_broker = SameBroker(dsn)
        self._closed = False
        self._begin()
        in_child(self)

    def _begin(self) -> None:
        """What belongs to one process."""
        self._batcher = Batcher(self.settings.linger, _MOST_CALLS, _MOST_BYTES)
        self._lent: set[BrokerConnection] = set()  # to blocks of `transaction`
        self._read_only_at = 0.0  # when a call last failed at a server that only reads
        self._most = max(self.settings.pool_max_size, self.settings.pool_min_size)
        self._pool = self._make_pool(self.settings.pool_min_size, self._most)
        # One connection more. While all others are lent, a call might wait for its own caller.
        self._spare = self._make_pool(0, 1)

    def _make_pool(self, min_size: int, max_size: int) -> Pool:
        return Pool(
            self.dsn,
            connection_class=BrokerConnection,
            kwargs=connect_options(self.dsn, self.settings),
            min_size=min_size,
            max_size=max_size,
            timeout=self.settings.pool_timeout,
            reconnect_timeout=_RECONNECT,
            configure=self._configure,
            check=self._check,
            open=False,
            name=self.settings.application_name,
        )

    def after_fork(self) -> None:
        """Leave all connections to the parent. The first call of this process makes new ones."""
        abandon(self._pool, self._spare)
        self._listener = None
        self._begin()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {describe(self.dsn)}>"

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    async def close(self) -> None:
        """Close all connections. The client cannot be used afterwards."""
        await self._spare.close()
        await self._pool.close()
        self._closed = True
        listener, self._listener = self._listener, None
        if listener is not None:
            release(listener)

    async def info(self) -> BrokerInfo:
        """Identify the broker.

        The client asks when it connects, and again after it had to make new connections.

        Returns:
            The broker's id, its incarnation and the version of its schema.

        Raises:
            ConnectionFailed: The broker does not answer.
            SchemaError: The schema is missing, or this release cannot work with it.
        """
        if self._info is None:
            self._info = await self._verify()
        elif self._info_generation != self.generation:
            generation = self.generation
            installed = Installed(*(await self._rows(_SCHEMA, {}, repeat=True))[0])
            require_compatible(installed, packaged())
            broker_id, incarnation = (await self._rows(_BROKER, {}, repeat=True))[0]
            self._info = BrokerInfo(broker_id, incarnation, installed.release)
            self._info_generation = generation
        return self._info

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[PgConnection]:
        """Open a transaction to hand to several calls as `conn=`.

        It commits when the block ends and rolls back when the block raises (protocol T1 for sends,
        C1 for receives). Your own statements on the connection have no time limit.

        Yields:
            The psycopg connection.

        Raises:
            ConnectionFailed: No connection could be made, or it was lost before COMMIT was sent.
                Nothing was committed.
            OutcomeUnknown: The connection was lost after COMMIT was sent. The transaction may or
                may not have been committed.
        """
        sent = False
        try:
            async with self._borrowed() as conn:
                block = conn.transaction()
                with time_limit(self.settings.call_timeout):
                    await block.__aenter__()
                try:
                    yield conn
                except BaseException as error:
                    if conn.inherited:
                        raise
                    with time_limit(self.settings.call_timeout):
                        if not await block.__aexit__(type(error), error, error.__traceback__):
                            raise
                else:
                    if conn.broken or conn.closed:
                        # The block has caught the error. psycopg would end without one.
                        raise ConnectionFailed(f"connection to {describe(self.dsn)} lost before the commit")
                    sent = True
                    with time_limit(self.settings.call_timeout):
                        await block.__aexit__(None, None, None)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            known = translate(error)
            if not isinstance(known, ConnectionFailed):
                raise
            if sent:
                known = OutcomeUnknown(
                    f"outcome unknown, connection to {describe(self.dsn)} lost during the commit: {known}"
                )
            raise known from error

    def _ticks(self) -> TickListener:
        """The listener that all clients of this process share for one broker."""
        if self._listener is None:
            self._listener = share(self.dsn, self.settings)
        return self._listener

    async def _open(self) -> None:
        await self.info()
        await self._pool.open()

    async def _verify(self) -> BrokerInfo:
        """Use one plain connection, whose error gives a reason. The pool's time-out does not."""
        try:
            conn = await BrokerConnection.connect(self.dsn, **connect_options(self.dsn, self.settings))
            async with conn:
                info = await _read_info(conn, self.settings.call_timeout)
                self._same_broker.learn(info.broker_id, conn)
                return info
        except psycopg.Error as error:
            known = translate(error)
            if isinstance(known, ConnectionFailed):
                known = ConnectionFailed(f"cannot connect to {describe(self.dsn)}: {known}")
            raise known from error

    async def _configure(self, conn: BrokerConnection) -> None:
        self.generation += 1
        conn.note_settings()
        with time_limit(self.settings.call_timeout):
            await conn.execute(SESSION)
        conn.doubtful = False

    async def _check(self, conn: BrokerConnection) -> None:
        """Look at a connection before it is used. That costs no round trip, unless something has arrived on it."""
        if conn.reads_only and conn.is_stale(self._read_only_at):
            # The name of the server may lead to another one now, for all connections.
            await self._pool.drain()
            await conn.close()
        if conn.closed or has_news(conn.fileno()):
            await Pool.check_connection(conn)
            conn.doubtful = False

    @asynccontextmanager
    async def _borrowed(self) -> AsyncGenerator[BrokerConnection]:
        """A connection for a block of the program."""
        around = _inside.get()
        conn = await self._take(may_wait=self not in around)
        self._lent.add(conn)
        _inside.set((*around, self))
        try:
            yield conn
        except BaseException as error:
            conn.blame(error)
            raise
        finally:
            _inside.set(around)
            self._lent.discard(conn)
            await self._give_back(conn)

    async def _take(self, *, may_wait: bool = False) -> BrokerConnection:
        """A connection of the pool, which `_give_back` returns.

        While all of them are lent to blocks of the program it is the spare one, because a block that makes a call
        does not end before it. `may_wait`: it waits in any case.
        """
        began = time.monotonic()
        while True:
            pool = self._spare if len(self._lent) >= self._most and not may_wait else self._pool
            left = began + self.settings.pool_timeout - time.monotonic()
            try:
                if pool.closed:
                    await self._open_pool(pool)
                with time_limit(self.settings.call_timeout):
                    conn = await pool.getconn(timeout=min(_SLICE, max(left, 0.01)))
                conn.home = pool
                return conn
            except psycopg_pool.PoolClosed:
                raise ConnectionFailed("this client is closed") from None
            except psycopg_pool.PoolTimeout:
                if is_stopping() and (refusal := await self._refusal()):
                    raise BrokerAway(f"no connection to {describe(self.dsn)}: {refusal}") from None
                if time.monotonic() >= began + self.settings.pool_timeout:
                    raise ConnectionFailed(
                        f"no connection to {describe(self.dsn)} within {self.settings.pool_timeout:g} s: "
                        f"{await self._refusal() or 'all connections of this client are in use'}"
                    ) from None

    async def _open_pool(self, pool: Pool) -> None:
        if self._closed:
            raise ConnectionFailed("this client is closed")
        await pool.open()

    async def _refusal(self) -> str | None:
        """Why the server gives no connection. None: it does. The pool's time-out does not tell."""
        options = connect_options(self.dsn, self.settings) | {"connect_timeout": round(_SLICE)}
        try:
            conn = await BrokerConnection.connect(self.dsn, **options)
        except psycopg.Error as error:
            return str(translate(error))
        await conn.close()
        return None

    async def _give_back(self, conn: BrokerConnection) -> None:
        if conn.doubtful or conn.is_changed():
            await self._look_at(conn)
        else:
            await conn.home.putconn(conn)

    async def _look_at(self, conn: BrokerConnection) -> None:
        """Give back a connection that the program has used, or with which something went wrong.

        It is lent again only if its session is as it was at first.
        """
        if conn.inherited:
            return
        if conn.spoiled == READ_ONLY:
            self._read_only_at = time.monotonic()
        try:
            if not conn.is_usable() or await self._is_left_over(conn):
                await conn.close()
            conn.doubtful = False
        except BaseException as error:
            await conn.close()
            if not isinstance(error, psycopg.Error):
                raise
        finally:
            await conn.home.putconn(conn)

    async def _is_left_over(self, conn: BrokerConnection) -> bool:
        """Reset the session. Whether something is left of the program's work, or the server only reads."""
        with time_limit(self.settings.call_timeout):
            cursor = await conn.calls.execute(RESET, prepare=False)
            return await cursor.fetchone() is not None or reads_only(conn)

    async def _rows(
        self, statement: Statement, values: Mapping[str, Any], conn: Caller | None = None, *, repeat: bool = False
    ) -> list[Sequence[Any]]:
        """Run one statement, in the caller's transaction or at once on a pooled connection.

        `repeat` says that the statement does no harm when it runs twice. Where the connection is
        lost after the statement was sent, such a statement is repeated. What has no answer in the
        end raises OutcomeUnknown, or ConnectionFailed if it only reads.
        """
        seconds = self._seconds(statement)
        if conn is not None:
            with time_limit(seconds):
                try:
                    await self._same_broker.require(conn)
                except InvalidArgument:
                    # A copy that is adopted gets another id, perhaps after this client asked for it.
                    await self._verify()
                    await self._same_broker.require(conn, again=True)
                return await rows_in(conn, statement, values)
        try:
            try:
                return await self._once(statement, values, seconds)
            except OutcomeUnknown:
                if not repeat:
                    raise
            return await self._again(statement, values, seconds)
        except OutcomeUnknown as error:
            if not statement.reads:
                raise
            raise ConnectionFailed(str(error).removeprefix("outcome unknown, ")) from error.__cause__

    def _seconds(self, statement: Statement) -> float | None:
        """How long the server may be silent."""
        seconds = self.settings.call_timeout
        return seconds * _LONG if seconds is not None and statement.long else seconds

    async def _once(
        self, statement: Statement, values: Mapping[str, Any], seconds: float | None
    ) -> list[Sequence[Any]]:
        before = cancellations()
        conn = await self._take()
        try:
            with time_limit(seconds):
                rows: list[Sequence[Any]] = await (await conn.calls.execute(statement.query, values)).fetchall()
                if len(rows) > _MOST_ROWS:
                    del conn.calls
                return rows
        except BaseException as error:
            conn.blame(error)
            raise_cancellation(before)
            if not isinstance(error, (psycopg.Error, *REFUSALS)):
                raise
            known = failure(error, values)
            if isinstance(known, ConnectionFailed):
                known = OutcomeUnknown(f"outcome unknown, connection to {describe(self.dsn)} lost: {known}")
            raise known from error
        finally:
            await self._give_back(conn)

    async def _again(
        self, statement: Statement, values: Mapping[str, Any], seconds: float | None
    ) -> list[Sequence[Any]]:
        """Repeat after a lost connection until the server is back, for `retry_timeout` at most."""
        timeout = self.settings.retry_timeout
        retrying = stamina.retry_context(
            on=lambda error: isinstance(error, ConnectionFailed) and not isinstance(error, BrokerAway),
            attempts=None if timeout else 1,
            timeout=timeout or None,
            wait_initial=0.05,
            wait_max=1.0,
            wait_jitter=0.2,
        )
        deadline = time.monotonic() + timeout
        rows: list[Sequence[Any]] = []
        async for attempt in retrying:
            with attempt:
                if seconds is not None and not statement.long:
                    seconds = min(seconds, max(deadline - time.monotonic(), 1.0))
                try:
                    rows = await self._once(statement, values, seconds)
                except SpentReceipt:
                    # The first attempt did arrive, so nothing of the delivery is left.
                    return []
        return rows


async def _read_info(conn: PgConnection, seconds: float | None) -> BrokerInfo:
    installed = None
    try:
        with time_limit(seconds):
            if is_there(await (await conn.execute(FIND.encode())).fetchone()):
                found = await (await conn.execute(READ.encode())).fetchone()
                installed = None if found is None else Installed(*found)
        require_compatible(installed, packaged())
    except Error as error:
        raise type(error)(f"{error} ({describe(conn.info.dsn)})") from None
    assert installed is not None
    with time_limit(seconds):
        cursor = await conn.execute(_BROKER.query)
    row = await cursor.fetchone()
    assert row is not None  # the migration inserts it
    return BrokerInfo(row[0], row[1], installed.release)
