# Generated from mqpg/_async/producer/transactional.py by tools/async_to_sync.py: change that file.
"""The transactional producer (protocol T2): half message, local transaction, decision.

Each step is a function: `prepare_half`, `begin_local`, `commit_local`, `decide`, `mark_done`. If
a producer dies between two steps, recovery (mqpg._sync.producer.recovery) or a check-back decides
what it left open.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Self

from sqlalchemy import URL

from mqpg._sync._acompat import Engine, Event
from mqpg._sync.client.client import Client
from mqpg._sync.producer.background import BackgroundDecisions
from mqpg._sync.producer.brokers import Brokers
from mqpg._sync.producer.callers import LocalCaller
from mqpg._sync.producer.ledger_transaction import abandon_local, commit_local, release_local
from mqpg._sync.producer.local_transaction import LocalTransaction, begin_local, report_rollback
from mqpg._sync.producer.loop import Recovering, run_periodically
from mqpg._sync.producer.prepare_and_decide import decide, decide_all, prepare_half, rollback_half, rollback_halves
from mqpg._sync.producer.recovery import DoneMarker, Recovery
from mqpg._sync.producer.rows_of_others import RowsOfOthers
from mqpg._sync.stores.ledger import Ledger
from mqpg.values.choices import Checker
from mqpg.values.draft import Draft
from mqpg.values.errors import ConfigurationError, UnknownHandle
from mqpg.values.messages import Interval, LostHalf, Outcome

__all__ = ["TransactionalProducer"]

logger = logging.getLogger("mqpg")

# The checker `ledger` looks into the broker's own ledger, which this producer does not write.
_CHECKERS: tuple[Checker, ...] = ("url", "due_checks", "function")


class TransactionalProducer(Recovering):
    """Sends messages if and only if a transaction in another database commits.

    Threads and tasks may share it. While an `with` block of it lasts, `recover` runs every 5
    seconds.

    Args:
        mq: The broker, or several of them (Brokers); each transaction uses one.
        group: The producer group, with any checker but `ledger`.
        ledger: The SQLAlchemy URL or engine of the database of the business tables, in which table
            mqpg_ledger lives; or an Ledger.
        keep_messages: Keep each message in table mqpg_ledger_message of that database, in the local
            transaction. If a broker loses it, because an asynchronous standby was promoted or a
            copy was restored, recovery prepares it again.
        schema: The schema of these tables (MySQL: the database). None: where the connection looks for
            them.
        create_tables: False lets `create_ledger` raise LedgerError where a table is missing, instead of
            creating it.
        decide_in_background: Do not wait for step 3. Within some milliseconds the decisions of many
            transactions are sent in one call, and `outcome` stays None. What an error or a crash
            leaves undecided, recovery or the check-back decides by the ledger. A transaction with
            `commit_payload` waits. False: each transaction waits.

    Raises:
        ConfigurationError: `schema` or `create_tables` is given beside an Ledger, which has its own.
        InvalidArgument: `schema` is no name.
    """

    def __init__(
        self,
        mq: Client | Brokers,
        *,
        group: str,
        ledger: str | URL | Engine | Ledger,
        keep_messages: bool = False,
        schema: str | None = None,
        create_tables: bool = True,
        decide_in_background: bool = False,
    ) -> None:
        super().__init__()
        self.mq = mq
        self.brokers = Brokers._around(mq)
        self.group = group
        if not isinstance(ledger, Ledger):
            ledger = Ledger(ledger, schema=schema, create_tables=create_tables)
        elif schema is not None or not create_tables:
            raise ConfigurationError("schema and create_tables are arguments of the ledger that is given")
        self.ledger = ledger
        self.keep_messages = keep_messages
        self._marker = DoneMarker(self.ledger)
        self._background = BackgroundDecisions(self._marker) if decide_in_background else None
        self._recoveries: dict[str, Recovery] = {}
        self._others = RowsOfOthers("ledger", self.ledger._rows_of_others)

    def __enter__(self) -> Self:
        """Start recovery, and log a warning if the producer group is missing or has another checker."""
        self.brokers._warn_of_group(self.group, _CHECKERS)
        return super().__enter__()

    def close(self) -> None:
        """Send the decisions and mark the ledger rows that are still to be, and close the ledger.

        Clients stay open.
        """
        if self._background is not None:
            self._background.close()
        self._marker.flush()
        self.ledger.close()

    def _flush(self) -> None:
        """Send the decisions that are collected, and mark the ledger rows of those that have arrived."""
        if self._background is not None:
            self._background.flush()
        self._marker.flush()

    def create_ledger(self) -> None:
        """Create what is missing: mqpg_ledger, and with `keep_messages` mqpg_ledger_message.

        Raises:
            ConnectionFailed: The ledger's database does not answer.
            DatabaseError: The table cannot be created.
            LedgerError: With ``create_tables=False``: a table is missing or not as it must be.
        """
        self.ledger.create(keep_messages=self.keep_messages, identify=True)

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
        conn: LocalCaller | None = None,
    ) -> Generator[LocalTransaction]:
        """Open a local transaction that sends a message if and only if it commits (protocol T2).

        At the end of the block the local transaction commits, and then the half message. An
        exception rolls both back and is raised again. With several brokers, one that cannot be
        reached is skipped before the local transaction begins; the transaction then stays with the
        broker that stored its half message. `tx.add` sends further messages, of any topic.

        Args:
            topic: The topic's name.
            payload: Any object that JSON can hold, or mqpg.Json. `tx.commit_payload` may replace
                it.
            key: Messages with the same key keep their order; it also chooses among several brokers.
                None: no key.
            tag: A word that subscriptions may choose messages by. None: no tag.
            headers: Any object that JSON can hold. None: none.
            delay: How long after the commit the message becomes visible. None: at once.
            conn: A SQLAlchemy connection or session of the ledger's database. It must not be in a
                transaction; the one that begins here ends here. None: a connection of the
                producer's own.

        Yields:
            The local transaction.

        Raises:
            OutcomeUnknown: The connection was lost during the local COMMIT. The half message
                follows what the ledger says.
            Fenced: The transaction took longer than its check-back waits, which has ruled that it
                rolls back.
            WrongState: An administrator rolled the half message back, or the block lost the ledger
                row.
            ConfigurationError: The group's checker is `ledger`, the broker's own, which is not this
                one.
            LedgerError: The ledger's table is missing or not as it must be.
            UnknownHandle: The local transaction has committed, but the broker has lost its half
                message. With `keep_messages` recovery sends it again, and nothing is raised.
            UnknownTopic: There is no such topic.
            UnknownProducerGroup: There is no such producer group.
            PayloadTooLarge: Payload or headers are larger than the topic allows.
            ConnectionFailed: No broker answers, or the ledger's database does not.
        """
        draft = Draft(topic, payload, key, tag, headers, delay)
        self.ledger.identity()
        prepare = partial(prepare_half, group=self.group, draft=draft, checkers=_CHECKERS, ledger=self.ledger)
        if self.keep_messages:
            self.ledger.messages.verify()
        # If an answer is lost, no ledger has the handle of that half message. It is rolled back.
        answers = self.brokers._visit(prepare, self.brokers._candidates(key), until=bool)
        mq, handle = answers.first()
        try:
            tx = begin_local(mq, self.ledger, handle, topic, conn, self.group)
        except BaseException:
            rollback_half(mq, handle)
            raise
        try:
            if self.keep_messages:
                tx._store_message(self.ledger.messages, draft)
            yield tx
            if tx.open:
                commit_local(tx)
        except BaseException:
            # If the rollback is not certain nothing is reported: recovery and check-back look
            # into the ledger.
            if abandon_local(tx):
                report_rollback(tx)
            raise
        finally:
            release_local(tx)
        if tx.committed:
            self._report_commit(tx)

    def _report_commit(self, tx: LocalTransaction) -> None:
        """Steps 3 and 4."""
        if self._background is None:
            self._decide_now(tx)
        elif tx._final_payloads:
            self._background.flush()  # earlier messages of the same key come first
            self._decide_now(tx)
        else:
            self._background.add(tx.mq, tx.handles)
        if tx._taken_back:
            rollback_halves(tx.mq, tx._taken_back)

    def _decide_now(self, tx: LocalTransaction) -> None:
        try:
            tx.outcome = _decide(tx)
        except UnknownHandle as error:
            if not self.keep_messages:
                raise
            # A caller that repeated the transaction because of an error would do everything twice.
            logger.warning("recovery sends it again once the broker is adopted: %s", error)
        if tx.outcome is not None:
            for handle in tx.handles:
                mark_done(self._marker, handle)

    def recover(self, max_rows: int = 1000, older_than: timedelta = timedelta(seconds=5)) -> int:
        """Send again the decisions of ledger rows that are not marked done (protocol T2, step 5).

        Each decision goes to the broker that its handle names. A broker that is away keeps its
        rows. What a broker has lost in a promotion or a restore is prepared again, if the ledger
        keeps its message. The first call after that also looks at rows that are marked done.

        Args:
            max_rows: How many rows to handle for each broker.
            older_than: Leave younger rows to their own transactions; 5 seconds by default.

        Returns:
            How many rows were marked done; 0 means that nothing is left to do.

        Raises:
            ConnectionFailed: No broker answers.
        """
        self._flush()
        self.ledger.refresh()

        answered = []

        def recover_at(mq: Client) -> int:
            recovery = self._recoveries.setdefault(mq.dsn, Recovery(mq, self.ledger))
            finished = recovery.run(max_rows, older_than)
            answered.append((mq.info()).broker_id)
            return finished

        finished = self.brokers._each(recover_at)
        if len(answered) == len(self.brokers.endpoints):
            self._others.report(answered)
        return finished

    def recover_lost(self, *, dry_run: bool = False) -> list[LostHalf]:
        """Find committed ledger rows whose half messages a broker has lost, and send these again.

        A promoted standby or a restored copy may have lost them. Rows that are marked done are
        looked at too. A message is sent again if the ledger keeps it. It has a new id then, and
        the header `mqpg-earlier-ids`.

        Args:
            dry_run: Only find them.

        Returns:
            What was lost. `new_handle` is None if the message was not sent again.

        Raises:
            ConnectionFailed: No broker answers, or the ledger's database does not.
            LedgerError: The table is missing or not as it must be.
        """
        self._flush()
        lost: list[LostHalf] = []

        def recover_at(mq: Client) -> int:
            found = Recovery(mq, self.ledger).recover_lost(dry_run=dry_run)
            lost.extend(found)
            return len(found)

        self.brokers._each(recover_at)
        return lost

    def run_recovery(self, stop: Event, interval: float = 5.0) -> None:
        """Run `recover` periodically, through restarts of either database.

        Args:
            stop: An event that ends the loop when it is set.
            interval: Seconds between two runs.
        """
        run_periodically(self.recover, stop, interval, f"recovery of producer group {self.group}")


def _decide(tx: LocalTransaction) -> Outcome | None:
    """Step 3: commit the half messages of a transaction. Raises as `decide` does."""
    if len(tx.handles) == 1:
        return decide(tx.mq, tx.handle, tx.final_payload)
    outcomes = decide_all(tx.mq, tx.handles, tx._final_payloads)
    return None if outcomes is None else outcomes[tx.handle]


def mark_done(marker: DoneMarker, handle: str) -> None:
    """Step 4: recovery does not have to look at this ledger row again.

    Rows are marked in batches, by one cheap transaction.
    """
    marker.add(handle)
