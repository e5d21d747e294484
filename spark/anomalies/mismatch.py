"""mismatch: two databases that contradict each other about one message."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..derive.messages import IdRanges, in_ranges
from .rows import anomaly_rows, union_rows

__all__ = ["mismatch"]


def mismatch(
    ledger_matches: DataFrame,
    effects: DataFrame,
    deliveries: DataFrame,
    dropped_ranges: IdRanges,
    *,
    unmatched_before: dict[str, str | None],
) -> DataFrame:
    """Find ledger rows and journal rows that the broker contradicts.

    The broker contradicts a ledger row by the other decision or by a missing half message. It
    contradicts a journal row by another message at its offset.

    Args:
        ledger_matches: Half messages matched with ledger rows.
        effects: Journal rows with the states of their messages.
        deliveries: Deliveries of the groups with a journal.
        dropped_ranges: The ids of messages that retention has dropped.
        unmatched_before: For each ledger the time before which the half message of a row must be in
            the broker's snapshot. None means that all rows must have one.

    Returns:
        The anomalies.
    """
    return union_rows(
        _contradicted(ledger_matches),
        _without_half(ledger_matches, dropped_ranges, unmatched_before),
        _misplaced(effects, deliveries),
    )


def _contradicted(ledger_matches: DataFrame) -> DataFrame:
    contradicted = ledger_matches.where("audited").where(
        "(entry = 'local' and state = 'rolled_back') or (entry = 'fence' and state = 'committed' and not seen)"
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
    ledger_matches: DataFrame, dropped_ranges: IdRanges, unmatched_before: dict[str, str | None]
) -> DataFrame:
    in_time = F.lit(False)
    for ledger, before in unmatched_before.items():
        old_enough = F.lit(True) if before is None else F.col("created_at") < F.lit(before).cast("timestamp")
        in_time |= (F.col("ledger") == ledger) & old_enough
    unmatched = ledger_matches.where("not audited and entry = 'local'").where(in_time)
    absent = unmatched.where(~in_ranges("message_id", dropped_ranges))
    return anomaly_rows(
        "mismatch", absent, F.format_string("the ledger %s says local, the broker has no such half message", "ledger")
    )


def _misplaced(effects: DataFrame, deliveries: DataFrame) -> DataFrame:
    keys = ["consumer_group", "topic_id", "queue_id", "queue_offset", "message_id"]
    queued = effects.where("state = 'committed' and expected").join(
        deliveries.select("topic_id", "message_id").distinct(), ["topic_id", "message_id"], "left_semi"
    )
    # Offsets below the oldest one are no longer in the queues. A journal may reach back further.
    oldest = deliveries.groupBy("consumer_group", "topic_id", "queue_id").agg(F.min("queue_offset").alias("oldest"))
    misplaced = (
        queued.join(deliveries.select(*keys), keys, "left_anti")
        .join(oldest, ["consumer_group", "topic_id", "queue_id"], "left")
        .where("oldest is null or queue_offset >= oldest")
    )
    return anomaly_rows(
        "mismatch", misplaced, F.lit("applied at this offset, but the queue has the message at another one")
    )
