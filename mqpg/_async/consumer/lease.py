"""The lease of a delivery. The LeaseExtender extends it while the handler works (C3, and C1 with leases)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from mqpg._async._acompat import call_soon
from mqpg._async.client.client import AsyncClient
from mqpg.connection.lease_extender import HeldLease, lease_extender
from mqpg.values.messages import Interval

__all__ = ["Lease"]


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
    async def extended(self, mq: AsyncClient, receipt: str) -> AsyncGenerator[HeldLease]:
        """Extend the lease of a delivery until the body ends."""
        held = HeldLease(receipt, await self.seconds(mq), self.handler, call_soon())
        extender = lease_extender(mq.dsn, mq.settings)
        extender.hold(held)
        try:
            yield held
        finally:
            extender.let_go(held)
