# Generated from mqpg/_async/producer/local_transaction.py by tools/async_to_sync.py: change that file.
"""The local transaction of protocol T2, step 2: ledger row, business change, one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Executable, Result

from mqpg._sync._acompat import Connection, Session, must_await
from mqpg._sync.client.client import Client
from mqpg._sync.producer.callers import LocalCaller, require_idle
from mqpg._sync.producer.ledger_transaction import LedgerTransaction, LocalLedger, abandon_local, release_local
from mqpg._sync.producer.prepare_and_decide import identity_at, prepare_half, rollback_half, rollback_halves
from mqpg._sync.stores.ledger_messages import LedgerMessages
from mqpg.values.arguments import encode
from mqpg.values.draft import Draft, drafts_of
from mqpg.values.errors import InvalidArgument, UnknownHandle, WrongState, shown
from mqpg.values.messages import Interval, Json, Outcome

__all__ = ["LocalTransaction", "begin_local", "report_rollback"]


class LocalTransaction(LedgerTransaction):
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
        topic: str,
        owner: Connection | Session,
        *,
        lent: bool,
        group: str | None,
    ) -> None:
        super().__init__(ledger, handle, owner, lent=lent)
        self.mq = mq
        self.outcome: Outcome | None = None
        # Whose half messages `add` prepares. None if the producer sends one message with each
        # transaction.
        self._group = group
        # Where messages are kept beside the ledger rows. None: nowhere.
        self._messages: LedgerMessages | None = None
        self._topics = {handle: topic}

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

    Raises Fenced, LedgerError, WrongState.
    """
    ledger.verify()
    owner = ledger.database.open() if conn is None else require_idle(conn)
    tx = LocalTransaction(mq, ledger, handle, topic, owner, lent=conn is not None, group=group)
    try:
        tx._begin(topic)
    except BaseException as error:
        abandon_local(tx)
        release_local(tx)
        if isinstance(error, ledger.database.errors):
            raise ledger.database.failure(error) from error
        raise
    return tx


def report_rollback(tx: LocalTransaction) -> None:
    """Step 3 after a local rollback that is certain."""
    tx.outcome = rollback_half(tx.mq, tx.handle)
    if others := tx.handles[1:] + tx._taken_back:
        rollback_halves(tx.mq, others)
