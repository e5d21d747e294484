"""dead_letter: dead letters that never failed, and dead letters that were applied."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .rows import anomaly_rows, union_rows

__all__ = ["dead_letter"]


def dead_letter(
    letters: DataFrame, failures: DataFrame, entries: DataFrame, effects: DataFrame, replays: DataFrame
) -> DataFrame:
    """Find dead letters without a failed delivery, and dead letters that the group also applied.

    Args:
        letters: What `derive_letters` returns.
        failures: What `derive_failures` returns.
        entries: Queue entries with the states of their messages.
        effects: Journal rows with the states of their messages.
        replays: How often a seek back delivered a message again.

    Returns:
        The anomalies.
    """
    return union_rows(_never_failed(letters, failures, entries), _applied(letters, failures, effects, replays))


def _never_failed(letters: DataFrame, failures: DataFrame, entries: DataFrame) -> DataFrame:
    failed = failures.select("subscription_id", "message_id").distinct()
    # If the queues no longer hold the message, its offset is unknown.
    queued = entries.select("message_id").distinct()
    unwitnessed = (
        letters.where("judged")
        .join(queued, "message_id", "left_semi")
        .join(failed, ["subscription_id", "message_id"], "left_anti")
    )
    return anomaly_rows(
        "dead_letter",
        unwitnessed,
        F.format_string("a dead letter of %s attempts, but no delivery of it failed", "attempts"),
    )


def _applied(letters: DataFrame, failures: DataFrame, effects: DataFrame, replays: DataFrame) -> DataFrame:
    # A consumer that was killed after its effect never acknowledged it. Its lease ends, and with it
    # the last attempt, so such a dead letter contradicts nothing. A nack says that nothing was
    # done.
    nacked = failures.where("action = 'nack'").select("subscription_id", "message_id").distinct()
    applied = effects.groupBy(F.col("owner_id").alias("subscription_id"), "message_id").agg(
        F.count(F.lit(1)).alias("times"),
        F.min("queue_id").alias("queue_id"),
        F.min("queue_offset").alias("queue_offset"),
    )
    found = (
        letters.where("present and mode <> 'broadcast'")
        .join(nacked, ["subscription_id", "message_id"], "left_semi")
        .join(applied, ["subscription_id", "message_id"])
        .join(replays, ["subscription_id", "message_id"], "left_anti")
    )
    return anomaly_rows("dead_letter", found, F.lit("a dead letter, but the group applied the message"))
