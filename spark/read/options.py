"""What one audit is asked to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

__all__ = ["AuditOptions"]


@dataclass(frozen=True)
class AuditOptions:
    """What to audit. ledgers: producer group -> URL; applied: consumer group -> URL; empty names mean all.

    drained: nothing runs any more, so nothing may be left open. slack: how long after its check is due a half
    may stay undecided. clock_tolerance: seconds by which the clocks of two servers may differ (default: none on
    one server cluster, 5 else). ledger_keep: ledger rows of decisions older than this may have been deleted.
    """

    dsn: str | None = None
    ledgers: Mapping[str, str] = field(default_factory=dict)
    applied: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    drained: bool = False
    slack: timedelta = timedelta(minutes=5)
    clock_tolerance: float | None = None
    ledger_keep: timedelta = timedelta(days=1)
    partitions: int = 2
    examples: int = 32
