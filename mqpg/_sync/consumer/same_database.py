# Generated from mqpg/_async/consumer/same_database.py by tools/async_to_sync.py: change that file.
"""Consumption in the broker's database: receive, effect and ack in one transaction (protocol C1).

Each effect happens exactly once, because the claim lives and ends with the transaction. The effect
runs in a savepoint, so that a handler's error undoes it and still counts an attempt. If one of several
messages fails, all are undone and done again in parts, which shows which one it was (`attempts`).
Replies are sent in the same transaction.

In mode shared the claim is made in a transaction of its own and its lease is extended, because an
open transaction would keep the other members of its queue waiting. Effect and acknowledgement are
still one transaction, so each effect happens exactly once: where another consumer took the claim
over, the acknowledgement is refused and the effect undone.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from mqpg._sync._acompat import (
    Event,
    PgConnection,
    database_url,
    driver_connection,
    make_engine,
    sync_engine,
)
from mqpg._sync.client.client import Client
from mqpg._sync.client.execute import is_rolled_back
from mqpg._sync.consumer.acknowledge import ack_delivery, nack_failures
from mqpg._sync.consumer.assignment import QueueAssignment
from mqpg._sync.consumer.attempts import AskOnFailure, DeliveryResult, SavepointRunner, what_stands
from mqpg._sync.consumer.call_handler import HandlerInvoker, Reply
from mqpg._sync.consumer.lease import Lease
from mqpg._sync.consumer.relay_inbox import RelayInbox
from mqpg.connection.engines import reset_sessions
from mqpg.connection.lease_extender import lease_extender
from mqpg.connection.time_limit import time_limit
from mqpg.handlers.failures import IterationLost, TransactionEnded
from mqpg.handlers.options import ConsumerOptions
from mqpg.values.errors import Error, NotGranted, ReceiptError
from mqpg.values.messages import Message

if TYPE_CHECKING:
    from mqpg._sync._acompat import Connection, Engine
    from mqpg._sync.stores.journal import Journal

__all__ = ["SameDatabase"]

logger = logging.getLogger("mqpg")

_ONE_BY_ONE = 100  # messages that are claimed singly at most, after a start and after a lost transaction


@dataclass
class _Iteration:
    """A transaction, and what came of the delivery in it."""

    conn: PgConnection | Connection
    result: DeliveryResult = field(default_factory=DeliveryResult)

    @property
    def handled(self) -> int:
        return len(self.result.applied) + self.result.unacknowledged


class SameDatabase:
    """Iterations of a consumer whose effects are in the broker's database."""

    def __init__(self, options: ConsumerOptions, invoke: HandlerInvoker) -> None:
        self._options = options
        self._wants_driver = invoke.wants_driver
        self._assignment = QueueAssignment(options)
        self._inbox = RelayInbox(options)
        self._runner = SavepointRunner(invoke, self._inbox)
        self._journal = self._make_journal()
        self._lease = Lease(options.lease, f"the handler of {options.group}/{options.topic}")
        self._engine: Engine | None = None
        self._broker_id = ""
        # Workers whose last delivery came back. They claim in the transaction of the effect. A claim
        # that is undone with the effect counts no attempt, so a message that kills its process would
        # be tried for ever. Therefore the first messages after a start, and after a transaction that
        # was lost, are claimed before they are handled, each by itself.
        self._proven: set[int | None] = set()

    def step(self, mq: Client, worker: int | None = None, stop: Event | None = None) -> int:
        """Handle one delivery in one transaction; in mode shared, and until this worker is proven, under a lease.

        Returns how many messages it had. Raises IterationLost.
        """
        self._prepare(mq)
        if self._assignment.mode == "shared":
            delivery = self._assignment.receive(mq, worker)
            return self._handle_leased(mq, delivery) if delivery else 0
        if worker not in self._proven:
            return self._step_singly(mq, worker, stop)
        try:
            with self._transaction(mq) as iteration:
                delivery = self._assignment.receive(mq, worker, conn=iteration.conn)
                if delivery:
                    iteration.result = self._apply(mq, iteration.conn, delivery)
        except BaseException as error:
            self._proven.clear()
            if isinstance(error, TransactionEnded):
                return self._report_end(mq, delivery, error)
            raise
        iteration.result.end_process()
        return iteration.handled

    def _step_singly(self, mq: Client, worker: int | None, stop: Event | None) -> int:
        """Handle the first messages of a worker one by one, each claimed in a transaction of its own."""
        handled = 0
        for _ in range(min(self._options.max_messages, _ONE_BY_ONE)):
            delivery = self._assignment.receive(mq, worker, most=1)
            if not delivery:
                break
            handled += self._handle_leased(mq, delivery)
            if stop is not None and stop.is_set():
                break
        if handled:
            self._proven.add(worker)
        return handled

    def finish(self, mq: Client, worker: int) -> None:
        """Do nothing, because each delivery is acknowledged with its effect."""

    def close(self) -> None:
        """Close the connections that are not the client's."""
        if self._engine is not None:
            self._engine.dispose()

    def _handle_leased(self, mq: Client, delivery: Sequence[Message]) -> int:
        receipt = str(delivery[0].receipt)
        with self._lease.extended(mq, receipt):
            try:
                while True:
                    # Once more under the same claim, to nack the message that lost the transaction.
                    with suppress(IterationLost):
                        try:
                            with self._transaction(mq) as iteration:
                                iteration.result = self._apply(mq, iteration.conn, delivery)
                        except TransactionEnded as ended:
                            return self._report_end(mq, delivery, ended)
                        iteration.result.end_process()
                        return iteration.handled
            except ReceiptError as error:
                group, topic = self._options.group, self._options.topic
                logger.warning("%s/%s: undone, another consumer has the messages now: %s", group, topic, error)
                return len(delivery)
            except Exception:
                # This is no fault of the messages. They come again, and no attempt is counted.
                with suppress(Error):
                    mq.release(receipt)
                raise

    def _report_end(self, mq: Client, delivery: Sequence[Message], ended: TransactionEnded) -> int:
        """Report a delivery whose transaction a handler has ended.

        If it was rolled back, it is done again, but not by this handler.
        """
        result = what_stands(ended)
        tried = [one for one in delivery if one.queue_offset <= ended.messages[-1].queue_offset]
        with mq.transaction() as conn:
            if ended.xid is not None and is_rolled_back(conn, ended.xid):
                self._runner.suspect(ended.messages, ended)
                raise IterationLost
            nack_failures(mq, str(delivery[0].receipt), result.failures, conn=conn)
            ack_delivery(mq, delivery, tried, result, conn=conn)
        return len(tried)

    def _apply(self, mq: Client, conn: PgConnection | Connection, delivery: Sequence[Message]) -> DeliveryResult:
        tried = self._runner.choose(delivery)
        ask: AskOnFailure = partial(mq.queries.on_failure, self._options.group, self._options.topic, conn)
        with time_limit(mq.settings.call_timeout):  # the savepoints and the journal, but no handler
            result = self._runner.run(conn, tried, after=partial(self._after, mq), ask_on_failure=ask)
        try:
            nack_failures(mq, str(tried[0].receipt), result.failures, conn=conn)
            if result.failures and tried[0].queue_id >= 0 and ask() != result.on_failure:
                # The subscription was altered meanwhile, so what had to wait was decided by the old
                # setting.
                raise IterationLost
            ack_delivery(mq, delivery, tried, result, conn=conn)
        except NotGranted as error:
            if result.applied:  # a handler may have set another role
                self._runner.suspect(result.applied, error)
                raise IterationLost from error
            raise
        return result

    def _make_journal(self) -> Journal | None:
        if not self._options.journal:
            return None
        from mqpg._sync.stores.journal import Journal  # with SQLAlchemy, which others need not load

        return Journal(self._options.group, self._options.topic, self._options.schema)

    def _prepare(self, mq: Client) -> None:
        self._assignment.subscribe(mq)
        self._inbox.create(mq, None)
        self._broker_id = (mq.info()).broker_id
        if not self._assignment.noted:
            kept_before = False
            if self._journal is not None:
                from mqpg._sync.stores.create_tables import create_beside_queue
                from mqpg.user_tables.tables import applied

                with mq.transaction() as conn:
                    create_beside_queue(conn, applied, self._options.schema, self._options.create_tables)
                    kept_before = self._journal.is_kept(conn, self._broker_id)
            self._assignment.note_journal(mq, kept_before=kept_before)

    @contextmanager
    def _transaction(self, mq: Client) -> Generator[_Iteration]:
        """The transaction of one iteration.

        Raises IterationLost where its commit was refused because of an effect.
        """
        result: Sequence[Message] = ()
        try:
            with self._connection(mq) as conn:
                iteration = _Iteration(conn)
                yield iteration
                result = iteration.result.applied
        except Exception as error:
            # Before the commit nothing counts as applied, so only the commit can be blamed on an
            # effect.
            self._runner.blame(result, error)
            raise

    @contextmanager
    def _connection(self, mq: Client) -> Generator[PgConnection | Connection]:
        if self._wants_driver:
            with mq.transaction() as conn:
                lease_extender(mq.dsn, mq.settings).vouch(conn)
                yield conn
            return
        if self._engine is None:
            size = self._options.concurrency
            url = database_url(mq.dsn)
            self._engine = make_engine(url, pool_size=size, isolation_level="READ COMMITTED")
            reset_sessions(sync_engine(self._engine))
        with self._engine.begin() as conn:
            lease_extender(mq.dsn, mq.settings).vouch(driver_connection(conn))
            yield conn

    def _after(self, mq: Client, conn: Any, messages: Sequence[Message], replies: list[Reply]) -> None:
        for request, payload in replies:
            mq.reply(request, payload, conn=conn)
        if self._journal is not None:
            self._journal.write(conn, messages, self._broker_id)
