"""disorder: offsets or effects in another order than the commits."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from .rows import anomaly_rows, seconds_for, union_rows

__all__ = ["disorder"]


def disorder(
    entries: DataFrame,
    ticks: DataFrame,
    decisions: DataFrame,
    effects: DataFrame,
    readers: DataFrame,
    known_since: DataFrame,
    released: DataFrame,
    replays: DataFrame,
    topics: DataFrame,
    *,
    tolerances: dict[str, float],
) -> DataFrame:
    """Find messages that came too late, and offsets, decisions and effects out of order.

    Args:
        known_since: Since when the history of each queue's cursor is known.
        released: The offsets that each version of a cursor released.
        replays: How often a seek back delivered a message again.
        tolerances: Seconds by which the clock of each consumer group's database may differ.
    """
    own = entries.where("subscription_id = 0 and state = 'committed'")
    once = own.groupBy("message_id").agg(F.count(F.lit(1)).alias("times")).where("times = 1")
    placed = own.where("place is not null").join(once, "message_id", "left_semi")
    in_order = readers.where("mode in ('exclusive', 'pinned')").select("subscription_id", "on_failure")
    queues = known_since.join(in_order, "subscription_id")
    return union_rows(
        _within_a_tick(placed),
        _too_late(placed, ticks),
        _calls_out_of_order(decisions, topics),
        _effects_out_of_order(effects, queues, released, replays, seconds_for("consumer_group", tolerances)),
    )


def _within_a_tick(placed: DataFrame) -> DataFrame:
    rows = Window.partitionBy("topic_id", "queue_id", "tick_id").orderBy("queue_offset")
    lagged = placed.withColumn("place_before", F.lag("place").over(rows)).withColumn(
        "message_before", F.lag("message_id").over(rows)
    )
    return anomaly_rows(
        "disorder",
        lagged.where("place < place_before or (place = place_before and message_id < message_before)"),
        F.format_string(
            "behind message %s, which was committed later in the order of tick %s", "message_before", "tick_id"
        ),
    )


def _too_late(placed: DataFrame, ticks: DataFrame) -> DataFrame:
    before = ticks.select(
        (F.col("tick_id") + 1).alias("tick_id"), F.col("xmax").alias("xmax_before"), F.col("xip").alias("xip_before")
    )
    # Transaction ids up to 2 stand for rows of another cluster.
    seen = (F.col("commit_xid") < F.col("xmax_before")) & ~F.array_contains("xip_before", F.col("commit_xid"))
    return anomaly_rows(
        "disorder",
        placed.join(before, "tick_id").where(seen & (F.col("commit_xid") > 2)),
        F.format_string("appended by tick %s, although the tick before had seen its commit", "tick_id"),
    )


def _calls_out_of_order(decisions: DataFrame, topics: DataFrame) -> DataFrame:
    # Calls of one transaction follow one another. Those of two transactions may overlap.
    calls = (
        decisions.where("stage = 0 and xid > 2")
        .groupBy("xid", "at")
        .agg(
            F.min("order_no").alias("order_no"),
            F.min("message_id").alias("message_id"),
            F.min("topic_id").alias("topic_id"),
        )
    )
    before = Window.partitionBy("xid").orderBy("at")
    lagged = calls.withColumn("order_before", F.lag("order_no").over(before)).where("order_no < order_before")
    return anomaly_rows(
        "disorder",
        lagged.join(topics, "topic_id"),
        F.format_string("decided by order number %s after %s in one transaction", "order_no", "order_before"),
    )


def _effects_out_of_order(
    effects: DataFrame, queues: DataFrame, released: DataFrame, replays: DataFrame, tolerance: Column
) -> DataFrame:
    # A retry comes later than what was behind it. So does a message that a consumer left pending
    # while it acknowledged those behind it. What it acknowledged at once was still to be applied in
    # order.
    message = ["subscription_id", "message_id"]
    offset = ["subscription_id", "queue_id", "queue_offset"]
    ahead = released.where("action = 'ack' and ahead").groupBy(*offset).agg(F.max("version").alias("ahead_in"))
    owned = (
        effects.where("owner_id is not null").drop("subscription_id").withColumnRenamed("owner_id", "subscription_id")
    )
    repeated = owned.groupBy(*message).agg(F.count(F.lit(1)).alias("times")).where("times > 1")
    lead = (F.unix_micros(F.greatest("committed_at", "due_at")) - F.unix_micros("applied_at")) / 1e6
    own = (
        owned.where("queue_id >= 0 and state = 'committed'")
        .where(lead <= tolerance)
        .join(queues, ["subscription_id", "queue_id"])
        .where("known_since is null or applied_at > known_since")
        .join(repeated, message, "left_anti")
        .join(replays, message, "left_anti")
        .join(ahead, offset, "left")
    )
    by_key = own.where("key_hash is not null and on_failure <> 'block_queue'")
    by_queue = own.where("on_failure = 'block_queue'")
    return union_rows(
        _applied_before(by_key, "key_hash", "of its key"), _applied_before(by_queue, "topic_id", "of the queue")
    )


def _applied_before(own: DataFrame, group: str, what: str) -> DataFrame:
    before = (
        Window.partitionBy("subscription_id", "queue_id", group, "ahead_in")
        .orderBy("queue_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    late = own.withColumn("newest", F.max("applied_at").over(before)).where("newest > applied_at")
    return anomaly_rows("disorder", late, F.lit(f"applied before a message {what} with a lower offset"))
