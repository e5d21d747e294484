"""What happened when: messages by intervals of time, and messages that committed late."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

__all__ = ["late_commits", "ticks_range", "timeline"]

_ACCURACY = 1000


def ticks_range(ticks: DataFrame) -> DataFrame:
    """The times of the first and the last tick, in one row, both null if there is no tick."""
    return ticks.agg(F.min("at").alias("first"), F.max("at").alias("last"))


def timeline(entries: DataFrame, deliveries: DataFrame, ticks: DataFrame, *, seconds: int) -> DataFrame:
    """Count messages by intervals, and measure how long after its commit each was.

    Returns:
        Rows (step, consumer_group, at, messages, p50, p99). The steps are committed, queued, owed
        (what the appender gave a group that has to apply it) and applied. The percentiles are
        approximate, and null for committed and owed.
    """
    appended = ticks.select("tick_id", F.col("at").alias("appended_at"))
    queued = entries.where("subscription_id = 0 and state = 'committed'").join(appended, "tick_id")
    queued = queued.withColumn("consumer_group", F.lit(None).cast("string"))
    owed = deliveries.where("lane = 0 and state = 'committed' and not dead").join(appended, "tick_id")
    committed_at = F.greatest("committed_at", "due_at")
    nothing = F.lit(None).cast("double")
    moments = [
        _moments(queued, "committed", committed_at, nothing),
        _moments(queued, "queued", F.col("appended_at"), _since(committed_at, "appended_at")),
        _moments(owed, "owed", F.col("appended_at"), nothing),
        _moments(owed, "applied", F.col("applied_at"), _since(committed_at, "applied_at")),
    ]
    rows = moments[0].unionByName(moments[1]).unionByName(moments[2]).unionByName(moments[3]).where("at is not null")
    start = F.timestamp_seconds(F.floor(F.unix_micros("at") / F.lit(1_000_000 * seconds)) * seconds)
    return rows.groupBy("step", "consumer_group", start.alias("at")).agg(
        F.count(F.lit(1)).alias("messages"),
        F.percentile_approx("seconds", 0.5, _ACCURACY).alias("p50"),
        F.percentile_approx("seconds", 0.99, _ACCURACY).alias("p99"),
    )


def late_commits(entries: DataFrame) -> DataFrame:
    """Count messages that were appended after a message of their topic with a greater id.

    Their transactions committed later than they took the id. Delayed messages do not count.

    Returns:
        Rows (topic, messages, most_batches). most_batches is the greatest number of record batches
        between such a message and the newest one that was appended before it.
    """
    own = entries.where("subscription_id = 0")
    newest = own.groupBy("topic", "tick_id").agg(F.max("message_id").alias("newest"))
    before = Window.partitionBy("topic").orderBy("tick_id").rowsBetween(Window.unboundedPreceding, -1)
    earlier = newest.select("topic", "tick_id", F.max("newest").over(before).alias("earlier"))
    distance = F.shiftright("earlier", 10) - F.shiftright("message_id", 10)
    late = own.where("state = 'committed' and due_at is null").join(earlier, ["topic", "tick_id"])
    return (
        late.withColumn("distance", distance)
        .where("distance > 0")
        .groupBy("topic")
        .agg(F.count(F.lit(1)).alias("messages"), F.max("distance").alias("most_batches"))
    )


def _moments(frame: DataFrame, step: str, at: Column, seconds: Column) -> DataFrame:
    return frame.select(F.lit(step).alias("step"), "consumer_group", at.alias("at"), seconds.alias("seconds"))


def _since(start: Column, end: str) -> Column:
    return (F.unix_micros(end) - F.unix_micros(start)) / 1e6
