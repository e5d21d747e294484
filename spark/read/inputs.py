"""What one audit has read."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame

from mqpg.audit.archived import Archive
from mqpg.audit.report import NotJudged, SnapshotRecord

__all__ = ["AuditInputs", "foreign_offsets"]


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
        journal_rows: How many journal rows each consumer group has in the databases that were read.
        not_judged: What the audit cannot judge, as far as the reader knows.
        broker: What the report says about the broker.
        taken_at: The broker's clock just before its snapshot.
        dropped_ranges: The ranges (first id, last id) of messages that retention has dropped.
        all_topics: Whether all topics were read.
        floor_id: The batch id up to which the newest tick has seen everything.
        newest_id: The newest batch id at the time of the newest tick.
        segments: The bounds of the log's segments that retention has not dropped.
        had_other_subscriptions: Whether there may have been subscriptions that are gone.
        dropped_slots: The cursor slots that retention has dropped.
        jumps_purged_before: Position jumps from before this time may have been deleted.
        dedup_window: The window within which a dedup id stores one message, in seconds.
        complete: Whether no part of the consume queues was ever dropped.
        archive: What was read from an archive. None means that there is none.
        archived_ranges: The ranges (first id, last id) of messages that were read from an archive.
    """

    frames: dict[str, DataFrame] = field(default_factory=dict)
    snapshots: list[SnapshotRecord] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    groups_with_journal: list[str] = field(default_factory=list)
    journal_rows: dict[str, int] = field(default_factory=dict)
    not_judged: list[NotJudged] = field(default_factory=list)
    group_tolerance: dict[str, float] = field(default_factory=dict)
    ledger_tolerance: dict[str, float] = field(default_factory=dict)
    broker: dict[str, Any] = field(default_factory=dict)
    taken_at: datetime = datetime.min
    dropped_ranges: list[tuple[int, int]] = field(default_factory=list)
    all_topics: bool = True
    floor_id: int = 0
    newest_id: int = 0
    segments: list[tuple[int, int]] = field(default_factory=list)
    had_other_subscriptions: bool = True
    dropped_slots: list[int] = field(default_factory=list)
    jumps_purged_before: datetime = datetime.min
    dedup_window: float = 0.0
    complete: bool = True
    archive: Archive | None = None
    archived_ranges: list[tuple[int, int]] = field(default_factory=list)

    def rows_of(self, frame: str) -> int:
        """How many rows a frame has. Several queries, which are named after it, may read one frame."""
        return sum(rows for query, rows in self.rows.items() if query.split(" ")[0] in (frame, frame.rstrip("s")))


def foreign_offsets(rows: list[dict[str, Any]], groups: list[str], broker_id: str, incarnation: int) -> list[str]:
    """Find groups whose offsets cannot be compared with this broker, a sentence each.

    Offsets may belong to another broker only, or to a later incarnation of this one. The second happens when
    the broker was restored from a backup and the consumer's database was not. The rows have the columns
    consumer_group, broker and incarnation.
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
