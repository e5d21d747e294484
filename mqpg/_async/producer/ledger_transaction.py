"""A transaction with rows of a ledger: how it begins, how it commits, and whether a rollback has undone it."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol

from sqlalchemy.exc import SQLAlchemyError

from mqpg._async._acompat import Connection, DriverConnection, Session, driver_connection, forgotten_awaits
from mqpg._async.client.execute import is_rolled_back
from mqpg._async.stores.database import UserDatabase
from mqpg._async.stores.durability import checked_commit, is_still
from mqpg.connection.forking import abandon
from mqpg.user_tables.drivers import has_failed, in_transaction, is_answer, is_autocommit, will_autocommit
from mqpg.values.errors import Error, LedgerError, OutcomeUnknown, WrongState
from mqpg.values.messages import Json

__all__ = ["LedgerTransaction", "LocalLedger", "abandon_local", "commit_local", "release_local"]

logger = logging.getLogger("mqpg")


class LocalLedger(Protocol):
    """What records that a local transaction has committed: a ledger, or the row of an outbox."""

    database: UserDatabase

    async def verify(self) -> None: ...
    async def identity(self) -> str: ...
    async def begin(self, conn: Connection, handle: str, topic: str | None = None) -> str | None: ...
    async def surviving_rows(self, conn: Connection, handles: Sequence[str]) -> dict[str, Json | None]: ...
    async def set_payload(self, conn: Connection, handle: str, payload: str) -> None: ...


class LedgerTransaction:
    """A local transaction that commits if and only if the rows of its half messages do.

    Its subclass is what the block of `transaction()` works with.
    """

    def __init__(self, ledger: LocalLedger, handle: str, owner: Connection | Session, *, lent: bool) -> None:
        self.handle = handle
        self.handles = [handle]
        self.connection: Connection
        self.open = True
        self.committed = False
        self._ledger = ledger
        self._final_payloads: dict[str, Json] = {}
        self._taken_back: list[str] = []
        # What commits and rolls back: the session if there is one, else the connection.
        self._owner = owner
        self._lent = lent
        self._transaction: Any = None
        self._xid: str | None = None  # the id of the transaction in PostgreSQL
        self._in_doubt = False
        self._calls: list[Any] = []
        self._pid = os.getpid()

    async def _begin(self, topic: str) -> None:
        """Begin, and write the ledger row. Raises Fenced, LedgerError, WrongState."""
        await self._owner.begin()
        self.connection = await self._current()
        driver = await driver_connection(self.connection)
        _refuse_pipeline(driver)
        nearest: Any = getattr(self.connection, "sync_connection", self.connection)
        mode = getattr(nearest.connection.dbapi_connection, "autocommit", None)
        autocommits = will_autocommit(mode, driver)  # the row would be committed before its business
        if not autocommits:
            self._xid = await self._ledger.begin(self.connection, self.handle, topic)
        if autocommits or is_autocommit(driver):
            raise LedgerError(f"the engine of {self._ledger.database.describe()} must not be in autocommit mode")
        self._transaction = self._find_transaction()

    async def _commit(self) -> None:
        if forgotten := forgotten_awaits(self._calls):
            names = ", ".join(f"tx.{name}()" for name in forgotten)
            raise WrongState(f"{names} had no await, so it did nothing: the transaction is rolled back")
        if not isinstance(self._owner, Connection):
            await self._owner.flush()
        conn = await self._current()
        driver = await driver_connection(conn)
        _refuse_pipeline(driver)
        if has_failed(driver):
            raise WrongState("the local transaction had failed before its commit, and was rolled back")
        look = partial(self._require_ledger_rows, conn)
        # If the block has ended the transaction, and nothing has begun another one, SQLAlchemy sends no COMMIT.
        asks = isinstance(driver, DriverConnection) and conn.in_transaction() and not self._two_phases
        xid = self._xid if asks else None
        if xid is None:
            await look()
        elif not self._has_one_row:
            await self._find_ledger_rows(conn)
        self._in_doubt = True
        try:
            with nullcontext() if xid is None else checked_commit(driver, xid, look):
                await self._owner.commit()
        except Exception as error:
            self._in_doubt = not isinstance(error, WrongState) and not is_answer(error)
            if self._in_doubt:
                raise OutcomeUnknown(
                    f"outcome unknown: connection to {self._ledger.database.describe()} lost during the local commit; "
                    f"the half message follows what the ledger says ({self.handle})"
                ) from error
            raise
        self.open, self.committed = False, True

    async def _abandon(self) -> bool:
        self.open = False
        certain = not self._in_doubt and (self._xid is not None or self._is_untouched())
        try:
            await self._owner.rollback()
        except SQLAlchemyError as error:
            # The connection is gone, and the transaction with it, unless the block had sent COMMIT.
            logger.info("local rollback of %s: %s", self.handle, error)
            certain = certain and self._xid is not None
        return certain and await self._is_undone()

    @property
    def _has_one_row(self) -> bool:
        """Whether the transaction has only inserted one ledger row, before any savepoint."""
        return len(self.handles) == 1 and not self._final_payloads

    async def _require_ledger_rows(self, conn: Connection) -> None:
        """Look for the ledger rows, but for a single one in a transaction of PostgreSQL that is still the same."""
        if self._xid is None or not await is_still(conn, self._xid) or not self._has_one_row:
            await self._find_ledger_rows(conn)

    async def _find_ledger_rows(self, conn: Connection) -> None:
        """Make sure that the messages to send are those that the local COMMIT commits.

        Raises WrongState if the transaction no longer has a ledger row. The block or the database may have
        ended it, and savepoints take rows and payloads back: the ledger shows all of that.
        """
        surviving = await self._ledger.surviving_rows(conn, self.handles)
        if self.handle not in surviving:
            raise WrongState("the local transaction was rolled back before its commit: it has no ledger row")
        self._taken_back = [handle for handle in self.handles if handle not in surviving]
        self.handles = [handle for handle in self.handles if handle in surviving]
        self._final_payloads = {handle: payload for handle, payload in surviving.items() if payload is not None}

    async def _is_undone(self) -> bool:
        """Whether the rollback took the ledger row away.

        It does not if the block sent COMMIT or PREPARE TRANSACTION itself, or DDL did.
        """
        try:
            conn = await self._current()
            driver = await driver_connection(conn)
            # SQLite refused a COMMIT, and SQLAlchemy assumes that the transaction has ended.
            if in_transaction(driver) and not self._two_phases:
                await driver.rollback()
            if self._xid is not None:
                undone = await is_rolled_back(conn, self._xid)
            else:
                undone = not await self._ledger.surviving_rows(conn, [self.handle])
            await self._owner.rollback()
        except (SQLAlchemyError, Error) as error:
            logger.warning(
                "%s: the rollback is not reported to the broker, because the ledger cannot be read: %s",
                self.handle,
                error,
            )
            return False
        if not undone:
            logger.warning(
                "%s: no rollback is reported to the broker, because the block had committed before or still may",
                self.handle,
            )
        return undone

    async def _current(self) -> Connection:
        return self._owner if isinstance(self._owner, Connection) else await self._owner.connection()

    @property
    def _two_phases(self) -> bool:
        """Whether a session commits in two phases, which the driver's own calls must not meet."""
        return bool(getattr(getattr(self._owner, "sync_session", self._owner), "twophase", False))

    def _is_untouched(self) -> bool:
        """Whether the block left the transaction alone, and did not begin another one."""
        return self._transaction is not None and self._find_transaction() is self._transaction

    def _find_transaction(self) -> Any:
        """The transaction in force.

        Before SQLAlchemy 2.0.40 `AsyncSession.get_transaction()` raises NotImplementedError.
        """
        return getattr(self._owner, "sync_session", self._owner).get_transaction()


async def commit_local(tx: LedgerTransaction) -> None:
    """End step 2: one commit for the ledger row and the business change.

    Raises OutcomeUnknown if the connection was lost meanwhile, and WrongState if the
    transaction had been rolled back before.
    """
    if tx._pid != os.getpid():
        raise WrongState("the local transaction was begun before fork(), and belongs to the parent process")
    await tx._commit()


async def abandon_local(tx: LedgerTransaction) -> bool:
    """Roll back what is open. False if it is not certain that nothing of it was committed."""
    return await tx._abandon() if tx.open and tx._pid == os.getpid() else False


async def release_local(tx: LedgerTransaction) -> None:
    """Give the connection back, unless the caller lent it."""
    if tx._pid != os.getpid():
        abandon(tx._owner)
    elif not tx._lent:
        await tx._owner.close()


def _refuse_pipeline(driver: Any) -> None:
    if getattr(getattr(driver, "pgconn", None), "pipeline_status", 0):  # SQLAlchemy reads no rows in it
        raise WrongState("the local transaction is in pipeline mode of psycopg: leave conn.pipeline() before it ends")
