# Generated from mqpg/_async/transactional.py by tools/async_to_sync.py: change that file.
"""The transactional producer (protocol T2): half message, local transaction, decision.

The steps are functions of their own, named for what they do: `prepare_half`, `begin_local`,
`commit_local`, `decide`, `mark_done`. A producer that dies between any two of them leaves what the
recovery pass (mqpg._sync.recovery) or a check-back settles.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL

from mqpg._sync._io import Engine, Event
from mqpg._sync.brokers import Brokers
from mqpg._sync.client import Client
from mqpg._sync.decisions import decide, decide_all, prepare_half, prepare_somewhere, rollback_half, rollback_halves
from mqpg._sync.ledger import Ledger
from mqpg._sync.localtx import LocalCaller, LocalTransaction, begin_local, commit_local
from mqpg._sync.passes import run_passes
from mqpg._sync.recovery import DoneNotes, Recovery
from mqpg.message import Interval

__all__ = ["TransactionalProducer"]


class TransactionalProducer:
    """Sends messages if and only if a transaction in another database commits.

    `mq` is the broker, or several (Brokers), of which each transaction takes one; `group` the producer
    group, with any checker but `ledger`; `ledger` the SQLAlchemy URL (or engine) of the database of the business
    tables, where table mqpg_ledger lives. May be shared by threads.
    """

    def __init__(self, mq: Client | Brokers, *, group: str, ledger: str | URL | Engine | Ledger) -> None:
        self.mq = mq
        self.brokers = Brokers.around(mq)
        self.group = group
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        self._notes = DoneNotes(self.ledger)
        self._recoveries: dict[str, Recovery] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what is to be noted in the ledger and close it; clients stay open."""
        self._notes.flush()
        self.ledger.close()

    def create_ledger(self) -> None:
        """Create table mqpg_ledger where it is not there."""
        self.ledger.create()

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
        """A local transaction that sends a message when it commits, and nothing when it does not.

        At the end of the block the local transaction commits, then the half message; an exception rolls
        both back and goes on. `conn` is a connection or session of the ledger's database to use instead of
        an own one; it must not be in a transaction, and the one that begins here ends here. With several
        brokers, one that cannot be reached is left out before the local transaction; the transaction stays with
        the one that stored its half message. `tx.add` sends further messages with it, of any topic.

        Raises OutcomeUnknown when the connection was lost during the local COMMIT (the half message follows
        whatever became of it), Fenced when the transaction took longer than its check-back would wait,
        WrongState when an administrator rolled the half message back, ConfigurationError when the group's checker is
        `ledger` (the broker's own, which is not this one), and the errors of `prepare`.
        """
        message = (topic, payload, key, tag, headers, delay)
        mq, handle = prepare_somewhere(self.brokers, key, self._prepare, *message)
        try:
            tx = begin_local(mq, self.ledger, handle, topic, conn)
        except BaseException:
            rollback_half(mq, handle)
            raise
        tx.group = self.group
        try:
            yield tx
            if tx.open:
                commit_local(tx)
        except BaseException:
            # Not told where it is not known: recovery and check-back look into the ledger.
            if tx.abandon():
                tx.tell_rolled_back()
            raise
        finally:
            tx.release()
        if tx.committed:
            self._tell_committed(tx)

    def _prepare(self, mq: Client, *message: Any) -> str:
        """Step 1, for a group that is not checked back in another ledger than this."""
        mq._require_checker(self.group, "url", "due_checks", "function")
        return prepare_half(mq, self.group, *message)

    def _tell_committed(self, tx: LocalTransaction) -> None:
        """Steps 3 and 4."""
        if len(tx.handles) == 1:
            tx.outcome = decide(tx.mq, tx.handle, tx.final_payload)
        else:
            outcomes = decide_all(tx.mq, tx.handles, tx.final_payloads)
            tx.outcome = outcomes[tx.handle] if outcomes is not None else None
        if tx.outcome is not None:
            for handle in tx.handles:
                mark_done(self._notes, handle)
        if tx.taken_back:
            rollback_halves(tx.mq, tx.taken_back)

    def recover(self, max_rows: int = 1000, older_than: timedelta = timedelta(seconds=5)) -> int:
        """One pass of step 5: send again the decisions of ledger rows that are not marked done.

        Each to the broker that its handle names; one that is away keeps its rows, and the others go on. Returns how
        many rows were settled; 0 says that nothing was left. Raises ConnectionFailed when no broker answers.
        """
        self._notes.flush()

        def settle(mq: Client) -> int:
            recovery = self._recoveries.setdefault(mq.dsn, Recovery(mq, self.ledger))
            return recovery.run(max_rows, older_than)

        return self.brokers.each(settle)

    def run_recovery(self, stop: Event, interval: float = 5.0) -> None:
        """`recover` every `interval` seconds until `stop` is set, through restarts of either database."""
        run_passes(self.recover, stop, interval, f"recovery of producer group {self.group}")


def mark_done(notes: DoneNotes, handle: str) -> None:
    """Step 4: the ledger row need not be looked at again. Noted in batches, by one cheap transaction each."""
    notes.add(handle)
