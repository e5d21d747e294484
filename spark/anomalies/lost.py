"""lost: committed, and passed over. Nacked and dead-lettered messages are accounted apart, not lost."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .rows import anomaly, together

__all__ = ["lost"]


def lost(known: DataFrame, placed: DataFrame, delivered: DataFrame, topics: DataFrame) -> DataFrame:
    """Messages expected in a queue and in none, and messages that a group passed without applying them."""
    return together(_not_appended(known, placed, topics), _passed(delivered), _dropped_in_retry(delivered))


def _not_appended(known: DataFrame, placed: DataFrame, topics: DataFrame) -> DataFrame:
    queued = placed.where("subscription_id = 0").select("message_id").distinct()
    missing = known.where("expected").join(topics, "topic_id").join(queued, "message_id", "left_anti")
    return anomaly(
        "lost",
        missing,
        F.format_string(
            "committed by transaction %s, which the newest tick has seen, but in no queue", F.col("commit_xid")
        ),
    )


def _passed(delivered: DataFrame) -> DataFrame:
    unseen = delivered.where(
        "lane = 0 and state = 'committed' and passed and times = 0 and retry_attempt is null and not dead"
    )
    return anomaly("lost", unseen, F.lit("the group's position is beyond it, but it was not applied"))


def _dropped_in_retry(delivered: DataFrame) -> DataFrame:
    # The last retry scheduled was handed out and settled, and neither the effect nor a dead letter is there.
    unseen = delivered.where(
        "lane > 0 and state = 'committed' and passed and times = 0 and retry_attempt <= attempt and not dead"
    )
    return anomaly("lost", unseen, F.format_string("retry %s was settled, but it was not applied", F.col("attempt")))
