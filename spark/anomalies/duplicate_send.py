"""duplicate_send: one dedup id stored as two messages within its window."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .rows import anomaly_rows

__all__ = ["duplicate_send"]


def duplicate_send(dedup: DataFrame, messages: DataFrame, topics: DataFrame, *, window: float) -> DataFrame:
    """Find messages with one dedup id that were sent within one window of so many seconds."""
    # A send that loses against another one may leave its id in a slot. It has no message.
    stored = (
        dedup.groupBy("topic_id", "dedup_hash", "message_id")
        .agg(F.max("slot").alias("slot"))
        .join(messages.select("message_id", "born_at"), "message_id")
    )
    # An id is written into two slots of the length of the window. A call may wait between that and
    # its message, so the times of two legal sends may be a little less apart than the window.
    apart = (F.unix_micros("pair.later.born_at") - F.unix_micros("pair.earlier.born_at")) / 1e6
    pairs = F.expr(
        "zip_with(slice(sends, 1, size(sends) - 1), slice(sends, 2, size(sends)), "
        "(earlier, later) -> named_struct('earlier', earlier, 'later', later))"
    )
    found = (
        stored.groupBy("topic_id", "dedup_hash")
        .agg(F.array_sort(F.collect_list(F.struct("born_at", "message_id", "slot"))).alias("sends"))
        .where("size(sends) > 1")
        .select("topic_id", F.explode(pairs).alias("pair"))
        .where((apart < window / 2) | (F.col("pair.later.slot") - F.col("pair.earlier.slot") < 2))
        .withColumn("message_id", F.col("pair.later.message_id"))
        .join(topics, "topic_id")
    )
    return anomaly_rows(
        "duplicate_send", found, F.format_string("it has the dedup id of message %s", "pair.earlier.message_id")
    )
