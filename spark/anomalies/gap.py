"""gap: offsets or runs of the consume queues that do not follow one another."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from .rows import anomaly_rows, union_rows

__all__ = ["gap"]


def gap(
    queue_rows: DataFrame,
    positions: DataFrame,
    topics: DataFrame,
    *,
    complete: bool,
) -> DataFrame:
    """Find missing offsets, bad runs, and positions beyond the end of a queue.

    If no part of the queues was ever dropped (`complete`), each must begin at offset 0.
    """
    named = queue_rows.join(topics, "topic_id")
    return union_rows(_holes(named, complete), _bad_runs(named), _beyond_the_end(positions))


def _holes(named: DataFrame, complete: bool) -> DataFrame:
    before = (
        Window.partitionBy("topic_id", "subscription_id", "queue_id")
        .orderBy("base_offset", "tick_id")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    start = F.lit(0).cast("bigint") if complete else F.col("base_offset")
    ends = named.withColumn("expected", F.coalesce(F.max(F.col("base_offset") + F.col("n")).over(before), start))
    holes = ends.where("base_offset > expected").withColumn("queue_offset", F.col("expected"))
    return anomaly_rows(
        "gap", holes, F.format_string("no row holds the offsets %s to %s", F.col("expected"), F.col("base_offset") - 1)
    )


def _bad_runs(named: DataFrame) -> DataFrame:
    bad = named.where(~_consistent()).withColumn("queue_offset", F.col("base_offset"))
    return anomaly_rows(
        "gap",
        bad,
        F.format_string(
            "n = %s does not fit the runs %s at %s", F.col("n"), F.to_json("first_ids"), F.to_json("starts")
        ),
    )


def _consistent() -> Column:
    shape = F.expr("n > 0 and size(starts) = size(first_ids) and size(starts) > 0 and starts[0] = 0")
    rising = F.expr(
        "forall(zip_with(starts, concat(slice(starts, 2, greatest(size(starts) - 1, 0)), array(n)), "
        "(low, high) -> low < high), x -> x)"
    )
    one_batch = F.expr(
        "forall(zip_with(first_ids, zip_with(starts, concat(slice(starts, 2, greatest(size(starts) - 1, 0)), "
        "array(n)), (low, high) -> high - low), (id, len) -> (id & 1023) + len <= 1024), x -> x)"
    )
    return F.coalesce(shape & rising & one_batch, F.lit(False))


def _beyond_the_end(positions: DataFrame) -> DataFrame:
    beyond = positions.where("next_offset > tail").withColumn("queue_offset", F.col("tail"))
    return anomaly_rows(
        "gap",
        beyond,
        F.format_string(
            "the group's position %s is beyond the end of the queue, %s", F.col("next_offset"), F.col("tail")
        ),
    )
