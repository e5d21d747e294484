"""The transactional producer (protocol T2): half message, local transaction, decision.

The steps are functions of their own, named for what they do: `prepare_half`, `begin_local`,
`commit_local`, `decide`, `mark_done`. A producer that dies between any two of them leaves what the
recovery pass (mqpg._async.recovery) or a check-back settles.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL

from mqpg._async._io import Engine, Event
from mqpg._async.brokers import AsyncBrokers
from mqpg._async.client import AsyncClient
from mqpg._async.decisions import decide, decide_all, prepare_half, prepare_somewhere, rollback_half, rollback_halves
from mqpg._async.ledger import AsyncLedger
from mqpg._async.localtx import LocalCaller, LocalTransaction, begin_local, commit_local
from mqpg._async.passes import run_passes
from mqpg._async.recovery import DoneNotes, Recovery
from mqpg.message import Interval

__all__ = ["AsyncTransactionalProducer"]


class AsyncTransactionalProducer:
    """Sends messages if and only if a transaction in another database commits.

    `mq` is the broker, or several (AsyncBrokers), of which each transaction takes one; `group` the producer
    group, with any checker but `ledger`; `ledger` the SQLAlchemy URL (or engine) of the database of the business
    tables, where table mqpg_ledger lives. May be shared by threads.
    """

    def __init__(self, mq: AsyncClient | AsyncBrokers, *, group: str, ledger: str | URL | Engine | AsyncLedger) -> None:
        self.mq = mq
        self.brokers = AsyncBrokers.around(mq)
        self.group = group
        self.ledger = ledger if isinstance(ledger, AsyncLedger) else AsyncLedger(ledger)
        self._notes = DoneNotes(self.ledger)
        self._recoveries: dict[str, Recovery] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Write what is to be noted in the ledger and close it; clients stay open."""
        await self._notes.flush()
        await self.ledger.close()

    async def create_ledger(self) -> None:
        """Create table mqpg_ledger where it is not there."""
        await self.ledger.create()

    @asynccontextmanager
    async def transaction(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        tag: str | None = None,
        headers: Any = None,
        delay: Interval | None = None,
        conn: LocalCaller | None = None,
    ) -> AsyncGenerator[LocalTransaction]:
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
        mq, handle = await prepare_somewhere(self.brokers, key, self._prepare, *message)
        try:
            tx = await begin_local(mq, self.ledger, handle, topic, conn)
        except BaseException:
            await rollback_half(mq, handle)
            raise
        tx.group = self.group
        try:
            yield tx
            if tx.open:
                await commit_local(tx)
        except BaseException:
            # Not told where it is not known: recovery and check-back look into the ledger.
            if await tx.abandon():
                await tx.tell_rolled_back()
            raise
        finally:
            await tx.release()
        if tx.committed:
            await self._tell_committed(tx)

    async def _prepare(self, mq: AsyncClient, *message: Any) -> str:
        """Step 1, for a group that is not checked back in another ledger than this."""
        await mq._require_checker(self.group, "url", "due_checks", "function")
        return await prepare_half(mq, self.group, *message)

    async def _tell_committed(self, tx: LocalTransaction) -> None:
        """Steps 3 and 4."""
        if len(tx.handles) == 1:
            tx.outcome = await decide(tx.mq, tx.handle, tx.final_payload)
        else:
            outcomes = await decide_all(tx.mq, tx.handles, tx.final_payloads)
            tx.outcome = outcomes[tx.handle] if outcomes is not None else None
        if tx.outcome is not None:
            for handle in tx.handles:
                await mark_done(self._notes, handle)
        if tx.taken_back:
            await rollback_halves(tx.mq, tx.taken_back)

    async def recover(self, max_rows: int = 1000, older_than: timedelta = timedelta(seconds=5)) -> int:
        """One pass of step 5: send again the decisions of ledger rows that are not marked done.

        Each to the broker that its handle names; one that is away keeps its rows, and the others go on. Returns how
        many rows were settled; 0 says that nothing was left. Raises ConnectionFailed when no broker answers.
        """
        await self._notes.flush()

        async def settle(mq: AsyncClient) -> int:
            recovery = self._recoveries.setdefault(mq.dsn, Recovery(mq, self.ledger))
            return await recovery.run(max_rows, older_than)

        return await self.brokers.each(settle)

    async def run_recovery(self, stop: Event, interval: float = 5.0) -> None:
        """`recover` every `interval` seconds until `stop` is set, through restarts of either database."""
        await run_passes(self.recover, stop, interval, f"recovery of producer group {self.group}")


async def mark_done(notes: DoneNotes, handle: str) -> None:
    """Step 4: the ledger row need not be looked at again. Noted in batches, by one cheap transaction each."""
    await notes.add(handle)
