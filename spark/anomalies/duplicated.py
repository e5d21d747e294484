"""duplicated: more than once what must be once."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .rows import anomaly, together

__all__ = ["duplicated"]


def duplicated(placed: DataFrame, applied: DataFrame, again: DataFrame) -> DataFrame:
    """Messages applied twice by a group, messages at two offsets of a topic's queues, offsets held twice.

    again: how often a seek back brought a message again; so often it may be applied once more.
    """
    return together(_applied_twice(applied, again), _two_offsets(placed), _offset_held_twice(placed))


def _applied_twice(applied: DataFrame, again: DataFrame) -> DataFrame:
    wanted = again.withColumnRenamed("times", "wanted")
    repeated = (
        applied.groupBy("consumer_group", "topic", "message_id")
        .agg(
            F.count(F.lit(1)).alias("times"),
            F.min("queue_id").alias("queue_id"),
            F.min("queue_offset").alias("queue_offset"),
        )
        .where("times > 1")
        .join(wanted, ["consumer_group", "topic", "message_id"], "left")
        .where("times > 1 + coalesce(wanted, 0)")
    )
    return anomaly("duplicated", repeated, F.format_string("applied %s times", F.col("times")))


def _two_offsets(placed: DataFrame) -> DataFrame:
    spots = placed.where("subscription_id = 0").select("topic", "message_id", "queue_id", "queue_offset").distinct()
    repeated = (
        spots.groupBy("topic", "message_id")
        .agg(
            F.count(F.lit(1)).alias("times"),
            F.sort_array(F.collect_list(F.concat_ws(":", "queue_id", "queue_offset"))).alias("spots"),
        )
        .where("times > 1")
    )
    return anomaly("duplicated", repeated, F.concat(F.lit("at queue:offset "), F.concat_ws(", ", "spots")))


def _offset_held_twice(placed: DataFrame) -> DataFrame:
    repeated = (
        placed.groupBy("topic", "subscription_id", "queue_id", "queue_offset")
        .agg(
            F.count(F.lit(1)).alias("times"),
            F.min("message_id").alias("message_id"),
            F.max("message_id").alias("other"),
        )
        .where("times > 1")
    )
    return anomaly("duplicated", repeated, F.format_string("offset held %s times, also by %s", "times", "other"))
