# Generated from mqpg/_async/leases.py by tools/async_to_sync.py: change that file.
"""The heartbeat of a delivery: its lease is extended while the handler works (protocol C3)."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from mqpg._sql import statement
from mqpg._sync._io import Event, background, wait_for
from mqpg._sync.client import Client
from mqpg.errors import Error, ReceiptError
from mqpg.message import Interval

__all__ = ["Claim", "Lease", "kept"]

logger = logging.getLogger("mqpg")

_SECONDS = statement("select cast(extract(epoch from cast(%(lease)s as interval)) as float8)")


@dataclass(slots=True)
class Claim:
    """A delivery in hand. `lost`: the lease ended, say in a long outage, and somebody else has it now."""

    receipt: str
    lost: bool = False


class Lease:
    """How long a consumer's lease is; one that is given as text is the server's to read, once."""

    def __init__(self, lease: Interval) -> None:
        self.lease = lease
        self._seconds: float | None = None

    def seconds(self, mq: Client) -> float:
        """The same in seconds."""
        if isinstance(self.lease, timedelta):
            return self.lease.total_seconds()
        if not isinstance(self.lease, str):
            return self.lease
        if self._seconds is None:
            self._seconds = float(mq._value(_SECONDS, {"lease": self.lease}, repeat=True))
        return self._seconds


@contextmanager
def kept(mq: Client, receipt: str, lease: Interval, seconds: float) -> Generator[Claim]:
    """Extend the lease thrice in its length until the body ends, through restarts of the server."""
    claim = Claim(receipt)

    def beat(done: Event) -> None:
        pause = seconds / 3
        while not wait_for(done, pause):
            try:
                mq.extend(receipt, lease)
                pause = seconds / 3
            except ReceiptError as error:
                claim.lost = not done.is_set()
                logger.info("no more heartbeats: %s", error)
                return
            except Error as error:
                logger.warning("heartbeat of a delivery failed: %s", error)
                pause = min(1.0, seconds / 10)

    with background(beat):
        yield claim
