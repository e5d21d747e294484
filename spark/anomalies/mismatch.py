"""mismatch: two databases that contradict each other about one message."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..derive.messages import IdRanges, in_ranges
from .rows import anomaly_rows, union_rows

__all__ = ["mismatch"]


def mismatch(
    ledger_matches: DataFrame,
    effects: DataFrame,
    deliveries: DataFrame,
    letters: DataFrame,
    dropped_ranges: IdRanges,
    *,
    unmatched_before: dict[str, str | None],
    overdue_before: str | None,
    newest_id: int,
) -> DataFrame:
    """Find ledger rows and journal rows that the broker contradicts.

    The broker contradicts a ledger row by the other decision or by a missing half message. It
    contradicts a journal row by another message at its offset.

    Args:
        unmatched_before: For each ledger the time before which the half message of a row must be in
            the broker's snapshot. None means that all rows must have one.
        overdue_before: Half messages whose check-back was due before this time are `undecided`.
            None means all.
        newest_id: The newest batch id at the time of the newest tick. A row of a ledger
            below it whose half message is missing is a `gap`.
    """
    return union_rows(
        _contradicted(ledger_matches),
        _without_half(ledger_matches, dropped_ranges, unmatched_before, newest_id),
        _done_without_decision(ledger_matches, unmatched_before, overdue_before),
        _at_another_offset(effects, deliveries, letters),
    )


def _contradicted(ledger_matches: DataFrame) -> DataFrame:
    contradicted = ledger_matches.where("audited").where(
        "not seen and ((entry = 'local' and state = 'rolled_back') "
        "or (entry = 'fence' and state = 'committed' and not expected))"
    )
    return anomaly_rows(
        "mismatch",
        contradicted,
        F.format_string(
            "the ledger %s says %s, the broker says %s (by the %s)",
            "ledger",
            "entry",
            F.translate("state", "_", " "),
            "decided_by",
        ),
    )


def _without_half(
    ledger_matches: DataFrame, dropped_ranges: IdRanges, unmatched_before: dict[str, str | None], newest_id: int
) -> DataFrame:
    unmatched = ledger_matches.where("not audited and entry = 'local'").where(_before("created_at", unmatched_before))
    absent = unmatched.where(~in_ranges("message_id", dropped_ranges)).where(f"message_id >> 10 > {newest_id}")
    return anomaly_rows(
        "mismatch", absent, F.format_string("the ledger %s says local, the broker has no such half message", "ledger")
    )


def _before(column: str, times: dict[str, str | None]) -> Column:
    """Return whether a row of a ledger is older than the broker's snapshot."""
    old = F.lit(False)
    for ledger, before in times.items():
        old_enough = F.col(column).isNotNull() if before is None else F.col(column) < F.lit(before).cast("timestamp")
        old |= (F.col("ledger") == ledger) & old_enough
    return old


def _done_without_decision(
    ledger_matches: DataFrame, unmatched_before: dict[str, str | None], overdue_before: str | None
) -> DataFrame:
    overdue = F.lit(True) if overdue_before is None else F.col("check_at") < F.lit(overdue_before).cast("timestamp")
    done = ledger_matches.where("audited and entry = 'local' and state = 'undecided' and not seen")
    return anomaly_rows(
        "mismatch",
        done.where(_before("done_at", unmatched_before) & ~overdue),
        F.format_string("the ledger %s says that the broker has the decision, and the broker has none", "ledger"),
    )


def _at_another_offset(effects: DataFrame, deliveries: DataFrame, letters: DataFrame) -> DataFrame:
    keys = ["subscription_id", "queue_id", "queue_offset", "message_id"]
    reader, life = ["consumer_group", "topic_id", "message_id"], ["subscription_id", "topic_id", "message_id"]
    # A subscription that has ended had a retry lane of its own, with its own offsets.
    present = effects.join(deliveries.select("subscription_id").distinct(), "subscription_id", "left_semi")
    queued = present.where("state = 'committed' and expected").join(
        deliveries.select(*reader).distinct(), reader, "left_semi"
    )
    # An effect that is there twice is a duplicate, wherever it says that it was.
    repeated = effects.groupBy(*life).agg(F.count(F.lit(1)).alias("times")).where("times > 1")
    queued = queued.join(repeated, life, "left_anti").join(letters.where("present"), reader, "left_anti")
    # Offsets below the oldest one are no longer in the queues. A journal may reach back further.
    oldest = F.broadcast(deliveries.groupBy("subscription_id", "queue_id").agg(F.min("queue_offset").alias("oldest")))
    elsewhere = (
        queued.join(deliveries.select(*keys), keys, "left_anti")
        .join(oldest, ["subscription_id", "queue_id"], "left")
        .where("oldest is null or queue_offset >= oldest")
    )
    return anomaly_rows(
        "mismatch", elsewhere, F.lit("applied at this offset, but the queue has the message at another one")
    )
