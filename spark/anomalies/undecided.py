"""undecided: half messages that nobody decided in time."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .rows import anomaly

__all__ = ["undecided"]


def undecided(known: DataFrame, seen: DataFrame, topics: DataFrame, *, overdue_before: str | None) -> DataFrame:
    """Half messages without a decision whose check was due before a time; with None, all of them.

    seen: ids in a queue or applied. Those are early, not undecided.
    """
    open_halves = known.where("kind = 'h' and state = 'undecided'")
    if overdue_before is not None:
        open_halves = open_halves.where(F.col("check_at") < F.lit(overdue_before).cast("timestamp"))
    unseen = open_halves.join(topics, "topic_id").join(seen, "message_id", "left_anti")
    return anomaly(
        "undecided",
        unseen,
        F.format_string(
            "no decision, prepared %s, check due %s", F.col("born_at").cast("string"), F.col("check_at").cast("string")
        ),
    )
