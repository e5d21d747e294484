"""What one audit is asked to read, and what it has read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame

from mqpg.spark.snapshot import Snapshot

__all__ = ["DROPPED_SEGMENTS", "AuditOptions", "Inputs", "Read", "foreign_offsets", "table_named"]

DROPPED_SEGMENTS = """
select lower_bound::bigint * 1024 as first_id, upper_bound::bigint * 1024 - 1 as last_id
from mqpg.segment where family = 'log' and body_dropped_at is not null
"""


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


@dataclass(frozen=True)
class Read:
    """One snapshot that was read: for the report."""

    role: str
    database: str
    snapshot: str
    taken_at: datetime


@dataclass
class Inputs:
    """Frames in the shapes of `schemas`, cached and sealed, and what is needed to interpret them."""

    frames: dict[str, DataFrame] = field(default_factory=dict)
    reads: list[Read] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    journalled: list[str] = field(default_factory=list)
    group_tolerance: dict[str, float] = field(default_factory=dict)
    ledger_tolerance: dict[str, float] = field(default_factory=dict)
    broker: dict[str, Any] = field(default_factory=dict)
    taken_at: datetime = datetime.min
    dropped: list[tuple[int, int]] = field(default_factory=list)
    complete: bool = True


def foreign_offsets(rows: list[dict[str, Any]], groups: list[str], broker_id: str, incarnation: int) -> list[str]:
    """Why offsets (consumer_group, broker, incarnation) are of another broker, or of a later life of this one."""
    doubts = []
    for group in groups:
        brokers = {row["broker"] for row in rows if row["consumer_group"] == group}
        if brokers and broker_id not in brokers:
            doubts.append(f"the offsets of group {group} belong to another broker, {min(brokers)}")
        lives = [row["incarnation"] for row in rows if (row["consumer_group"], row["broker"]) == (group, broker_id)]
        if lives and max(lives) > incarnation:
            doubts.append(
                f"the offsets of group {group} come from incarnation {max(lives)} of the broker, "
                f"which is at {incarnation}"
            )
    return doubts


def table_named(snapshot: Snapshot, name: str) -> tuple[str, str] | None:
    """Schema and name of a table as the connection's search_path finds it."""
    rows = snapshot.rows(
        "select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where c.oid = to_regclass(%s)",
        name,
    )
    return (rows[0]["nspname"], rows[0]["relname"]) if rows else None
