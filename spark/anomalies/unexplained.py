"""unexplained: an excuse without a second witness."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .rows import anomaly_rows, union_rows

__all__ = ["unexplained"]


def unexplained(jumps: DataFrame, transitions: DataFrame, known_since: DataFrame, remains: DataFrame) -> DataFrame:
    """Find position jumps that no cursor took, and dropped segments whose rows are still there.

    Args:
        jumps: Rows with the columns of `schemas.JUMPS`.
        transitions: What `derive_transitions` returns.
        known_since: What `derive_known_since` returns.
        remains: Rows with the columns of `schemas.REMAINS`.

    Returns:
        The anomalies.
    """
    return union_rows(_never_taken(jumps, transitions, known_since), _not_dropped(remains))


def _never_taken(jumps: DataFrame, transitions: DataFrame, known_since: DataFrame) -> DataFrame:
    queue = ["subscription_id", "queue_id"]
    moves = transitions.where("step = 'next' and action in ('moved', 'expired')").select(
        *queue, "action", "previous_committed", "previous_claimed", "claimed"
    )
    back = (
        F.col("back") & (F.col("previous_claimed") >= F.col("to_offset")) & (F.col("claimed") <= F.col("from_offset"))
    )
    # Ranges that expired one after the other share a row.
    expired = (F.col("why") == "expired") & (F.col("action") == "expired")
    expired &= (F.col("previous_claimed") < F.col("to_offset")) & (F.col("claimed") > F.col("from_offset"))
    forward = ~F.col("back") & (F.col("why") != "expired") & (F.col("action") == "moved")
    forward &= F.col("previous_committed") <= F.col("from_offset")
    forward &= F.greatest("claimed", "previous_claimed") >= F.col("to_offset")
    taken = jumps.join(moves, queue).where(back | expired | forward).select("jump_id").distinct()
    # A subscription that is gone has no history that could be a witness.
    judged = jumps.join(known_since, queue).where("known_since is null or at > known_since")
    found = judged.join(taken, "jump_id", "left_anti").withColumn("queue_offset", F.col("from_offset"))
    return anomaly_rows(
        "unexplained",
        found,
        F.format_string(
            "a position jump %sover the offsets %s to %s (%s), but no version of the cursor made it",
            F.when(F.col("back"), "back ").otherwise(""),
            F.col("from_offset"),
            F.col("to_offset") - 1,
            F.col("why"),
        ),
    )


def _not_dropped(remains: DataFrame) -> DataFrame:
    return anomaly_rows(
        "unexplained",
        remains,
        F.format_string("segment %s of %s is marked as dropped, but its rows are there", "segment_no", "family"),
    )
