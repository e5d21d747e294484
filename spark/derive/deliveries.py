"""From rows as stored to what the consumer groups did: where each stands, and one row per delivery."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .messages import expand

__all__ = ["deliveries", "positions", "retries"]


def retries(
    delayed: DataFrame, lanes: DataFrame, deferred: DataFrame, subscriptions: DataFrame, topics: DataFrame
) -> DataFrame:
    """Per subscription and message the highest attempt that a retry was scheduled for: the nacked ones.

    What a group's own database defers counts too: it is nacked only after the local transaction.
    """
    scheduled = expand(delayed.where("subscription_id > 0")).select("subscription_id", "message_id", "attempt")
    seen = lanes.select("subscription_id", "message_id", "attempt")
    aside = deferred.join(topics, "topic").join(subscriptions, ["consumer_group", "topic_id"])
    aside = aside.select("subscription_id", "message_id", F.lit(1).alias("attempt"))
    rows = scheduled.unionByName(seen).unionByName(aside)
    return rows.groupBy("subscription_id", "message_id").agg(F.max("attempt").cast("int").alias("attempt"))


def positions(
    subscriptions: DataFrame, cursors: DataFrame, offsets: DataFrame, topics: DataFrame, queue_rows: DataFrame
) -> DataFrame:
    """Per group, topic and queue: where it started, how far it is, and the end of the queue.

    The group's own offset counts where it keeps one, the broker's cursor otherwise. A start that is not
    recorded any more is the oldest offset left (start 'earliest' began no later than there), or unknown, null,
    for a group that started at 'latest'.
    """
    local = offsets.join(topics, "topic").select("consumer_group", "topic_id", "queue_id", "next_offset")
    ends = (
        queue_rows.groupBy("topic_id", "subscription_id", "queue_id")
        .agg(F.min("base_offset").alias("oldest"), F.max(F.col("base_offset") + F.col("n")).alias("tail"))
        .withColumnRenamed("subscription_id", "lane")
    )
    joined = (
        subscriptions.join(cursors, "subscription_id")
        .join(topics, "topic_id")
        .join(local, ["consumer_group", "topic_id", "queue_id"], "left")
        .withColumn("lane", F.when(F.col("queue_id") < 0, F.col("subscription_id")).otherwise(F.lit(0)))
        .join(ends, ["topic_id", "lane", "queue_id"], "left")
    )
    begun = F.coalesce("start_offset", F.when(F.col("start") == "earliest", F.coalesce("oldest", F.lit(0))))
    return joined.select(
        "consumer_group",
        "topic",
        "topic_id",
        "subscription_id",
        "lane",
        "queue_id",
        "committed",
        F.col("next_offset").alias("local_offset"),
        F.coalesce("next_offset", "committed").alias("next_offset"),
        begun.alias("start_offset"),
        F.coalesce("tail", "committed").alias("tail"),
    )


def deliveries(
    placed: DataFrame, where: DataFrame, applied: DataFrame, retried: DataFrame, dead: DataFrame
) -> DataFrame:
    """One row per group and offset of its topics from its start on, with what the group did about it.

    placed: entries with states; where: positions of groups that keep a journal. times is how often the
    journal has the message; passed that the group's position lies beyond the offset.
    """
    journal = (
        applied.where("topic_id is not null")
        .groupBy("consumer_group", "topic_id", "message_id")
        .agg(
            F.count(F.lit(1)).alias("times"),
            F.min("applied_at").alias("applied_at"),
            F.min("queue_offset").alias("at_offset"),
        )
    )
    first_seen = (
        applied.where("queue_id >= 0")
        .groupBy("consumer_group", "topic_id", "queue_id")
        .agg(F.min("queue_offset").alias("first_applied"))
    )
    spots = (
        where.join(first_seen, ["consumer_group", "topic_id", "queue_id"], "left")
        .withColumn("start_offset", F.coalesce("start_offset", "first_applied", "next_offset"))
        .drop("first_applied", "topic")
    )
    rows = placed.withColumnRenamed("subscription_id", "lane").join(spots, ["topic_id", "lane", "queue_id"])
    rows = rows.where("queue_offset >= start_offset")
    rows = rows.join(journal, ["consumer_group", "topic_id", "message_id"], "left")
    rows = rows.join(
        retried.withColumnRenamed("attempt", "retry_attempt"), ["subscription_id", "message_id"], "left"
    ).join(
        dead.select("subscription_id", "message_id", F.lit(True).alias("died")),
        ["subscription_id", "message_id"],
        "left",
    )
    return rows.select(
        "consumer_group",
        "topic",
        "topic_id",
        "subscription_id",
        "lane",
        "queue_id",
        "queue_offset",
        "message_id",
        "tick_id",
        "attempt",
        "state",
        "committed_at",
        "due_at",
        "applied_at",
        "retry_attempt",
        F.coalesce("times", F.lit(0)).alias("times"),
        F.col("died").isNotNull().alias("dead"),
        (F.col("queue_offset") < F.col("next_offset")).alias("passed"),
    )
