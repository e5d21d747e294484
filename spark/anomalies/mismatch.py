"""mismatch: two databases that contradict each other about one message."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..derive.messages import Segments, in_segments
from .rows import anomaly, together

__all__ = ["mismatch"]


def mismatch(
    promised: DataFrame,
    applied: DataFrame,
    spots: DataFrame,
    dropped: Segments,
    *,
    strays_before: dict[str, str | None],
) -> DataFrame:
    """Ledger rows that the broker contradicts or never heard of, and journal rows at an offset of another message.

    promised: promises with `seen`; spots: entries that a journal may name; strays_before: per ledger the time
    before which a row's half message must be in the broker's snapshot, None for all rows; dropped: ranges of
    ids whose messages are dropped.
    """
    return together(_contradicted(promised), _unknown(promised, dropped, strays_before), _misplaced(applied, spots))


def _contradicted(promised: DataFrame) -> DataFrame:
    known = promised.where("asked").where(
        "(entry = 'local' and state = 'rolled_back') or (entry = 'fence' and state = 'committed' and not seen)"
    )
    return anomaly(
        "mismatch",
        known,
        F.format_string(
            "the ledger %s says %s, the broker says %s (by the %s)",
            "ledger",
            "entry",
            F.translate("state", "_", " "),
            "decided_by",
        ),
    )


def _unknown(promised: DataFrame, dropped: Segments, strays_before: dict[str, str | None]) -> DataFrame:
    in_time = F.lit(False)
    for ledger, before in strays_before.items():
        judged = F.lit(True) if before is None else F.col("created_at") < F.lit(before).cast("timestamp")
        in_time |= (F.col("ledger") == ledger) & judged
    strays = promised.where("not asked and entry = 'local'").where(in_time)
    unknown = strays.where(~in_segments("message_id", dropped))
    return anomaly(
        "mismatch", unknown, F.format_string("the ledger %s says local, the broker has no such half", "ledger")
    )


def _misplaced(applied: DataFrame, spots: DataFrame) -> DataFrame:
    keys = ["consumer_group", "topic_id", "queue_id", "queue_offset", "message_id"]
    elsewhere = applied.where("state = 'committed' and expected").join(
        spots.select("topic_id", "message_id").distinct(), ["topic_id", "message_id"], "left_semi"
    )
    # Offsets below the oldest are not in the queues any more, and a journal may be older than that.
    oldest = spots.groupBy("consumer_group", "topic_id", "queue_id").agg(F.min("queue_offset").alias("oldest"))
    wrong = (
        elsewhere.join(spots.select(*keys), keys, "left_anti")
        .join(oldest, ["consumer_group", "topic_id", "queue_id"], "left")
        .where("oldest is null or queue_offset >= oldest")
    )
    return anomaly("mismatch", wrong, F.lit("applied as of this offset, but the queue has the message elsewhere"))
