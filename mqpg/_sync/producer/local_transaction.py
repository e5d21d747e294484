# Generated from mqpg/_async/producer/local_transaction.py by tools/async_to_sync.py: change that file.
"""The local transaction of protocol T2, step 2: ledger row, business change, one commit."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol

from sqlalchemy import Executable, Result
from sqlalchemy.exc import SQLAlchemyError

from mqpg._sync._acompat import (
    Connection,
    DriverConnection,
    Session,
    driver_connection,
    forgotten_awaits,
    must_await,
)
from mqpg._sync.client.client import Client
from mqpg._sync.client.execute import is_rolled_back
from mqpg._sync.producer.callers import LocalCaller, require_idle
from mqpg._sync.producer.prepare_and_decide import identity_at, prepare_half, rollback_half, rollback_halves
from mqpg._sync.stores.database import UserDatabase
from mqpg._sync.stores.durability import checked_commit, is_still
from mqpg._sync.stores.ledger_messages import LedgerMessages
from mqpg.user_tables.drivers import has_failed, in_transaction, is_answer, is_autocommit
from mqpg.values.arguments import encode
from mqpg.values.draft import Draft, drafts_of
from mqpg.values.errors import Error, InvalidArgument, LedgerError, OutcomeUnknown, UnknownHandle, WrongState, shown
from mqpg.values.messages import Interval, Json, Outcome

__all__ = [
    "LocalLedger",
    "LocalTransaction",
    "abandon_local",
    "begin_local",
    "commit_local",
    "release_local",
    "report_rollback",
]

logger = logging.getLogger("mqpg")


class LocalLedger(Protocol):
    """What records that a local transaction has committed: a ledger, or the row of an outbox."""

    database: UserDatabase

    def verify(self) -> None: ...
    def identity(self) -> str: ...
    def begin(self, conn: Connection, handle: str, topic: str | None = None) -> str | None: ...
    def surviving_rows(self, conn: Connection, handles: Sequence[str]) -> dict[str, Json | None]: ...
    def set_payload(self, conn: Connection, handle: str, payload: str) -> None: ...


class LocalTransaction:
    """What the block of `transaction()` works with.

    Attributes:
        handle: Names the first half message.
        handles: That handle and those of `add`, without those that a savepoint took back.
        mq: The broker that the transaction is pinned to.
        connection: The SQLAlchemy connection, in the transaction.
        open: Whether the transaction has neither committed nor rolled back.
        committed: Whether the local commit has succeeded.
        outcome: After the block, what the decision came to. None if the broker does not know it
            yet.
    """

    def __init__(
        self,
        mq: Client,
        ledger: LocalLedger,
        handle: str,
        owner: Connection | Session,
        *,
        lent: bool,
        group: str | None,
    ) -> None:
        self.handle = handle
        self.handles = [handle]
        self.mq = mq
        self.connection: Connection
        self.open = True
        self.committed = False
        self.outcome: Outcome | None = None
        self._ledger = ledger
        # Whose half messages `add` prepares. None if the producer sends one message with each
        # transaction.
        self._group = group
        # Where messages are kept beside the ledger rows. None: nowhere.
        self._messages: LedgerMessages | None = None
        self._topics: dict[str, str] = {}
        self._final_payloads: dict[str, Json] = {}
        self._taken_back: list[str] = []
        # What commits and rolls back: the session if there is one, else the connection.
        self._owner = owner
        self._lent = lent
        self._transaction: Any = None
        self._xid: str | None = None  # the id of the transaction in PostgreSQL
        self._in_doubt = False
        self._calls: list[Any] = []

    @must_await
    def execute(self, statement: Executable, parameters: Any = None) -> Result[Any]:
        """Execute a statement in the local transaction.

        Args:
            statement: A SQLAlchemy statement, such as `insert(…)` or `text(…)`.
            parameters: Its parameters: a dictionary, or a list of them. None: none.

        Returns:
            SQLAlchemy's result.

        Raises:
            WrongState: The transaction has ended.
        """
        self._require_open()
        return self.connection.execute(statement, parameters)

    @property
    def final_payload(self) -> Json | None:
        """What replaces the prepared payload of the first half message. None: nothing does."""
        return self._final_payloads.get(self.handle)

    @must_await
    def commit_payload(self, payload: Any, handle: str | None = None) -> None:
        """Send this payload instead of the prepared one. The ledger keeps it until it is sent.

        A savepoint that is rolled back takes it back.

        Args:
            payload: Any object that JSON can hold, or mqpg.Json.
            handle: The half message, one of `handles`. None: the first one.

        Raises:
            InvalidArgument: The payload is None or not JSON.
            UnknownHandle: The handle is not one of this transaction.
            PayloadTooLarge: The payload is larger than the topic allows.
            WrongState: The transaction has ended.
        """
        self._require_open()
        chosen, text = handle or self.handle, encode(payload)
        if text is None:
            raise InvalidArgument("payload must not be None")
        if chosen not in self.handles:
            raise UnknownHandle(f"{shown(chosen)} is no half message of this transaction")
        # If the broker refused it after the local commit, the message could never be sent.
        self.mq.queries.require_fits(self._topics[chosen], text)
        self._ledger.set_payload(self.connection, chosen, text)
        self._final_payloads[chosen] = Json(text)

    @must_await
    def add(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        tag: str | None = None,
        headers: Any = None,
        delay: Interval | None = None,
    ) -> str:
        """Send one more message with this transaction, of any topic of the same broker.

        Consumers receive all messages of the transaction or none. A message that was added within a
        savepoint is rolled back with it.

        Args:
            topic: The topic's name.
            payload: Any object that JSON can hold, or mqpg.Json.
            key: Messages with the same key keep their order. None: no key.
            tag: A word that subscriptions may choose messages by. None: no tag.
            headers: Any object that JSON can hold. None: none.
            delay: How long after the commit the message becomes visible. None: at once.

        Returns:
            The handle of its half message.

        Raises:
            Fenced: A check-back has already ruled that this message rolls back.
            WrongState: The transaction has ended, or its producer sends one message with each
                transaction.
            UnknownTopic: There is no such topic.
            ConnectionFailed: The broker does not answer.
        """
        group = self._require_group()
        # Durable before its ledger row is written, like the first one.
        draft = Draft(topic, payload, key, tag, headers, delay)
        handle = prepare_half(self.mq, group, draft, ledger=self._ledger)
        self.handles.append(handle)
        self._topics[handle] = topic
        self._ledger.begin(self.connection, handle, topic)
        if self._messages is not None:
            self._messages.store(self.connection, group, {handle: draft})
        return handle

    @must_await
    def add_batch(
        self,
        topic: str,
        payloads: Sequence[Any],
        *,
        keys: Sequence[str | None] | None = None,
        tags: Sequence[str | None] | None = None,
        headers: Sequence[Any] | None = None,
        delay: Interval | None = None,
    ) -> list[str]:
        """Send many more messages of one topic with this transaction, as `add` does for one.

        Args:
            topic: The topic's name.
            payloads: The payloads.
            keys: One key or None for each payload. None: no message has a key.
            tags: One tag or None for each payload. None: no message has a tag.
            headers: One object or None for each payload. None: no message has headers.
            delay: How long after the commit the messages become visible. None: at once.

        Returns:
            The handles in the order of `payloads`.

        Raises:
            Fenced: A check-back has already ruled that one of them rolls back.
            WrongState: The transaction has ended, or its producer sends one message with each
                transaction.
            UnknownTopic: There is no such topic.
            ConnectionFailed: The broker does not answer.
        """
        group = self._require_group()
        handles = self.mq.prepare_batch(
            topic,
            payloads,
            group,
            keys=keys,
            tags=tags,
            headers=headers,
            delay=delay,
            ledger=identity_at(self.mq, group, self._ledger),
        )
        self.handles += handles
        self._topics |= dict.fromkeys(handles, topic)
        for handle in handles:
            self._ledger.begin(self.connection, handle, topic)
        if self._messages is not None and handles:
            drafts = drafts_of(topic, payloads, keys, tags, headers, delay)
            self._messages.store(self.connection, group, dict(zip(handles, drafts, strict=True)))
        return handles

    @must_await
    def rollback(self) -> None:
        """End the transaction here: nothing happens in the local database, and nothing is sent.

        Raises:
            WrongState: The transaction has ended.
        """
        self._require_open()
        if abandon_local(self):
            report_rollback(self)

    def _store_message(self, messages: LedgerMessages, draft: Draft) -> None:
        """Keep the first message with its ledger row, and later those of `add`."""
        self._messages = messages
        messages.store(self.connection, self._require_group(), {self.handle: draft})

    def _begin(self, topic: str) -> None:
        """Begin, and write the ledger row. Raises Fenced, LedgerError."""
        self._topics[self.handle] = topic
        self._owner.begin()
        self.connection = self._current()
        self._xid = self._ledger.begin(self.connection, self.handle, topic)
        if is_autocommit(driver_connection(self.connection)):
            raise LedgerError(f"the engine of {self._ledger.database.describe()} must not be in autocommit mode")
        self._transaction = self._find_transaction()

    def _commit(self) -> None:
        if forgotten := forgotten_awaits(self._calls):
            names = ", ".join(f"tx.{name}()" for name in forgotten)
            raise WrongState(f"{names} had no await, so it did nothing: the transaction is rolled back")
        if not isinstance(self._owner, Connection):
            self._owner.flush()
        conn = self._current()
        driver = driver_connection(conn)
        if has_failed(driver):
            raise WrongState("the local transaction had failed before its commit, and was rolled back")
        look = partial(self._require_ledger_rows, conn)
        # If the block has ended the transaction, and nothing has begun another one, SQLAlchemy sends no COMMIT.
        asks = isinstance(driver, DriverConnection) and conn.in_transaction() and not self._two_phases
        xid = self._xid if asks else None
        if xid is None:
            look()
        elif not self._has_one_row:
            self._find_ledger_rows(conn)
        self._in_doubt = True
        try:
            with nullcontext() if xid is None else checked_commit(driver, xid, look):
                self._owner.commit()
        except Exception as error:
            self._in_doubt = not isinstance(error, WrongState) and not is_answer(error)
            if self._in_doubt:
                raise OutcomeUnknown(
                    f"outcome unknown: connection to {self._ledger.database.describe()} lost during the local commit; "
                    f"the half message follows what the ledger says ({self.handle})"
                ) from error
            raise
        self.open, self.committed = False, True

    def _abandon(self) -> bool:
        self.open = False
        certain = not self._in_doubt and (self._xid is not None or self._is_untouched())
        try:
            self._owner.rollback()
        except SQLAlchemyError as error:
            # The connection is gone, and the transaction with it, unless the block had sent COMMIT.
            logger.info("local rollback of %s: %s", self.handle, error)
            certain = certain and self._xid is not None
        return certain and self._is_undone()

    @property
    def _has_one_row(self) -> bool:
        """Whether the transaction has only inserted one ledger row, before any savepoint."""
        return len(self.handles) == 1 and not self._final_payloads

    def _require_ledger_rows(self, conn: Connection) -> None:
        """Look for the ledger rows, but for a single one in a transaction of PostgreSQL that is still the same."""
        if self._xid is None or not is_still(conn, self._xid) or not self._has_one_row:
            self._find_ledger_rows(conn)

    def _find_ledger_rows(self, conn: Connection) -> None:
        """Make sure that the messages to send are those that the local COMMIT commits.

        Raises WrongState if the transaction no longer has a ledger row. The block or the database may have
        ended it, and savepoints take rows and payloads back: the ledger shows all of that.
        """
        surviving = self._ledger.surviving_rows(conn, self.handles)
        if self.handle not in surviving:
            raise WrongState("the local transaction was rolled back before its commit: it has no ledger row")
        self._taken_back = [handle for handle in self.handles if handle not in surviving]
        self.handles = [handle for handle in self.handles if handle in surviving]
        self._final_payloads = {handle: payload for handle, payload in surviving.items() if payload is not None}

    def _is_undone(self) -> bool:
        """Whether the rollback took the ledger row away.

        It does not if the block sent COMMIT or PREPARE TRANSACTION itself, or DDL did.
        """
        try:
            conn = self._current()
            driver = driver_connection(conn)
            # SQLite refused a COMMIT, and SQLAlchemy assumes that the transaction has ended.
            if in_transaction(driver) and not self._two_phases:
                driver.rollback()
            if self._xid is not None:
                undone = is_rolled_back(conn, self._xid)
            else:
                undone = not self._ledger.surviving_rows(conn, [self.handle])
            self._owner.rollback()
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

    def _current(self) -> Connection:
        return self._owner if isinstance(self._owner, Connection) else self._owner.connection()

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

    def _require_open(self) -> None:
        if not self.open:
            raise WrongState("this local transaction has ended")

    def _require_group(self) -> str:
        self._require_open()
        if self._group is None:
            raise WrongState("this producer sends one message with each transaction")
        return self._group


def begin_local(
    mq: Client, ledger: LocalLedger, handle: str, topic: str, conn: LocalCaller | None, group: str | None = None
) -> LocalTransaction:
    """Begin step 2: a transaction whose first statement writes the ledger row.

    Raises Fenced, LedgerError.
    """
    ledger.verify()
    owner = ledger.database.open() if conn is None else require_idle(conn)
    tx = LocalTransaction(mq, ledger, handle, owner, lent=conn is not None, group=group)
    try:
        tx._begin(topic)
    except BaseException as error:
        abandon_local(tx)
        release_local(tx)
        if isinstance(error, ledger.database.errors):
            raise ledger.database.failure(error) from error
        raise
    return tx


def commit_local(tx: LocalTransaction) -> None:
    """End step 2: one commit for the ledger row and the business change.

    Raises OutcomeUnknown if the connection was lost meanwhile, and WrongState if the
    transaction had been rolled back before.
    """
    tx._commit()


def abandon_local(tx: LocalTransaction) -> bool:
    """Roll back what is open. False if it is not certain that nothing of it was committed."""
    return tx._abandon() if tx.open else False


def release_local(tx: LocalTransaction) -> None:
    """Give the connection back, unless the caller lent it."""
    if not tx._lent:
        tx._owner.close()


def report_rollback(tx: LocalTransaction) -> None:
    """Step 3 after a local rollback that is certain."""
    tx.outcome = rollback_half(tx.mq, tx.handle)
    if others := tx.handles[1:] + tx._taken_back:
        rollback_halves(tx.mq, others)
