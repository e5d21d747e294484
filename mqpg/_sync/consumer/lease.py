# Generated from mqpg/_async/consumer/lease.py by tools/async_to_sync.py: change that file.
"""The lease of a delivery. The LeaseExtender extends it while the handler works (C3, and C1 with leases)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta

from mqpg._sync._acompat import call_soon
from mqpg._sync.client.client import Client
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

    def seconds(self, mq: Client) -> float:
        """The lease in seconds."""
        if isinstance(self.lease, timedelta):
            return self.lease.total_seconds()
        if not isinstance(self.lease, str):
            return self.lease
        if self._seconds is None:
            self._seconds = mq.queries.lease_seconds(self.lease)
        return self._seconds

    @contextmanager
    def extended(self, mq: Client, receipt: str) -> Generator[HeldLease]:
        """Extend the lease of a delivery until the body ends."""
        held = HeldLease(receipt, self.seconds(mq), self.handler, call_soon())
        extender = lease_extender(mq.dsn, mq.settings)
        extender.hold(held)
        try:
            yield held
        finally:
            extender.let_go(held)
