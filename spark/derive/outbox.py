"""The outboxes of producers: which message of the broker each row stands for.

A row is deleted when its broker has the message for good (FastMiniMQ's P7, or P4 of QoS 1). So a
half message that was committed and has no row is confirmed.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

__all__ = ["derive_outbox", "match_outbox"]


def derive_outbox(outbox: DataFrame, dedup: DataFrame, messages: DataFrame, topics: DataFrame) -> DataFrame:
    """Find for each row of an outbox the message at the broker.

    A row names the handle from the local commit on. Before that, the row's id is the dedup id of its message.
    The columns `message_id`, `kind` and `message_state` are null if the broker has no such message.
    """
    slots = dedup.groupBy("topic_id", "dedup_hash").agg(F.max_by("message_id", "slot").alias("sent_id"))
    facts = messages.select("message_id", "kind", F.col("state").alias("message_state"))
    named = outbox.join(topics, "topic").join(slots, ["topic_id", "dedup_hash"], "left")
    return named.withColumn("message_id", F.coalesce("handle_id", "sent_id")).join(facts, "message_id", "left")


def match_outbox(messages: DataFrame, outbox: DataFrame, outbox_groups: DataFrame) -> DataFrame:
    """Match the half messages of producers with an outbox, as `match_ledger` does for a ledger.

    Returns:
        One row for each half message. `entry` is local if the outbox says commit, or if the
        half message is committed and the outbox has no row any more, which also counts as done. It
        is a fence if the outbox says rollback.
    """
    halves = messages.where("kind = 'h'").select(
        "message_id",
        "topic_id",
        "producer_group_id",
        F.when(F.col("state") == "relayed", "committed").otherwise(F.col("state")).alias("state"),
        "relayed_as",
        "decided_at",
        "decided_by",
        "committed_at",
        "check_at",
        "expected",
        "may_be_dropped",
    )
    rows = outbox.select("ledger", "message_id", F.col("state").alias("row_state"))
    joined = halves.join(outbox_groups, "producer_group_id").join(rows, ["ledger", "message_id"], "left")
    confirmed = F.col("row_state").isNull() & (F.col("state") == "committed")
    entry = (
        F.when((F.col("row_state") == "commit") | confirmed, "local")
        .when(F.col("row_state") == "rollback", "fence")
        .otherwise(None)
    )
    matched = (
        joined.withColumn("entry", entry)
        .withColumn("done_at", F.when(confirmed, F.col("decided_at")))
        .withColumn("created_at", F.lit(None).cast("timestamp"))
        .withColumn("handle_hash", F.lit(None).cast("string"))
        .withColumn("audited", F.lit(True))
    )
    return matched.withColumn("message_id", F.coalesce("relayed_as", "message_id")).drop("relayed_as", "row_state")
