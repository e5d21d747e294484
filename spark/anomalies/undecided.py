"""undecided: half messages that were not decided in time."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .rows import anomaly_rows

__all__ = ["undecided"]


def undecided(
    messages: DataFrame, seen_ids: DataFrame, outbox: DataFrame, topics: DataFrame, *, overdue_before: str | None
) -> DataFrame:
    """Find half messages without a decision.

    Those with `seen_ids`, which are in a queue or applied, are early, and those of the outbox are
    unconfirmed. With `overdue_before` only those count whose check-back was due before this time.
    """
    halves = messages.where("kind = 'h' and state = 'undecided'")
    if overdue_before is not None:
        halves = halves.where(F.col("check_at") < F.lit(overdue_before).cast("timestamp"))
    unseen = halves.join(topics, "topic_id").join(seen_ids, "message_id", "left_anti")
    unseen = unseen.join(outbox.select("message_id"), "message_id", "left_anti")
    return anomaly_rows(
        "undecided",
        unseen,
        F.format_string(
            "no decision, prepared %s, check-back due %s",
            F.col("born_at").cast("string"),
            F.col("check_at").cast("string"),
        ),
    )
