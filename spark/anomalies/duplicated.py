"""duplicated: more than once what must be there once."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .rows import anomaly_rows, union_rows

__all__ = ["duplicated"]


def duplicated(entries: DataFrame, effects: DataFrame, replays: DataFrame) -> DataFrame:
    """Find messages applied twice, messages at two offsets, and offsets with two messages.

    Each life of a subscription, and each member of a broadcast group, may apply a message once, and as many
    times more as a seek back delivered it again (`replays`).
    """
    return union_rows(_applied_twice(effects, replays), _two_offsets(entries), _offset_held_twice(entries))


def _applied_twice(effects: DataFrame, replays: DataFrame) -> DataFrame:
    allowed = replays.withColumnRenamed("times", "replayed")
    repeated = (
        effects.where("not unattributed")
        .groupBy("consumer_group", "topic", "subscription_id", "message_id")
        .agg(
            F.count(F.lit(1)).alias("times"),
            F.min("queue_id").alias("queue_id"),
            F.min("queue_offset").alias("queue_offset"),
        )
        .where("times > 1")
        .join(allowed, ["subscription_id", "message_id"], "left")
        .where("times > 1 + coalesce(replayed, 0)")
    )
    return anomaly_rows("duplicated", repeated, F.format_string("applied %s times", F.col("times")))


def _two_offsets(entries: DataFrame) -> DataFrame:
    offsets = entries.where("subscription_id = 0").select("topic", "message_id", "queue_id", "queue_offset").distinct()
    repeated = (
        offsets.groupBy("topic", "message_id")
        .agg(
            F.count(F.lit(1)).alias("times"),
            F.sort_array(F.collect_list(F.concat_ws(":", "queue_id", "queue_offset"))).alias("offsets"),
        )
        .where("times > 1")
    )
    return anomaly_rows("duplicated", repeated, F.concat(F.lit("at queue:offset "), F.concat_ws(", ", "offsets")))


def _offset_held_twice(entries: DataFrame) -> DataFrame:
    repeated = (
        entries.groupBy("topic", "subscription_id", "queue_id", "queue_offset")
        .agg(
            F.count(F.lit(1)).alias("times"),
            F.min("message_id").alias("message_id"),
            F.max("message_id").alias("other"),
        )
        .where("times > 1")
    )
    return anomaly_rows("duplicated", repeated, F.format_string("offset held %s times, also by %s", "times", "other"))
