# Generated from mqpg/_async/producer/outbox.py by tools/async_to_sync.py: change that file.
"""FastMiniMQ's producer: it stores messages first, and needs no check-back.

- QoS 2, `transaction`: P1 store; P2, P3 PREPARE; P4 business and decision in one local transaction;
  P5, P6 COMMIT or ROLLBACK; P7 delete.
- QoS 1, `send`: P1 store with the business; P2, P3 send with a dedup id; P4 delete.
- QoS 0: send once.

`recover` finishes what a crash leaves in the outbox, always with the broker that the row names.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Literal, Self

from sqlalchemy import URL

from mqpg._sync._acompat import Engine, Event
from mqpg._sync.client.client import Client
from mqpg._sync.producer.brokers import Brokers
from mqpg._sync.producer.callers import LocalCaller, require_connection
from mqpg._sync.producer.ledger_transaction import abandon_local, commit_local, release_local
from mqpg._sync.producer.local_transaction import LocalTransaction, begin_local
from mqpg._sync.producer.loop import Recovering, run_periodically
from mqpg._sync.producer.prepare_and_decide import decide, identity_at, rollback_half
from mqpg._sync.producer.rows_of_others import RowsOfOthers
from mqpg._sync.stores.database import UserDatabase
from mqpg._sync.stores.outbox import Outbox, OutboxEntry, StoredMessage
from mqpg.values.choices import Checker
from mqpg.values.draft import Draft
from mqpg.values.errors import ConfigurationError, ConnectionFailed, DatabaseError, Error, InvalidArgument, shown
from mqpg.values.messages import Interval, Json, Outcome

__all__ = ["OutboxProducer"]

logger = logging.getLogger("mqpg")

# The other checkers look into a ledger, which this producer does not write.
_CHECKERS: tuple[Checker, ...] = ("due_checks", "function")


class OutboxProducer(Recovering):
    """Stores messages in the database of the business tables until their broker has them.

    Threads may share it. While an `with` block of it lasts, `recover` runs every second.

    No check-back has to be answered: give the group the checker due_checks.

    Args:
        mq: The broker, or several of them (Brokers).
        database: The SQLAlchemy URL or engine of the database in which table mqpg_outbox lives.
        group: The producer group of QoS 2. None: only QoS 0 and 1 are used.
        schema: The schema of the table (MySQL: the database). None: where the connection looks for it.
        create_tables: False lets `create_outbox` raise LedgerError where a table is missing, instead of
            creating it.

    Raises:
        InvalidArgument: `schema` is no name.
    """

    def __init__(
        self,
        mq: Client | Brokers,
        *,
        database: str | URL | Engine,
        group: str | None = None,
        schema: str | None = None,
        create_tables: bool = True,
    ) -> None:
        super().__init__()
        self.brokers = Brokers._around(mq)
        self.group = group
        self.outbox = Outbox(UserDatabase(database, schema, create_tables))
        self._others = RowsOfOthers("outbox", self.outbox.rows_of_others)

    def __enter__(self) -> Self:
        """Start recovery, and log a warning if the producer group is missing or has another checker."""
        if self.group is not None:
            self.brokers._warn_of_group(self.group, _CHECKERS)
        return super().__enter__()

    def close(self) -> None:
        """Close the connections to the database. Clients stay open."""
        self.outbox.database.close()

    def create_outbox(self) -> None:
        """Create table mqpg_outbox if it is missing.

        Raises:
            ConnectionFailed: The database does not answer.
            DatabaseError: The table cannot be created.
            LedgerError: With ``create_tables=False``: a table is missing or not as it must be.
        """
        self.outbox.create()

    def send(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        tag: str | None = None,
        headers: Any = None,
        delay: Interval | None = None,
        qos: Literal[0, 1] = 1,
        conn: LocalCaller | None = None,
    ) -> int | None:
        """Send one message at least once (QoS 1) or at most once (QoS 0) (protocol T5).

        With `conn` the message is stored in the caller's transaction, and `recover` sends it after
        that commits. Without `conn` it is stored and sent at once.

        Args:
            topic: The topic's name.
            payload: Any object that JSON can hold, or mqpg.Json.
            key: Messages with the same key keep their order; it also chooses among several brokers.
                None: no key.
            tag: A word that subscriptions may choose messages by. None: no tag.
            headers: Any object that JSON can hold. None: none.
            delay: How long after it was sent the message becomes visible. None: at once.
            qos: 1 stores the message first. 0 stores nothing and makes one attempt.
            conn: A SQLAlchemy connection or session in the caller's transaction. None: a
                transaction of its own.

        Returns:
            The message id, or None while no broker has the message.

        Raises:
            InvalidArgument: `qos` is neither 0 nor 1, or 0 with `conn`, or the payload is not JSON.
            ConnectionFailed: With QoS 1 no broker was ever reached; with QoS 0 the broker does not
                answer.
            LedgerError: The table is missing or not as it must be.
            UnknownTopic: There is no such topic.
            PayloadTooLarge: Payload or headers are larger than the topic allows.
        """
        draft = Draft(topic, payload, key, tag, headers, delay)
        if qos == 0 and conn is None:
            mq = self.brokers.pick(key)
            return mq.send(topic, payload, **draft.options())
        if qos != 1:
            raise InvalidArgument(f"qos must be 0 or 1, and 1 with conn, not {shown(qos)}; transaction() is QoS 2")
        self.outbox.verify()
        row = StoredMessage.new("send", self.brokers._pin(key), self.group, draft)
        if conn is not None:
            self.outbox.store(require_connection(conn), row)
            return None
        store_message(self.outbox, row)
        return self._send_stored(row)

    def _send_stored(self, row: StoredMessage) -> int | None:
        try:
            mq = self.brokers._by_id(row.broker)
            message_id = send_message(mq, row)
        except ConnectionFailed as error:
            logger.warning("message %s is stored, but its broker is away; recovery sends it: %s", row.id, error)
            return None
        except Error:
            # The broker refuses it now, and would refuse it later.
            delete_message(self.outbox, row)
            raise
        delete_message(self.outbox, row, "sent")
        return message_id

    @contextmanager
    def transaction(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        tag: str | None = None,
        headers: Any = None,
        delay: Interval | None = None,
        merged: bool = False,
        conn: LocalCaller | None = None,
    ) -> Generator[LocalTransaction]:
        """Open a local transaction that sends one message exactly when it commits (QoS 2).

        Args:
            topic: The topic's name.
            payload: Any object that JSON can hold, or mqpg.Json. `tx.commit_payload` may replace
                it.
            key: Messages with the same key keep their order; it also chooses among several brokers.
                None: no key.
            tag: A word that subscriptions may choose messages by. None: no tag.
            headers: Any object that JSON can hold. None: none.
            delay: How long after the commit the message becomes visible. None: at once.
            merged: Store the message together with the business (P1 in P4), which saves one local
                transaction. A crash between PREPARE and that transaction then leaves a half message
                that no producer decides. The view half_pending lists it until it expires.
            conn: A SQLAlchemy connection or session of the outbox's database, not in a transaction.
                None: a connection of the producer's own.

        Yields:
            The local transaction.

        Raises:
            ConfigurationError: The producer has no group, or the group's checker looks into a
                ledger.
            OutcomeUnknown: The connection was lost during the local COMMIT. `recover` reads the
                outbox and decides.
            Fenced: `recover` has already ruled that this transaction rolls back.
            LedgerError: The table is missing or not as it must be.
            ConnectionFailed: No broker answers, or the outbox's database does not.
        """
        self.outbox.verify()
        mq, row, handle = self._prepare(Draft(topic, payload, key, tag, headers, delay), merged)
        try:
            tx = begin_local(mq, OutboxEntry(self.outbox, row, merged), handle, topic, conn)
        except BaseException:
            self._roll_back(mq, row, handle, merged)
            raise
        try:
            yield tx
            if tx.open:
                commit_local(tx)
        except BaseException:
            # If the rollback is not certain, recovery reads the outbox.
            if abandon_local(tx):
                tx.outcome = self._roll_back(mq, row, handle, merged)
            raise
        finally:
            release_local(tx)
        if tx.committed:
            tx.outcome = decide(mq, handle, tx.final_payload)
            if tx.outcome is not None:
                delete_message(self.outbox, row, "committed")
        elif tx.outcome is not None and not merged:  # tx.rollback() has reported it to the broker
            delete_message(self.outbox, row)

    def recover(self, max_rows: int = 1000, older_than: timedelta = timedelta(seconds=5)) -> int:
        """Finish the messages in the outbox, each with its broker.

        A broker that is away keeps its rows. What was committed is flushed before anything is sent.

        Args:
            max_rows: How many rows to handle for each broker.
            older_than: Leave younger rows to their own transactions; 5 seconds by default.

        Returns:
            How many messages were finished; 0 means that nothing is left to do, or that another
            transaction keeps the outbox locked.

        Raises:
            ConnectionFailed: No broker answers.
            LedgerError: The table is missing or not as it must be, or its commits do not reach the
                disk in time.
        """
        self.outbox.verify()
        answers = self.brokers._visit(lambda mq: self._finish_rows(mq, max_rows, older_than), self.brokers.endpoints)
        finished = sum(answers.all())
        if not answers.failures:
            self._others.report([(mq.info()).broker_id for mq, _ in answers.results])
        return finished

    def run_recovery(self, stop: Event, interval: float = 1.0) -> None:
        """Run `recover` periodically, through restarts of any database.

        Args:
            stop: An event that ends the loop when it is set.
            interval: Seconds between two runs.
        """
        run_periodically(self.recover, stop, interval, "recovery of the outbox")

    def _prepare(self, draft: Draft, merged: bool) -> tuple[Client, StoredMessage, str]:
        """P1 to P3 at the first broker that takes the message.

        Each broker gets a row with an id of its own.
        """

        def prepare_at(mq: Client) -> tuple[StoredMessage, str]:
            return self._prepare_at(mq, draft, merged)

        answers = self.brokers._visit(prepare_at, self.brokers._candidates(draft.key), until=bool)
        mq, (row, handle) = answers.first()
        return mq, row, handle

    def _prepare_at(self, mq: Client, draft: Draft, merged: bool) -> tuple[StoredMessage, str]:
        if self.group is None:
            raise ConfigurationError("QoS 2 needs a producer group: OutboxProducer(…, group=…)")
        broker = (mq.info()).broker_id
        mq.queries.require_checker(self.group, *_CHECKERS)
        row = StoredMessage.new("stored", broker, self.group, draft)
        if not merged:
            store_message(self.outbox, row)
        try:
            return row, prepare_message(mq, row, self.outbox)
        except ConnectionFailed:
            # The PREPARE may have arrived or not. A failed PREPARE is a ROLLBACK, which recovery
            # sends.
            if not merged:
                self.outbox.rule_rollback(row)
            raise
        except Error:
            if not merged:
                delete_message(self.outbox, row)
            raise

    def _roll_back(self, mq: Client, row: StoredMessage, handle: str, merged: bool) -> Outcome | None:
        """P4 to P7 of a business that failed. None if the broker does not know yet."""
        if merged:
            return rollback_half(mq, handle)
        if not self.outbox.rule_rollback(row):
            return None
        outcome = rollback_half(mq, handle)
        if outcome is not None:
            delete_message(self.outbox, row)
        return outcome

    def _finish_rows(self, mq: Client, max_rows: int, older_than: timedelta) -> int:
        """Finish rows of one broker. Further rows are read only if nothing can be done about the first ones."""
        broker_id, skipped = (mq.info()).broker_id, 0
        while True:
            rows = self.outbox.open_rows(broker_id, max_rows, older_than, skipped)
            # Only what is on disk is sent. A crash could take the rest away from its message.
            if rows and not self.outbox.flush():
                logger.info("outbox: nothing is sent while %s is locked", self.outbox.database.describe())
                return 0
            finished = 0
            for row in rows:
                try:
                    finished += self._finish(mq, row)
                except ConnectionFailed:
                    raise
                except Error as error:
                    logger.error("outbox: message %s stays, because its broker refuses it: %s", row.id, error)
            if finished or len(rows) < max_rows:
                return finished
            skipped += len(rows)

    def _finish(self, mq: Client, row: StoredMessage) -> bool:
        if row.state == "send":
            send_message(mq, row)
        elif row.state == "commit":
            if not self._commit(mq, row):
                return False
        else:
            if row.state == "stored" and not self.outbox.rule_rollback(row):
                return False
            # The same id gives the handle that was issued, or a new one that is rolled back before
            # it is used.
            outcome = mq.rollback(row.handle or prepare_message(mq, row, self.outbox))
            if outcome is Outcome.ALREADY_COMMITTED:
                logger.error("outbox: message %s is to be rolled back, but its broker has committed it", row.id)
                return False
        counted: dict[str, Literal["sent", "committed"]] = {"send": "sent", "commit": "committed"}
        delete_message(self.outbox, row, counted.get(row.state))
        return True

    def _commit(self, mq: Client, row: StoredMessage) -> bool:
        assert row.handle is not None  # P4 writes it
        outcome = mq.commit(row.handle, Json(row.payload))
        if outcome is Outcome.UNKNOWN and int(row.handle.split(".")[1]) < mq.queries.incarnation():
            # The broker was restored to a time before PREPARE. What it lost is still in the outbox.
            handle = prepare_message(mq, row, self.outbox)
            self.outbox.store_handle(row, handle)
            outcome = mq.commit(handle, Json(row.payload))
        if outcome in (Outcome.UNKNOWN, Outcome.ALREADY_ROLLED_BACK):
            logger.error("outbox: message %s was committed here, but its broker says %s", row.id, outcome)
            return False
        return True


def store_message(outbox: Outbox, row: StoredMessage) -> None:
    """P1."""
    outbox.store_now(row)


def send_message(mq: Client, row: StoredMessage) -> int:
    """P2 and P3 of QoS 1. The dedup id makes a repetition find the first message."""
    return mq.send(row.topic, Json(row.payload), **row.send_options())


def prepare_message(mq: Client, row: StoredMessage, outbox: Outbox) -> str:
    """P2 and P3 of QoS 2. The dedup id makes a repetition find the first half message."""
    assert row.producer_group is not None
    identity = identity_at(mq, row.producer_group, outbox)
    return mq.prepare(row.topic, Json(row.payload), row.producer_group, ledger=identity, **row.send_options())


def delete_message(outbox: Outbox, row: StoredMessage, counted: Literal["sent", "committed"] | None = None) -> None:
    """P7, or P4 of QoS 1. Recovery finishes a row that stays once more. `counted`: which counter moves."""
    try:
        outbox.delete(row, counted)
    except (ConnectionFailed, DatabaseError) as error:
        logger.warning("message %s stays in the outbox for now: %s", row.id, error)
