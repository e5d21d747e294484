"""What one audit reads, and what it tolerates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

__all__ = ["AuditOptions"]


@dataclass(frozen=True)
class AuditOptions:
    """The options of one audit.

    Attributes:
        dsn: The broker's DSN or URL. None means the one that the environment names.
        ledgers: The URL of each producer group's ledger. The ledger in the broker's own database
            is read without being named here.
        applied: The URL of the database where each consumer group keeps its journal. A journal in
            the broker's own database is read without being named here.
        topics: The topics to audit. Empty means all.
        groups: The consumer groups to audit. Empty means all.
        drained: Whether nothing is running any more, so that nothing may be left open.
        slack: How long a half message may stay undecided after its check-back is due.
        clock_tolerance: Seconds by which the clocks of two servers may differ. None means 0 for
            databases of one server cluster and 5 for all others.
        ledger_keep: Ledger rows of decisions older than this may have been deleted.
        partitions: The most partitions in which one query is read.
        examples: How many anomalies of each kind the report shows. The counts are always full.
        staging: The URI of a folder that Spark's driver and all executors share. None means a
            temporary folder of this machine, or the executors' own disks on a cluster.
        archive: The folder of an archive, from which dropped segments are read. The Spark engine
            also takes a URI. None means none.
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
    staging: str | None = None
    archive: str | Path | None = None
