"""Looking for anomalies of every kind in the derived frames."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from mqpg.audit.options import AuditOptions

from .. import anomalies
from ..derive.frames import Frames
from ..read.inputs import AuditInputs

__all__ = ["count_anomalies", "find_anomalies"]


def find_anomalies(frames: Frames, inputs: AuditInputs, options: AuditOptions) -> DataFrame:
    """Look for the anomalies of every kind.

    Args:
        frames: The derived frames.
        inputs: What was read.
        options: What is audited.

    Returns:
        Rows with the columns of `schemas.ANOMALY`.
    """
    now = inputs.taken_at
    purged_before = (now - options.ledger_keep).isoformat()
    unmatched_before = {
        ledger: None if options.drained else (now - timedelta(seconds=seconds)).isoformat()
        for ledger, seconds in inputs.ledger_tolerance.items()
    }
    overdue_before = None if options.drained else (now - options.slack).isoformat()
    found = [
        anomalies.lost(
            frames.messages, frames.entries, frames.deliveries, frames.delayed, frames.readers, frames.topics
        ),
        anomalies.duplicated(frames.entries, frames.effects, frames.replays),
        anomalies.phantom(
            frames.entries,
            frames.effects,
            frames.ledger_matches,
            frames.readers,
            purged_before=purged_before,
            newest_id=inputs.newest_id,
            had_others=inputs.had_other_subscriptions,
        ),
        anomalies.early(
            frames.entries,
            frames.effects,
            frames.ledger_matches,
            frames.ticks,
            frames.deliveries,
            frames.retry_times,
            tolerances=inputs.group_tolerance,
            ledger_tolerances=inputs.ledger_tolerance,
            purged_before=purged_before,
        ),
        anomalies.undecided(
            frames.messages,
            frames.seen_ids,
            frames.outbox,
            frames.topics,
            overdue_before=overdue_before,
        ),
        anomalies.gap(
            frames.queue_rows, frames.positions, frames.topics, complete=inputs.complete, deleted=frames.deleted
        ),
        anomalies.mismatch(
            frames.ledger_matches,
            frames.effects,
            frames.deliveries,
            frames.letters,
            frames.dropped_ranges,
            unmatched_before=unmatched_before,
            overdue_before=overdue_before,
            newest_id=inputs.newest_id,
        ),
        anomalies.misplaced(frames.messages, frames.entries, frames.topics),
        anomalies.disorder(
            frames.entries,
            frames.ticks,
            frames.decisions,
            frames.effects,
            frames.transitions,
            frames.replays,
            frames.topics,
            tolerances=inputs.group_tolerance,
        ),
        anomalies.corrupt(
            frames.bodies, frames.messages, frames.entries, frames.delayed, frames.letters, frames.topics
        ),
        anomalies.duplicate_send(frames.dedup, frames.messages, frames.topics, window=inputs.dedup_window),
        anomalies.cursor_faults(
            frames.transitions,
            frames.jumps,
            dropped_slots=inputs.dropped_slots,
            purged_before=inputs.jumps_purged_before.isoformat(),
        ),
        anomalies.dead_letter(frames.letters, frames.failures, frames.entries, frames.effects, frames.replays),
        anomalies.unconfirmed(frames.outbox, drained=options.drained),
        anomalies.unexplained(frames.jumps, frames.transitions, frames.known_since, frames.remains),
    ]
    everything = found[0]
    for frame in found[1:]:
        everything = everything.unionByName(frame)
    return everything


def count_anomalies(found: DataFrame, examples: int) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Count the anomalies of each kind, and choose examples.

    Args:
        found: What `find_anomalies` returns.
        examples: The most examples of each kind.

    Returns:
        The full count of each kind, and the first rows of each.
    """
    kind = Window.partitionBy("kind")
    ranked = found.withColumn("total", F.count(F.lit(1)).over(kind)).withColumn(
        "rank", F.row_number().over(kind.orderBy("topic", "consumer_group", "queue_id", "queue_offset", "message_id"))
    )
    rows = [row.asDict() for row in ranked.where(F.col("rank") <= max(1, examples)).orderBy("kind", "rank").collect()]
    counts = dict.fromkeys(anomalies.KINDS, 0) | {row["kind"]: row["total"] for row in rows}
    shown = [{name: value for name, value in row.items() if name not in ("total", "rank")} for row in rows]
    return counts, shown[:0] if examples == 0 else shown
