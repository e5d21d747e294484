"""What one audit has read."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame

__all__ = ["AuditInputs", "SnapshotRecord", "foreign_offsets"]


@dataclass(frozen=True)
class SnapshotRecord:
    """One snapshot that was read, as the report names it.

    Attributes:
        role: What was read there: positions, consumer, broker, ledger.
        database: The database's name, without a password.
        snapshot: The snapshot as PostgreSQL writes it, or "one transaction".
        taken_at: The database's clock just before the snapshot. For a database other than
            PostgreSQL it is the clock of this machine.
    """

    role: str
    database: str
    snapshot: str
    taken_at: datetime


@dataclass
class AuditInputs:
    """The frames that were read, and what is needed to interpret them.

    Attributes:
        frames: The frames by the name of their query, with the columns of `schemas`.
        snapshots: The snapshots that were read, in order.
        rows: How many rows each query returned.
        doubts: Reasons why these snapshots cannot support a verdict.
        groups_with_journal: The consumer groups whose journal was read.
        group_tolerance: Seconds by which the clock of each consumer group's database may differ
            from the broker's.
        ledger_tolerance: The same for each ledger.
        broker: What the report says about the broker.
        taken_at: The broker's clock just before its snapshot.
        dropped_ranges: The ranges (first id, last id) of messages that retention has dropped.
        complete: Whether no part of the consume queues was ever dropped.
    """

    frames: dict[str, DataFrame] = field(default_factory=dict)
    snapshots: list[SnapshotRecord] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    groups_with_journal: list[str] = field(default_factory=list)
    group_tolerance: dict[str, float] = field(default_factory=dict)
    ledger_tolerance: dict[str, float] = field(default_factory=dict)
    broker: dict[str, Any] = field(default_factory=dict)
    taken_at: datetime = datetime.min
    dropped_ranges: list[tuple[int, int]] = field(default_factory=list)
    complete: bool = True


def foreign_offsets(rows: list[dict[str, Any]], groups: list[str], broker_id: str, incarnation: int) -> list[str]:
    """Find groups whose offsets cannot be compared with this broker.

    Offsets may belong to another broker only, or to a later incarnation of this one. The second
    happens when the broker was restored from a backup and the consumer's database was not.

    Args:
        rows: Rows with the columns consumer_group, broker, incarnation.
        groups: The consumer groups to look at.
        broker_id: The id of the audited broker.
        incarnation: Its present incarnation.

    Returns:
        One sentence for each such group.
    """
    doubts = []
    for group in groups:
        brokers = {row["broker"] for row in rows if row["consumer_group"] == group}
        if brokers and broker_id not in brokers:
            doubts.append(f"the offsets of group {group} belong to another broker, {min(brokers)}")
        incarnations = [
            row["incarnation"] for row in rows if (row["consumer_group"], row["broker"]) == (group, broker_id)
        ]
        if incarnations and max(incarnations) > incarnation:
            doubts.append(
                f"the offsets of group {group} come from incarnation {max(incarnations)} of the broker, "
                f"which is at {incarnation}"
            )
    return doubts
