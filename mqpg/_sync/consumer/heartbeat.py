# Generated from mqpg/_async/consumer/heartbeat.py by tools/async_to_sync.py: change that file.
"""The heartbeat of a delivery: its lease is extended while the handler works (protocol C3)."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from mqpg._sync._acompat import Event, background, wait_for
from mqpg._sync.client.client import Client
from mqpg.values.errors import Error, ReceiptError
from mqpg.values.messages import Interval

__all__ = ["ClaimedDelivery", "Lease", "heartbeat"]

logger = logging.getLogger("mqpg")


@dataclass(slots=True)
class ClaimedDelivery:
    """A delivery that this consumer works on.

    `lost`: the lease ended, and another consumer may have received it.
    """

    receipt: str
    lost: bool = False


class Lease:
    """How long a consumer's leases are.

    A lease that is given as text is converted once, by the server.
    """

    def __init__(self, lease: Interval) -> None:
        self.lease = lease
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
def heartbeat(mq: Client, receipt: str, lease: Lease) -> Generator[ClaimedDelivery]:
    """Extend the lease three times in its length until the body ends."""
    delivery, seconds = ClaimedDelivery(receipt), lease.seconds(mq)

    def beat(done: Event) -> None:
        pause = seconds / 3
        while not wait_for(done, pause):
            try:
                mq.extend(receipt, lease.lease)
                pause = seconds / 3
            except ReceiptError as error:
                delivery.lost = not done.is_set()
                logger.info("heartbeats of a delivery end: %s", error)
                return
            except Error as error:
                logger.warning("a heartbeat of a delivery failed: %s", error)
                pause = min(1.0, seconds / 10)

    with background(beat):
        yield delivery
