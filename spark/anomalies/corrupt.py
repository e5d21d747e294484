"""corrupt: a record batch that is incomplete or changed, or a body of another message."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from .rows import anomaly_rows, union_rows

__all__ = ["corrupt"]


def corrupt(
    bodies: DataFrame,
    messages: DataFrame,
    entries: DataFrame,
    delayed: DataFrame,
    letters: DataFrame,
    topics: DataFrame,
) -> DataFrame:
    """Find record batches that are incomplete or changed, and names of other messages' bodies.

    There is at most one anomaly for each message.
    """
    named = messages.join(topics, "topic_id")
    found = union_rows(
        _incomplete(bodies, topics),
        _changed(bodies, topics),
        _wrong_final(named),
        _wrong_body(named, entries, delayed, letters),
    )
    first = Window.partitionBy("message_id").orderBy("evidence")
    return found.withColumn("nth", F.row_number().over(first)).where("nth = 1").drop("nth")


def _incomplete(bodies: DataFrame, topics: DataFrame) -> DataFrame:
    wrong = bodies.where("sizes is not null and (sizes[0] is null or exists(sizes, x -> x <> n))")
    return anomaly_rows(
        "corrupt",
        wrong.join(topics, "topic_id").withColumn("message_id", F.col("first_id")),
        F.format_string(
            "a record batch of %s messages has %s payloads, keys, tags and headers", "n", F.to_json("sizes")
        ),
    )


def _changed(bodies: DataFrame, topics: DataFrame) -> DataFrame:
    wrong = bodies.where("not intact and sizes[0] = n").join(topics, "topic_id")
    return anomaly_rows(
        "corrupt",
        wrong.withColumn("message_id", F.col("first_id")),
        F.format_string("the bodies of a record batch of %s messages do not match their checksum", "n"),
    )


def _finals(named: DataFrame) -> DataFrame:
    return named.where("kind = 'f'").select(F.col("message_id").alias("deliver_id"), F.col("xid").alias("final_xid"))


def _wrong_final(named: DataFrame) -> DataFrame:
    halves = named.where("kind = 'h' and deliver_id is not null")
    known = named.select(F.col("message_id").alias("deliver_id"), F.col("kind").alias("body_kind"))
    shared = Window.partitionBy("deliver_id")
    found = (
        halves.join(known, "deliver_id")
        .join(_finals(named), "deliver_id", "left")
        .withColumn("times", F.count(F.lit(1)).over(shared))
        .where("body_kind <> 'f' or final_xid <> commit_xid or times > 1")
    )
    return anomaly_rows(
        "corrupt", found, F.format_string("its decision names the body %s, which is another message's", "deliver_id")
    )


def _wrong_body(named: DataFrame, entries: DataFrame, delayed: DataFrame, letters: DataFrame) -> DataFrame:
    message = ["message_id"]
    queued = entries.where("state = 'committed'").select(*message, "body_id", F.lit("queue").alias("place"))
    waiting = delayed.select(
        F.col("first_id").alias("message_id"),
        F.coalesce("deliver_id", "first_id").alias("body_id"),
        F.lit("delayed row").alias("place"),
    )
    dead = letters.where("present").select(
        *message, F.col("deliver_id").alias("body_id"), F.lit("dead letter").alias("place")
    )
    final = named.select(*message, "topic", "state", F.coalesce("deliver_id", "message_id").alias("own_body"))
    # If the decision itself names another message's body, that is the fault.
    sound = final.join(_wrong_final(named).select("message_id"), "message_id", "left_anti")
    found = queued.unionByName(waiting).unionByName(dead).join(sound, "message_id").where("body_id <> own_body")
    return anomaly_rows(
        "corrupt", found, F.format_string("its %s names the body %s, which is another message's", "place", "body_id")
    )
