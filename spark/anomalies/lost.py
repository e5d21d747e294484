"""lost: committed, and skipped.

Nacked messages and dead letters are not lost. `conservation` counts them on their own.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..derive.deliveries import APPENDED
from ..derive.messages import expand_batches
from .rows import anomaly_rows, union_rows

__all__ = ["lost"]


def lost(
    messages: DataFrame,
    entries: DataFrame,
    deliveries: DataFrame,
    delayed: DataFrame,
    readers: DataFrame,
    ticks: DataFrame,
    topics: DataFrame,
) -> DataFrame:
    """Find messages that are missing in the queues, and messages that a group did not apply.

    Args:
        messages: All messages with their states.
        entries: Queue entries with the states of their messages.
        deliveries: Deliveries of the groups with a journal.
        delayed: Rows with the columns of `schemas.DELAYED`.
        readers: Rows with the columns of `schemas.READERS`.
        ticks: Rows with the columns of `schemas.TICKS`.
        topics: The topics.

    Returns:
        The anomalies.
    """
    return union_rows(
        _not_appended(messages, entries, topics),
        _skipped(deliveries),
        _dropped_in_retry(deliveries),
        _retry_not_appended(delayed, entries, readers, ticks),
    )


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
        "lane = 0 and state in ('committed', 'expired') and behind_position and times_applied = 0 "
        "and retry_attempt is null and not dead and not unjudged"
    )
    dropped = F.when(F.col("state") == "expired", ", and retention has dropped its body").otherwise("")
    return anomaly_rows(
        "lost", skipped, F.concat(F.lit("the group's position is beyond it, but it was not applied"), dropped)
    )


def _dropped_in_retry(deliveries: DataFrame) -> DataFrame:
    # The group has acknowledged the last retry, and there is neither an effect nor a dead letter.
    unapplied = deliveries.where(
        "lane > 0 and state = 'committed' and behind_position and times_applied = 0 and last_retry and not dead"
    )
    return anomaly_rows(
        "lost", unapplied, F.format_string("retry %s was acknowledged, but it was not applied", F.col("attempt"))
    )


def _retry_not_appended(delayed: DataFrame, entries: DataFrame, readers: DataFrame, ticks: DataFrame) -> DataFrame:
    retries = delayed.where("subscription_id > 0 and due and covered and not may_be_dropped")
    present = retries.join(readers.drop("topic_id"), "subscription_id").where(
        "written_at is null or retries_from is null or written_at >= retries_from"
    )
    keys = ["subscription_id", "message_id", "attempt"]
    delivered = entries.where("subscription_id > 0").join(ticks, "tick_id", "left")
    delivered = delivered.select(*(F.col(key).alias(f"delivered_{key}") for key in keys), "due_until", "xmax", "xip")
    # A redriven message may have been delivered by the same attempt before.
    same = " and ".join(f"{key} = delivered_{key}" for key in keys)
    return anomaly_rows(
        "lost",
        expand_batches(present).join(delivered, F.expr(f"{same} and coalesce({APPENDED}, true)"), "left_anti"),
        F.format_string(
            "attempt %s was due at %s, which the newest tick has passed, but it is in no retry lane",
            F.col("attempt"),
            F.col("visible_at").cast("string"),
        ),
    )
