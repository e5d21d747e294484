"""misplaced: a message in another queue than its key's."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from .rows import anomaly_rows, union_rows

__all__ = ["misplaced"]


def misplaced(messages: DataFrame, entries: DataFrame, growth: DataFrame) -> DataFrame:
    """Find messages in another queue than the others of their key, or than their own record says.

    Where queues were added, the new number is a multiple of the first one. So a key has one queue before and
    one after, and one modulo the first number all the time. There is at most one anomaly for each message.
    """
    named = messages.join(growth, "topic_id")
    found = union_rows(_by_key(named), _in_another_queue(entries), _final_elsewhere(named))
    first = Window.partitionBy("message_id").orderBy("evidence")
    return found.withColumn("nth", F.row_number().over(first)).where("nth = 1").drop("nth")


def _by_key(named: DataFrame) -> DataFrame:
    batch = F.shiftright("message_id", 10)
    always = F.when(F.col("grown_from").isNull(), F.col("queue_id")).otherwise(
        F.col("queue_id") % F.col("first_queues")
    )
    era = F.when(batch < F.col("grown_from"), "before").when(batch > F.col("settled_batch"), "after")
    places = F.array(
        F.struct(F.lit("always").alias("era"), always.alias("own_queue")),
        F.struct(era.alias("era"), F.col("queue_id").alias("own_queue")),
    )
    keyed = named.where("key_hash is not null and kind <> 'f'").select("*", F.inline(places)).where("era is not null")
    of_key = ["topic_id", "key_hash", "era"]
    queues = keyed.groupBy(*of_key, "own_queue").agg(
        F.count(F.lit(1)).alias("messages"), F.min("message_id").alias("oldest")
    )
    ranked = queues.withColumn(
        "rank",
        F.row_number().over(Window.partitionBy(*of_key).orderBy(F.desc("messages"), "oldest")),
    )
    others = ranked.where("rank > 1").select(*of_key, "own_queue")
    return anomaly_rows(
        "misplaced",
        keyed.join(others, [*of_key, "own_queue"], "left_semi"),
        F.format_string("its record says queue %s, and other messages of its key are in another", "queue_id"),
    )


def _in_another_queue(entries: DataFrame) -> DataFrame:
    own = entries.where("subscription_id = 0 and state = 'committed'")
    # A message at two offsets is a duplicate.
    once = own.groupBy("message_id").agg(F.count(F.lit(1)).alias("times")).where("times = 1")
    elsewhere = own.where("queue_id <> stored_queue_id").join(once, "message_id", "left_semi")
    return anomaly_rows(
        "misplaced", elsewhere, F.format_string("in this queue, but its record says queue %s", "stored_queue_id")
    )


def _final_elsewhere(named: DataFrame) -> DataFrame:
    halves = named.where("kind = 'h' and op_queue_id is not null")
    finals = named.where("kind = 'f'").select(
        F.col("message_id").alias("deliver_id"), F.col("queue_id").alias("final_queue_id")
    )
    found = halves.join(finals, "deliver_id", "left").where("op_queue_id <> queue_id or final_queue_id <> queue_id")
    return anomaly_rows(
        "misplaced",
        found,
        F.format_string(
            "its record says queue %s, its decision queue %s, its final payload queue %s",
            F.col("queue_id"),
            F.col("op_queue_id"),
            F.coalesce("final_queue_id", "queue_id"),
        ),
    )
