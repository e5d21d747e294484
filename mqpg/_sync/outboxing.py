# Generated from mqpg/_async/outboxing.py by tools/async_to_sync.py: change that file.
"""FastMiniMQ's producer: messages stored first, both phases driven by the producer, no check-back.

QoS 2, `transaction`: P1 store, P2 P3 PREPARE, P4 business and decision in one local transaction, P5 P6 COMMIT or
ROLLBACK, P7 delete. QoS 1, `send`: P1 store with the business, P2 P3 send with a dedup id, P4 delete. QoS 0: send. What
a crash leaves in the outbox, `recover` finishes, always with the broker that the row names.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL
from sqlalchemy.exc import SQLAlchemyError

from mqpg._protocol_tables import outbox_metadata
from mqpg._sync._io import Connection, Engine, Event, ScopedSession, Session
from mqpg._sync.brokers import Brokers
from mqpg._sync.client import Client
from mqpg._sync.decisions import decide, rollback_half
from mqpg._sync.local import LocalDatabase
from mqpg._sync.localtx import LocalCaller, LocalTransaction, begin_local, commit_local
from mqpg._sync.outbox import Outbox, OutboxEntry, Stored, body
from mqpg._sync.passes import run_passes
from mqpg.errors import ConfigurationError, ConnectionFailed, Error, InvalidArgument
from mqpg.message import Interval, Outcome

__all__ = ["OutboxProducer"]

logger = logging.getLogger("mqpg")


class OutboxProducer:
    """Sends messages that are stored in the database of the business tables until their broker has them.

    `mq` is the broker, or several; `database` the SQLAlchemy URL (or engine) where table mqpg_outbox lives; `group`
    the producer group of QoS 2. Nobody has to answer check-backs: give the group the checker due_checks and run
    `recover`. May be shared by threads.
    """

    def __init__(self, mq: Client | Brokers, *, database: str | URL | Engine, group: str | None = None) -> None:
        self.brokers = Brokers.around(mq)
        self.group = group
        self.outbox = Outbox(LocalDatabase(database))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the database; clients stay open."""
        self.outbox.database.close()

    def create_outbox(self) -> None:
        """Create table mqpg_outbox where it is not there."""
        self.outbox.database.create(outbox_metadata)

    def send(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        tag: str | None = None,
        headers: Any = None,
        delay: Interval | None = None,
        qos: int = 1,
        conn: LocalCaller | None = None,
    ) -> int | None:
        """Send at least once (QoS 1), to one broker only; the message id, None while no broker has it.

        With `conn`, a SQLAlchemy connection or session in the caller's transaction, the message is stored there
        and goes out with `recover` after that commits. Without, it is stored and sent at once. `qos` 0 stores
        nothing: one attempt, at most once. Raises ConnectionFailed when no broker was ever reached (QoS 1), or
        the one tried does not answer (QoS 0), and what `send` raises.
        """
        if qos == 0 and conn is None:
            mq = self.brokers.pick(key)
            return mq.send(topic, payload, key=key, tag=tag, headers=headers, delay=delay)
        if qos != 1:
            raise InvalidArgument("qos must be 0 or 1, and 1 with conn; transaction() is QoS 2")
        self.outbox.verified()
        broker = self._pin(key)
        row = Stored.of("send", broker, self.group, topic, payload, key, tag, headers, delay)
        if conn is not None:
            self.outbox.store(_connection(conn), row)
            return None
        store_message(self.outbox, row)
        try:
            mq = self.brokers.by_id(broker)
            message_id = send_message(mq, row)
        except ConnectionFailed as error:
            logger.warning("message %s is stored, its broker does not answer (recovery sends it): %s", row.id, error)
            return None
        except Error:
            # Refused, now and at any other time.
            delete_message(self.outbox, row.id)
            raise
        delete_message(self.outbox, row.id)
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
        """A local transaction that sends a message exactly when it commits (QoS 2).

        `merged` stores the message with the business (P1 in P4), one local transaction less: a crash between PREPARE
        and that leaves a half message that nobody decides, and `half_pending` lists it. Otherwise as
        TransactionalProducer.transaction, with one message. Raises ConfigurationError where a ledger would be
        asked about the group.
        """
        self.outbox.verified()
        mq, row, handle = self._prepare(topic, payload, key, tag, headers, delay, merged)
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
            # What is not certain here is read in the outbox by recovery.
            if tx.abandon():
                tx.outcome = self._roll_back(mq, row, handle, merged)
            raise
        finally:
            tx.release()
        if tx.committed:
            tx.outcome = decide(mq, handle, tx.final_payload)
            if tx.outcome is not None:
                delete_message(self.outbox, row.id)
        elif tx.outcome is not None and not merged:  # tx.rollback() has told the broker
            delete_message(self.outbox, row.id)

    def recover(self, max_rows: int = 1000, older_than: timedelta = timedelta(seconds=5)) -> int:
        """One pass over the outbox: what is not finished is finished, with the broker of its row.

        A broker that is away keeps its rows, and the others go on. Returns how many rows were finished; 0 says that
        nothing was left to do. Raises ConnectionFailed when no broker answers.
        """
        self.outbox.verified()
        return self.brokers.each(lambda mq: self._finish_rows(mq, max_rows, older_than))

    def run_recovery(self, stop: Event, interval: float = 1.0) -> None:
        """`recover` every `interval` seconds until `stop` is set, through restarts of any database."""
        run_passes(self.recover, stop, interval, "recovery of the outbox")

    def _prepare(
        self, topic: str, payload: Any, key: str | None, tag: str | None, headers: Any, delay: Interval | None,
        merged: bool,
    ) -> tuple[Client, Stored, str]:  # fmt: skip
        """P1 to P3 at the first broker that takes it. Each broker tried has a row of its own, never the same id."""
        if self.group is None:
            raise ConfigurationError("a producer group is needed: OutboxProducer(..., group=...)")
        failure: ConnectionFailed | None = None
        for seat in self.brokers.candidates(key):
            try:
                mq = seat.client()
                broker = (mq.info()).broker_id
                mq._require_checker(self.group, "due_checks", "function")
            except ConnectionFailed as error:
                seat.failed(error)
                failure = error
                continue
            row = Stored.of("stored", broker, self.group, topic, payload, key, tag, headers, delay)
            if not merged:
                store_message(self.outbox, row)
            try:
                handle = prepare_message(mq, row)
            except ConnectionFailed as error:
                # It may have arrived or not: a failed PREPARE is a ROLLBACK, which recovery sends.
                seat.failed(error)
                failure = error
                if not merged:
                    self.outbox.give_up(row)
                continue
            except Error:
                if not merged:
                    delete_message(self.outbox, row.id)
                raise
            seat.worked()
            return mq, row, handle
        assert failure is not None  # there is a broker at least
        raise failure

    def _roll_back(self, mq: Client, row: Stored, handle: str, merged: bool) -> Outcome | None:
        """P4 to P7 of a business that failed; None where the broker does not know yet."""
        if merged:
            return rollback_half(mq, handle)
        if not self.outbox.give_up(row):
            return None
        outcome = rollback_half(mq, handle)
        if outcome is not None:
            delete_message(self.outbox, row.id)
        return outcome

    def _finish_rows(self, mq: Client, max_rows: int, older_than: timedelta) -> int:
        """Rows of one broker; further ones only where nothing can be done about the first."""
        broker_id, skipped = (mq.info()).broker_id, 0
        while True:
            rows = self.outbox.open_rows(broker_id, max_rows, older_than, skipped)
            if rows:
                self.outbox.settled()
            finished = 0
            for row in rows:
                try:
                    finished += self._finish(mq, row)
                except ConnectionFailed:
                    raise
                except Error as error:
                    logger.error("outbox: message %s stays, its broker refuses it: %s", row.id, error)
            if finished or len(rows) < max_rows:
                return finished
            skipped += len(rows)

    def _finish(self, mq: Client, row: Stored) -> bool:
        if row.state == "send":
            send_message(mq, row)
        elif row.state == "commit":
            if not self._commit(mq, row):
                return False
        else:
            if row.state == "stored" and not self.outbox.give_up(row):
                return False
            # The same id: the handle that was issued, or one that is rolled back before anybody uses it.
            outcome = mq.rollback(row.handle or prepare_message(mq, row))
            if outcome is Outcome.ALREADY_COMMITTED:
                logger.error("outbox: message %s is to be rolled back, its broker has committed it", row.id)
                return False
        delete_message(self.outbox, row.id)
        return True

    def _commit(self, mq: Client, row: Stored) -> bool:
        assert row.handle is not None  # P4 writes it
        outcome = mq.commit(row.handle, body(row))
        if outcome is Outcome.UNKNOWN and int(row.handle.split(".")[1]) < (mq.info()).incarnation:
            # The broker was restored to a time before PREPARE: what it has lost is still here.
            handle = prepare_message(mq, row)
            self.outbox.keep_handle(row, handle)
            outcome = mq.commit(handle, body(row))
        if outcome in (Outcome.UNKNOWN, Outcome.ALREADY_ROLLED_BACK):
            logger.error("outbox: message %s was committed here, its broker says %s", row.id, outcome)
            return False
        return True

    def _pin(self, key: str | None) -> str:
        """The broker that a message goes to, which need not answer now if it ever did."""
        failure: ConnectionFailed | None = None
        for seat in self.brokers.candidates(key):
            if seat.broker_id is None:
                try:
                    seat.client()
                except ConnectionFailed as error:
                    seat.failed(error)
                    failure = error
            if seat.broker_id is not None:
                return seat.broker_id
        assert failure is not None
        raise failure


def store_message(outbox: Outbox, row: Stored) -> None:
    """P1."""
    outbox.store_now(row)


def send_message(mq: Client, row: Stored) -> int:
    """P2 and P3 of QoS 1: one broker, one dedup id, so a repetition finds the first message."""
    return mq.send(row.topic, body(row), **row.message())


def prepare_message(mq: Client, row: Stored) -> str:
    """P2 and P3 of QoS 2: one broker, one dedup id, so a repetition finds the first half."""
    assert row.producer_group is not None
    return mq.prepare(row.topic, body(row), row.producer_group, **row.message())


def delete_message(outbox: Outbox, message_id: str) -> None:
    """P7, or P4 of QoS 1. A row that stays is merely finished again."""
    try:
        outbox.delete(message_id)
    except SQLAlchemyError as error:
        logger.warning("message %s stays in the outbox for now: %s", message_id, outbox.database.failure(error))


def _connection(conn: LocalCaller) -> Connection | Session:
    if isinstance(conn, ScopedSession):
        conn = conn()
    if not isinstance(conn, (Connection, Session)):
        raise InvalidArgument(f"conn must be a SQLAlchemy Connection or Session, not {type(conn).__name__}")
    return conn
