"""The set-difference plan for ledgers in other databases (protocol T6), by Python; `mqpg reconcile` does it by Spark.

No stream is compared with another one, so nothing is found by mistake: an open local transaction's row is not visible,
a young row is left to its producer, and each hit is looked at again when it is settled. Any number of these may
run at once: a decision is made once, and the outcome says by whom.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL, select
from sqlalchemy.exc import SQLAlchemyError

from mqpg._async._io import Engine, Event, wait_for
from mqpg._async.brokers import AsyncBrokers
from mqpg._async.client import AsyncClient
from mqpg._async.ledger import AsyncLedger
from mqpg._tables import clock, ledger
from mqpg.errors import ConnectionFailed, Error, LedgerError, SchemaError
from mqpg.message import HalfState, Unsettled, Verdict

__all__ = ["AsyncReconciler"]

# forgotten: decided so long ago that the broker has dropped the decision.
_SETTLED = ("committed", "forgotten")

logger = logging.getLogger("mqpg")


class AsyncReconciler:
    """Compares a ledger with the brokers that its handles name.

    `older_than`: rows younger than this are left to their producer. `page`: rows compared at a time.
    """

    def __init__(
        self,
        mq: AsyncClient | AsyncBrokers,
        ledger: str | URL | Engine | AsyncLedger,
        *,
        older_than: timedelta = timedelta(minutes=1),
        page: int = 1000,
    ) -> None:
        self.brokers = AsyncBrokers.around(mq)
        self.ledger = ledger if isinstance(ledger, AsyncLedger) else AsyncLedger(ledger)
        self._older_than = older_than
        self._page = page

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections to the ledger, unless its engine is the caller's; clients stay open."""
        await self.ledger.close()

    async def step(self, settle: bool = True) -> list[Unsettled]:
        """One comparison of the whole ledger; what it found, and what became of it.

        A broker that does not answer is left for the next time. Raises ConnectionFailed when none does, or the
        ledger does not (what was settled stays so), and LedgerError.
        """
        await self.ledger.verified()
        found: list[Unsettled] = []
        failures = []
        for seat in self.brokers.seats:
            try:
                mq = await seat.client()
                async for page in self._pages((await mq.info()).broker_id):
                    found += await self._compare(mq, page, settle)
            except ConnectionFailed as error:  # the broker's, or the ledger's
                failures.append(error)
        if len(failures) == len(self.brokers.seats):
            raise failures[0]
        return found

    async def run(self, stop: Event, interval: float = 60.0) -> None:
        """`step` every `interval` seconds until `stop` is set; while a database is away it waits for it."""
        while not stop.is_set():
            try:
                for hit in await self.step():
                    logger.warning("reconciliation: %s was %s: %s", hit.handle, hit.state, hit.outcome or "left alone")
            except (LedgerError, SchemaError):
                raise
            except (Error, SQLAlchemyError) as error:
                logger.warning("reconciliation is suspended, a database is away: %s", error)
            await wait_for(stop, interval)

    async def _pages(self, broker_id: str) -> AsyncGenerator[dict[str, str | None]]:
        """Topics by handle: local rows of a broker, in the order of the ledger's key."""
        last = ""
        while True:
            # A prefix, not a range: what lies between two handles depends on the database's collation.
            ours = ledger.c.handle.startswith(f"{broker_id}.", autoescape=True)
            query = select(ledger.c.handle, ledger.c.topic).where(ours, ledger.c.entry == "local")
            if last:
                query = query.where(ledger.c.handle > last)
            try:
                async with self.ledger.database.engine.connect() as conn:
                    now: Any = (await conn.execute(select(clock()))).scalar_one()
                    query = query.where(ledger.c.created_at <= now - self._older_than)
                    rows = (await conn.execute(query.order_by(ledger.c.handle).limit(self._page))).all()
            except SQLAlchemyError as error:
                raise self.ledger.database.failure(error) from error
            if rows:
                yield {row[0]: row[1] for row in rows}
            if len(rows) < self._page:
                return
            last = rows[-1][0]

    async def _compare(self, mq: AsyncClient, page: dict[str, str | None], settle: bool) -> list[Unsettled]:
        missing = [half for half in await mq.half_states(list(page)) if half.state not in _SETTLED]
        return [await self._settle(mq, half, page[half.handle], settle) for half in missing]

    async def _settle(self, mq: AsyncClient, half: HalfState, topic: str | None, settle: bool) -> Unsettled:
        outcome = None
        # The verdict again: it makes sure that the local commit is on disk.
        if settle and half.state == "undecided" and await self.ledger.verdict(half.handle) is Verdict.COMMIT:
            payload = await self.ledger.final_payload(half.handle)
            try:
                outcome = await mq.commit(half.handle, payload)
            except ConnectionFailed:
                raise
            except Error as error:
                logger.error("reconciliation: %s stays, its broker refuses it: %s", half.handle, error)
        state = "absent" if half.state == "unknown" else half.state
        return Unsettled(half.handle, half.message_id, half.topic or topic, half.key, state, outcome)
