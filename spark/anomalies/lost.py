"""lost: committed, and skipped.

Nacked messages and dead letters are not lost. `conservation` counts them on their own.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .rows import anomaly_rows, union_rows

__all__ = ["lost"]


def lost(messages: DataFrame, entries: DataFrame, deliveries: DataFrame, topics: DataFrame) -> DataFrame:
    """Find messages that are missing in the queues, and messages that a group did not apply.

    Args:
        messages: All messages with their states.
        entries: Queue entries with the states of their messages.
        deliveries: Deliveries of the groups with a journal.
        topics: The topics.

    Returns:
        The anomalies.
    """
    return union_rows(_not_appended(messages, entries, topics), _skipped(deliveries), _dropped_in_retry(deliveries))


def _not_appended(messages: DataFrame, entries: DataFrame, topics: DataFrame) -> DataFrame:
    queued = entries.where("subscription_id = 0").select("message_id").distinct()
    missing = messages.where("expected").join(topics, "topic_id").join(queued, "message_id", "left_anti")
    return anomaly_rows(
        "lost",
        missing,
        F.format_string(
            "committed by transaction %s, which the newest tick has seen, but in no queue", F.col("commit_xid")
        ),
    )


def _skipped(deliveries: DataFrame) -> DataFrame:
    skipped = deliveries.where(
        "lane = 0 and state = 'committed' and behind_position and times_applied = 0 "
        "and retry_attempt is null and not dead"
    )
    return anomaly_rows("lost", skipped, F.lit("the group's position is beyond it, but it was not applied"))


def _dropped_in_retry(deliveries: DataFrame) -> DataFrame:
    # The group has acknowledged the last scheduled retry, and there is neither an effect nor a dead
    # letter.
    unapplied = deliveries.where(
        "lane > 0 and state = 'committed' and behind_position and times_applied = 0 "
        "and retry_attempt <= attempt and not dead"
    )
    return anomaly_rows(
        "lost", unapplied, F.format_string("retry %s was acknowledged, but it was not applied", F.col("attempt"))
    )
