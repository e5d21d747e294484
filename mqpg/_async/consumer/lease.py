"""The lease of a delivery, which a heartbeat extends while the handler works (C3, and C1 with leases)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from mqpg._async._acompat import call_soon
from mqpg._async.client.client import AsyncClient
from mqpg.connection.lease_keeper import HeldLease, lease_keeper
from mqpg.values.messages import Interval

__all__ = ["Lease", "heartbeat"]


class Lease:
    """How long a consumer's leases are, and whose.

    A lease that is given as text is converted once, by the server.
    """

    def __init__(self, lease: Interval, handler: str) -> None:
        self.lease, self.handler = lease, handler
        self._seconds: float | None = None

    async def seconds(self, mq: AsyncClient) -> float:
        """The lease in seconds."""
        if isinstance(self.lease, timedelta):
            return self.lease.total_seconds()
        if not isinstance(self.lease, str):
            return self.lease
        if self._seconds is None:
            self._seconds = await mq.queries.lease_seconds(self.lease)
        return self._seconds


@asynccontextmanager
async def heartbeat(mq: AsyncClient, receipt: str, lease: Lease) -> AsyncGenerator[HeldLease]:
    """Extend the lease until the body ends."""
    seconds = await lease.seconds(mq)
    held = HeldLease(receipt, timedelta(seconds=seconds), seconds, lease.handler, call_soon())
    keeper = lease_keeper(mq.dsn, mq.settings)
    keeper.hold(held)
    try:
        yield held
    finally:
        keeper.let_go(held)
