"""The set-difference plan for ledgers in other databases (protocol T6), in Python.

`mqpg reconcile` does the same with Spark.

The plan finds nothing by mistake. The row of an open local transaction is not visible, a young row
is left to its producer, and each hit is looked up again before it is committed. Any number of
reconcilers may run at the same time, because a decision is made only once.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any, cast

from sqlalchemy import URL, select

from mqpg._async._acompat import Engine, Event
from mqpg._async.client.client import AsyncClient
from mqpg._async.closing import AsyncClosing
from mqpg._async.producer.brokers import AsyncBrokers
from mqpg._async.producer.loop import run_periodically
from mqpg._async.stores.ledger import AsyncLedger
from mqpg.user_tables.tables import clock, ledger
from mqpg.values.arguments import exactly_before
from mqpg.values.choices import UnsettledState
from mqpg.values.errors import ConnectionFailed, Error, LedgerError, SchemaError
from mqpg.values.messages import HalfState, Unsettled, Verdict

__all__ = ["AsyncReconciler"]

# forgotten: decided so long ago that the broker has dropped the decision.
_DECIDED = ("committed", "forgotten")

logger = logging.getLogger("mqpg")


class AsyncReconciler(AsyncClosing):
    """Compares a ledger with the brokers that its handles name.

    Args:
        mq: The broker, or several of them (AsyncBrokers).
        ledger: The SQLAlchemy URL or engine of the ledger's database, or an AsyncLedger.
        older_than: Leave younger rows to their producers; a minute by default.
        page: How many rows are compared at a time.
    """

    def __init__(
        self,
        mq: AsyncClient | AsyncBrokers,
        ledger: str | URL | Engine | AsyncLedger,
        *,
        older_than: timedelta = timedelta(minutes=1),
        page: int = 1000,
    ) -> None:
        self.brokers = AsyncBrokers._around(mq)
        self.ledger = ledger if isinstance(ledger, AsyncLedger) else AsyncLedger(ledger)
        self._older_than = older_than
        self._page = page

    async def close(self) -> None:
        """Close the connections to the ledger, unless its engine is the caller's.

        Clients stay open.
        """
        await self.ledger.close()

    async def step(self, settle: bool = True) -> list[Unsettled]:
        """Compare the whole ledger once.

        A broker that does not answer is left for the next time.

        Args:
            settle: Commit what is undecided. False only reports it.

        Returns:
            What was found, and what became of it.

        Raises:
            ConnectionFailed: No broker answers, or the ledger does not. What was committed before
                stays committed.
            LedgerError: The ledger's table is missing or not as it must be.
        """
        await self.ledger.verify()

        async def compare_with(mq: AsyncClient) -> list[Unsettled]:
            found: list[Unsettled] = []
            async for page in self._pages((await mq.info()).broker_id):
                found += await self._compare(mq, page, settle)
            return found

        answers = await self.brokers._visit(compare_with, self.brokers.endpoints)
        return [hit for found in answers.all() for hit in found]

    async def run(self, stop: Event, interval: float = 60.0) -> None:
        """Run `step` periodically. While a database is away it waits for it.

        Args:
            stop: An event that ends the loop when it is set.
            interval: Seconds between two comparisons.

        Raises:
            LedgerError: The ledger's table is missing or not as it must be.
            SchemaError: A broker's schema is missing, or this release cannot work with it.
        """

        async def step_and_log() -> int:
            for hit in await self.step():
                logger.warning("reconciliation: %s was %s: %s", hit.handle, hit.state, hit.outcome or "left alone")
            return 0

        await run_periodically(step_and_log, stop, interval, "reconciliation", fatal=(LedgerError, SchemaError))

    async def _pages(self, broker_id: str) -> AsyncGenerator[dict[str, str | None]]:
        """Topics by handle: local rows of a broker, in the order of the ledger's key."""
        last = ""
        while True:
            # A prefix, not a range: what is between two handles depends on the database's
            # collation.
            ours = ledger.c.handle.startswith(f"{broker_id}.", autoescape=True)
            query = select(ledger.c.handle, ledger.c.topic).where(ours, ledger.c.entry == "local")
            if last:
                query = query.where(ledger.c.handle > last)
            async with self.ledger.database.connect() as conn:
                now: Any = (await conn.execute(select(clock()))).scalar_one()
                query = query.where(ledger.c.created_at <= exactly_before(now, self._older_than))
                rows = (
                    await self.ledger.database.execute(conn, query.order_by(ledger.c.handle).limit(self._page))
                ).all()
            if rows:
                yield {row[0]: row[1] for row in rows}
            if len(rows) < self._page:
                return
            last = rows[-1][0]

    async def _compare(self, mq: AsyncClient, page: dict[str, str | None], settle: bool) -> list[Unsettled]:
        missing = [half for half in await mq.half_states(list(page)) if half.state not in _DECIDED]
        return [await self._commit(mq, half, page[half.handle], settle) for half in missing]

    async def _commit(self, mq: AsyncClient, half: HalfState, topic: str | None, settle: bool) -> Unsettled:
        outcome = None
        # Asking for the verdict makes sure that the local commit is on disk.
        if settle and half.state == "undecided" and await self.ledger.verdict(half.handle) is Verdict.COMMIT:
            payload = await self.ledger.final_payload(half.handle)
            try:
                outcome = await mq.commit(half.handle, payload)
            except ConnectionFailed:
                raise
            except Error as error:
                logger.error("reconciliation: %s stays, because its broker refuses it: %s", half.handle, error)
        state = cast("UnsettledState", "absent" if half.state == "unknown" else half.state)
        return Unsettled(half.handle, half.message_id, half.topic or topic, half.key, state, outcome)
