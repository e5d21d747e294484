"""Looking for anomalies of every kind in the derived frames."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from mqpg.audit.kinds import KINDS
from mqpg.audit.options import AuditOptions

from .. import anomalies
from ..anomalies.rows import union_rows
from ..derive.frames import Frames
from ..read.inputs import AuditInputs

__all__ = ["add_findings", "count_anomalies", "searches"]


Search = Callable[[], DataFrame]


def searches(frames: Frames, inputs: AuditInputs, options: AuditOptions) -> list[Search]:
    """The searches for the anomalies of every kind, in parts that take about the same time.

    Planning takes longer than running them if the audit is small, so callers plan one part while another one
    runs. Each kind is in one part, and each function returns rows of `schemas.ANOMALY`.
    """
    return [partial(_of_messages, frames, inputs, options), partial(_of_witnesses, frames, inputs, options)]


def _of_messages(frames: Frames, inputs: AuditInputs, options: AuditOptions) -> DataFrame:
    """Look for messages that are lost, in excess, too early or in a wrong place."""
    purged_before = _purged_before(inputs, options)
    return union_rows(
        anomalies.lost(
            frames.messages,
            frames.entries,
            frames.deliveries,
            frames.delayed,
            frames.readers,
            frames.ticks,
            frames.topics,
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
            overdue_before=_overdue_before(inputs, options),
        ),
        anomalies.gap(frames.queue_rows, frames.positions, frames.topics, complete=inputs.complete),
        anomalies.deleted(frames.deleted),
        anomalies.misplaced(frames.messages, frames.entries, frames.growth),
    )


def _of_witnesses(frames: Frames, inputs: AuditInputs, options: AuditOptions) -> DataFrame:
    """Look for orders, ledgers, bodies, cursors and records that contradict each other."""
    unmatched_before = {
        ledger: None if options.drained else (inputs.taken_at - timedelta(seconds=seconds)).isoformat()
        for ledger, seconds in inputs.ledger_tolerance.items()
    }
    return union_rows(
        anomalies.disorder(
            frames.entries,
            frames.ticks,
            frames.decisions,
            frames.effects,
            frames.readers,
            frames.known_since,
            frames.released,
            frames.replays,
            frames.topics,
            tolerances=inputs.group_tolerance,
        ),
        anomalies.mismatch(
            frames.ledger_matches,
            frames.effects,
            frames.deliveries,
            frames.letters,
            frames.dropped_ranges,
            unmatched_before=unmatched_before,
            overdue_before=_overdue_before(inputs, options),
            newest_id=inputs.newest_id,
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
    )


def _purged_before(inputs: AuditInputs, options: AuditOptions) -> str:
    return (inputs.taken_at - options.ledger_keep).isoformat()


def _overdue_before(inputs: AuditInputs, options: AuditOptions) -> str | None:
    return None if options.drained else (inputs.taken_at - options.slack).isoformat()


def count_anomalies(found: DataFrame, examples: int) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Count the anomalies (`schemas.ANOMALY`) of each kind in full, and choose the first ones as examples."""
    kind = Window.partitionBy("kind")
    ranked = found.withColumn("total", F.count(F.lit(1)).over(kind)).withColumn(
        "rank", F.row_number().over(kind.orderBy("topic", "consumer_group", "queue_id", "queue_offset", "message_id"))
    )
    rows = [row.asDict() for row in ranked.where(F.col("rank") <= max(1, examples)).orderBy("kind", "rank").collect()]
    counts = dict.fromkeys(KINDS, 0) | {row["kind"]: row["total"] for row in rows}
    shown = [{name: value for name, value in row.items() if name not in ("total", "rank")} for row in rows]
    return counts, shown[:0] if examples == 0 else shown


def add_findings(*parts: tuple[dict[str, int], list[dict[str, Any]]]) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Add up what `count_anomalies` found in several parts. Each kind is in one part."""
    counts = {kind: sum(found[kind] for found, _ in parts) for kind in KINDS}
    return counts, sorted((row for _, shown in parts for row in shown), key=lambda row: str(row["kind"]))
