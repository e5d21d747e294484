"""Batch ids without a row: how many there are, and which of them another table names.

A transaction that rolled back leaves such a hole too, so a hole alone proves nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .messages import IdRanges, expand_batches, in_ranges

__all__ = ["count_holes", "derive_deleted", "derive_first_sends"]


def derive_deleted(
    messages: DataFrame, witnesses: dict[str, DataFrame], dropped_ranges: IdRanges, *, newest_id: int
) -> DataFrame:
    """Find messages that another table names although the log has no row for them.

    `witnesses` are frames with a column `message_id`, or `first_id` and `n`, by the names of the tables.
    `newest_id` is the newest batch id at the time of the newest tick. Returns rows (message_id, witnesses,
    consumer_group, topic).
    """
    parts = []
    for name, frame in witnesses.items():
        rows = expand_batches(frame) if "first_id" in frame.columns else frame
        columns = [
            F.col(c) if c in rows.columns else F.lit(None).cast("string").alias(c) for c in ("consumer_group", "topic")
        ]
        parts.append(rows.select("message_id", F.lit(name).alias("witness"), *columns))
    named = functools.reduce(DataFrame.unionByName, parts)
    named = named.where(f"message_id >> 10 <= {newest_id}").where(~in_ranges("message_id", dropped_ranges))
    return (
        named.join(messages.select("message_id"), "message_id", "left_anti")
        .groupBy("message_id")
        .agg(
            F.collect_set("witness").alias("witnesses"),
            F.max("consumer_group").alias("consumer_group"),
            F.max("topic").alias("topic"),
        )
    )


def derive_first_sends(dedup: DataFrame) -> DataFrame:
    """List the messages that dedup ids prove to be stored.

    A send writes its id into two slots. One that loses against another send, at the boundary of a
    slot, has its id in one slot only, and no message.
    """
    slots = dedup.groupBy("topic_id", "dedup_hash", "message_id").agg(F.count_distinct("slot").alias("slots"))
    return slots.where("slots > 1").select("message_id")


def count_holes(
    bodies: DataFrame, decisions: DataFrame, segments: Sequence[tuple[int, int]], *, floor_id: int
) -> DataFrame:
    """Count the batch ids without a row that lie between two others of one segment.

    A segment that is closed early skips the rest of its ids, so nothing is known of what lies
    behind its last row.

    Args:
        decisions: Rows with the columns of `schemas.DECISIONS`. Their order numbers come from the
            same sequence.
        segments: The bounds of the segments that retention has not dropped, upper bounds excluded.
        floor_id: The batch id up to which the newest tick has seen everything.
    """
    given = bodies.select(F.expr("first_id >> 10").alias("id")).unionByName(
        decisions.select(F.col("order_no").alias("id"))
    )
    segment = F.lit(None).cast("bigint")
    for lower, upper in segments:
        segment = F.when((F.col("id") >= lower) & (F.col("id") < upper), F.lit(lower)).otherwise(segment)
    return (
        given.where(F.col("id") <= floor_id)
        .distinct()
        .withColumn("segment", segment)
        .where("segment is not null")
        .groupBy("segment")
        .agg((F.max("id") - F.min("id") + 1 - F.count(F.lit(1))).alias("missing"))
        .agg(F.coalesce(F.sum("missing"), F.lit(0)).alias("holes"))
    )
