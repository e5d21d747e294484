"""The local transaction of protocol T2, step 2: ledger row first, then the business, one commit."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy import Executable, Result
from sqlalchemy.exc import SQLAlchemyError

from mqpg._async._io import Connection, ScopedSession, Session, driver_connection
from mqpg._async.client import AsyncClient
from mqpg._async.decisions import prepare_half, rollback_half, rollback_halves
from mqpg._async.local import LocalDatabase
from mqpg._dialects import has_failed, in_transaction, is_answer, is_autocommit
from mqpg.errors import InvalidArgument, LedgerError, OutcomeUnknown, UnknownHandle, WrongState
from mqpg.message import Interval, Json, Outcome, encode

__all__ = ["LocalCaller", "LocalLedger", "LocalTransaction", "begin_local", "commit_local"]

logger = logging.getLogger("mqpg")

LocalCaller = Connection | Session | ScopedSession[Any]


class LocalLedger(Protocol):
    """What notes, in the local transaction, that its messages are to be committed: a ledger, or an outbox."""

    database: LocalDatabase

    async def verified(self) -> None: ...
    async def begin(self, conn: Connection, handle: str, topic: str | None = None) -> None: ...
    async def kept(self, conn: Connection, handles: Sequence[str]) -> dict[str, Json | None]: ...
    async def set_payload(self, conn: Connection, handle: str, payload: str) -> None: ...


class LocalTransaction:
    """What the block of `transaction()` works with.

    `handle` names the half message (`handles`: that and what `add` added, but for what a savepoint took back);
    `connection` is the SQLAlchemy connection, in the transaction; `mq` the broker that the transaction is pinned to;
    `outcome` tells after the block what the decision came to (None: the broker does not know yet).
    """

    def __init__(
        self, mq: AsyncClient, ledger: LocalLedger, handle: str, owner: Connection | Session, lent: bool
    ) -> None:
        self.handle = handle
        self.handles = [handle]
        self.taken_back: list[str] = []
        self._topics: dict[str, str] = {}
        self.group: str | None = None
        self.mq = mq
        self.connection: Connection
        self.outcome: Outcome | None = None
        self.final_payloads: dict[str, Json] = {}
        self.open = True
        self.committed = False
        self._ledger = ledger
        # What commits and rolls back: the session where there is one, else the connection.
        self._owner = owner
        self._lent = lent
        self._transaction: Any = None
        self._in_doubt = False

    async def execute(self, statement: Executable, parameters: Any = None) -> Result[Any]:
        """Execute a statement in the local transaction."""
        self._require_open()
        return await self.connection.execute(statement, parameters)

    @property
    def final_payload(self) -> Json | None:
        """What replaces the prepared payload of the first half message."""
        return self.final_payloads.get(self.handle)

    async def commit_payload(self, payload: Any, handle: str | None = None) -> None:
        """Send this payload instead of the prepared one; kept in the ledger until it is sent.

        Of the first half message, or of the one that `handle` names. A savepoint that is rolled back takes it back.
        Raises UnknownHandle for any other, and PayloadTooLarge.
        """
        self._require_open()
        chosen, text = handle or self.handle, encode(payload)
        if text is None:
            raise InvalidArgument("payload must not be None")
        if chosen not in self.handles:
            raise UnknownHandle(f"{chosen!r} is no half message of this transaction")
        # Refused after the local commit, the message could never be sent.
        await self.mq._require_fits(self._topics[chosen], text)
        await self._ledger.set_payload(self.connection, chosen, text)
        self.final_payloads[chosen] = Json(text)

    async def add(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        tag: str | None = None,
        headers: Any = None,
        delay: Interval | None = None,
    ) -> str:
        """Send one more message with this transaction, of any topic of the same broker; returns its handle.

        Consumers get all messages of the transaction or none; one that was added within a savepoint is rolled back
        with it. Raises what `prepare` raises, and Fenced.
        """
        self._require_open()
        if self.group is None:
            raise WrongState("this producer sends one message with each transaction")
        # Durable before its ledger row is written, like the first one.
        handle = await prepare_half(self.mq, self.group, topic, payload, key, tag, headers, delay)
        self.handles.append(handle)
        self._topics[handle] = topic
        await self._ledger.begin(self.connection, handle, topic)
        return handle

    async def add_batch(
        self,
        topic: str,
        payloads: Sequence[Any],
        *,
        keys: Sequence[str | None] | None = None,
        tags: Sequence[str | None] | None = None,
        headers: Sequence[Any] | None = None,
        delay: Interval | None = None,
    ) -> list[str]:
        """`add` for many messages of one topic, stored together; returns their handles in argument order."""
        self._require_open()
        if self.group is None:
            raise WrongState("this producer sends one message with each transaction")
        handles = await self.mq.prepare_batch(
            topic, payloads, self.group, keys=keys, tags=tags, headers=headers, delay=delay
        )
        self.handles += handles
        self._topics |= dict.fromkeys(handles, topic)
        for handle in handles:
            await self._ledger.begin(self.connection, handle, topic)
        return handles

    async def rollback(self) -> None:
        """End the transaction here: nothing happens in the local database, nothing is sent."""
        self._require_open()
        if await self.abandon():
            await self.tell_rolled_back()

    async def tell_rolled_back(self) -> None:
        """Step 3 after a local rollback that is certain."""
        self.outcome = await rollback_half(self.mq, self.handle)
        if others := self.handles[1:] + self.taken_back:
            await rollback_halves(self.mq, others)

    async def begin(self, topic: str) -> None:
        """Begin, and write the ledger row. Raises Fenced, LedgerError."""
        self._topics[self.handle] = topic
        await self._owner.begin()
        self.connection = await self._current()
        await self._ledger.begin(self.connection, self.handle, topic)
        if is_autocommit(await driver_connection(self.connection)):
            raise LedgerError(f"the engine of {self._ledger.database.describe()} is in autocommit mode: use another")
        self._transaction = self._owner.get_transaction()

    async def commit(self) -> None:
        """Commit what the block did. Raises OutcomeUnknown when the connection was lost meanwhile."""
        if not isinstance(self._owner, Connection):
            await self._owner.flush()
        await self._require_ledger()
        self._in_doubt = True
        try:
            await self._owner.commit()
        except Exception as error:
            self._in_doubt = not is_answer(error)
            if self._in_doubt:
                raise OutcomeUnknown(
                    f"outcome unknown: connection to {self._ledger.database.describe()} lost during the local commit; "
                    f"the half message follows what the ledger says ({self.handle})"
                ) from error
            raise
        self.open, self.committed = False, True

    async def abandon(self) -> bool:
        """Roll back what is open; False when it is not certain that nothing of it was committed."""
        if not self.open:
            return False
        self.open = False
        certain = not self._in_doubt and self._is_untouched()
        try:
            await self._owner.rollback()
        except SQLAlchemyError as error:
            # The connection is gone, and the transaction with it.
            logger.info("local rollback of %s: %s", self.handle, error)
            return certain
        return certain and await self._is_undone()

    async def release(self) -> None:
        """Give an own connection back."""
        if not self._lent:
            await self._owner.close()

    async def _require_ledger(self) -> None:
        """See to it that what is sent is what COMMIT commits. Raises WrongState where that has no ledger row.

        A failed PostgreSQL transaction whose error was swallowed turns COMMIT into a silent rollback, other
        databases may have rolled back on their own, and savepoints take rows and payloads back: the ledger tells.
        One row that was only inserted needs no look, where the driver knows that its transaction goes on.
        """
        if self._is_untouched():
            driver = await driver_connection(self.connection)
            if has_failed(driver):
                raise WrongState("the local transaction had failed before its commit, and was rolled back")
            if len(self.handles) == 1 and not self.final_payloads and in_transaction(driver):
                return
        kept = await self._ledger.kept(await self._current(), self.handles)
        if self.handle not in kept:
            raise WrongState("the local transaction was rolled back before its commit: it has no ledger row")
        self.taken_back = [handle for handle in self.handles if handle not in kept]
        self.handles = [handle for handle in self.handles if handle in kept]
        self.final_payloads = {handle: payload for handle, payload in kept.items() if payload is not None}

    async def _is_undone(self) -> bool:
        """Whether the rollback took the ledger row away: not where the block said COMMIT, or DDL did."""
        try:
            conn = await self._current()
            driver = await driver_connection(conn)
            if in_transaction(driver):  # a COMMIT that SQLite refused: SQLAlchemy takes it for the end
                await driver.rollback()
            kept = await self._ledger.kept(conn, [self.handle])
            await self._owner.rollback()
        except SQLAlchemyError as error:
            logger.warning("%s: broker not told of the rollback, the ledger cannot be read: %s", self.handle, error)
            return False
        if kept:
            logger.error("%s: broker not told of a rollback, the block had committed before", self.handle)
        return not kept

    async def _current(self) -> Connection:
        return self._owner if isinstance(self._owner, Connection) else await self._owner.connection()

    def _is_untouched(self) -> bool:
        """Whether the block left the transaction alone, rather than ending it and beginning another."""
        return self._transaction is not None and self._owner.get_transaction() is self._transaction

    def _require_open(self) -> None:
        if not self.open:
            raise WrongState("this local transaction has ended")


async def begin_local(
    mq: AsyncClient, ledger: LocalLedger, handle: str, topic: str, conn: LocalCaller | None
) -> LocalTransaction:
    """Step 2 begins: a transaction with the ledger row as its first statement."""
    try:
        await ledger.verified()
        owner = await ledger.database.engine.connect() if conn is None else _idle(conn)
    except SQLAlchemyError as error:
        raise ledger.database.failure(error) from error
    tx = LocalTransaction(mq, ledger, handle, owner, lent=conn is not None)
    try:
        await tx.begin(topic)
    except BaseException as error:
        await tx.abandon()
        await tx.release()
        if isinstance(error, SQLAlchemyError):
            raise ledger.database.failure(error) from error
        raise
    return tx


async def commit_local(tx: LocalTransaction) -> None:
    """Step 2 ends: one commit for the ledger row and the business."""
    await tx.commit()


def _idle(conn: LocalCaller) -> Connection | Session:
    if isinstance(conn, ScopedSession):
        conn = conn()
    if not isinstance(conn, (Connection, Session)):
        raise InvalidArgument(f"conn must be a SQLAlchemy Connection or Session, not {type(conn).__name__}")
    if conn.in_transaction():
        raise InvalidArgument(
            "conn is in a transaction: the ledger row must be the first statement, after the half message is stored"
        )
    return conn
