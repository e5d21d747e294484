"""What the consumer groups did: their positions, and one row for each delivery."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .messages import IdRanges, expand_batches, in_ranges

__all__ = [
    "APPENDED",
    "add_dropped_replays",
    "add_lives",
    "derive_deliveries",
    "derive_positions",
    "derive_retries",
    "derive_retry_times",
]

# Whether a tick has appended a scheduled retry: it has seen its transaction, and reached its time.
APPENDED = "visible_at <= due_until and xid < xmax and not array_contains(xip, xid)"


def add_lives(journal: DataFrame, subscriptions: DataFrame, offsets: DataFrame, topics: DataFrame) -> DataFrame:
    """Say for each journal row which life of which subscription applied the message.

    A name that is subscribed again is a new subscription, and so is each member of a broadcast
    group. Each may apply every message once. A row of an earlier release names no subscription. It
    belongs to the present one if there is only one.

    A group with offsets in its own database continues there when it is subscribed again, so all of
    its rows say what it has applied.

    Returns:
        The rows. `owner_id` is the subscription whose deliveries they answer, null if there is
        none. `unattributed` means that the row may belong to any of several subscriptions.
    """
    names = ["consumer_group", "topic_id"]
    present = subscriptions.groupBy(*names).agg(
        F.min("subscription_id").alias("present_id"), F.count(F.lit(1)).alias("present_count")
    )
    continuing = offsets.join(topics, "topic").select(*names, F.lit(True).alias("continues")).distinct()
    rows = journal.join(present, names, "left").join(continuing, names, "left")
    only = F.when(F.col("present_count") == 1, F.col("present_id"))
    named = F.coalesce("subscription_id", only)
    return (
        rows.withColumn("owner_id", F.coalesce(F.when(F.col("continues"), only), named))
        .withColumn("unattributed", named.isNull() & F.col("present_id").isNotNull())
        .withColumn("subscription_id", named)
        .drop("present_id", "present_count", "continues")
    )


def add_dropped_replays(replays: DataFrame, jumps: DataFrame, effects: DataFrame, entries: DataFrame) -> DataFrame:
    """Add the messages that a seek back delivered again and whose offsets retention has dropped.

    The journal says which messages these offsets held. The rows are of `schemas.REPLAYS`.
    """
    back = jumps.where("back").select("jump_id", "subscription_id", "queue_id", "from_offset", "to_offset")
    lane = F.when(F.col("queue_id") == -1, F.col("subscription_id")).otherwise(F.lit(0))
    applied = effects.select("subscription_id", "queue_id", "queue_offset", "message_id", "topic_id")
    found = applied.join(F.broadcast(back), ["subscription_id", "queue_id"])
    found = found.where("queue_offset >= from_offset and queue_offset < to_offset").withColumn("lane", lane)
    present = entries.select("topic_id", F.col("subscription_id").alias("lane"), "queue_id", "queue_offset")
    found = found.join(present, ["topic_id", "lane", "queue_id", "queue_offset"], "left_anti")
    found = found.select("jump_id", "subscription_id", "message_id").distinct()
    dropped = found.groupBy("subscription_id", "message_id").agg(F.count(F.lit(1)).alias("times"))
    both = replays.unionByName(dropped).groupBy("subscription_id", "message_id")
    return both.agg(F.sum("times").alias("times"))


def derive_retries(
    delayed: DataFrame,
    retry_entries: DataFrame,
    deferred: DataFrame,
    subscriptions: DataFrame,
    ticks: DataFrame,
    topics: DataFrame,
) -> DataFrame:
    """Find the nacked messages of each subscription.

    A message that a group deferred in its own database counts too, because the group nacks it only
    after its local transaction.

    Returns:
        Rows (subscription_id, message_id, attempt, last_offset) with the highest attempt that was
        scheduled, and the offset of the last delivery in the retry lane. The latter is null if
        another one was scheduled behind it. A redriven message counts its attempts from 1 again, so
        they do not tell which delivery is the last one.
    """
    keys = ["subscription_id", "message_id"]
    scheduled = expand_batches(delayed.where("subscription_id > 0"))
    delivered = retry_entries.groupBy(*keys).agg(
        F.max("attempt").alias("attempt"), F.max("queue_offset").alias("last_offset"), F.max("tick_id").alias("tick_id")
    )
    # The tick of the last delivery has not seen them, or not reached their time.
    behind = scheduled.join(delivered.select(*keys, "tick_id"), keys).join(
        ticks.select("tick_id", "due_until", "xmax", "xip"), "tick_id", "left"
    )
    behind = behind.where(f"not coalesce({APPENDED}, may_be_dropped)")
    behind = behind.select(*keys).distinct().withColumn("continues", F.lit(True))
    in_inbox = deferred.join(topics, "topic").join(subscriptions, ["consumer_group", "topic_id"])
    in_inbox = in_inbox.withColumn("attempt", F.lit(1))
    attempts = (
        scheduled.select(*keys, "attempt")
        .unionByName(delivered.select(*keys, "attempt"))
        .unionByName(in_inbox.select(*keys, "attempt"))
    )
    return (
        attempts.groupBy(*keys)
        .agg(F.max("attempt").cast("int").alias("attempt"))
        .join(delivered.select(*keys, "last_offset"), keys, "left")
        .join(behind, keys, "left")
        .select(*keys, "attempt", F.when(F.col("continues").isNull(), F.col("last_offset")).alias("last_offset"))
    )


def derive_retry_times(delayed: DataFrame) -> DataFrame:
    """Say when each retry becomes visible: rows (subscription_id, message_id, attempt, visible_at).

    A redriven message may come several times by the same attempt. Then the earliest time counts.
    """
    retries = expand_batches(delayed.where("subscription_id > 0"))
    return retries.groupBy("subscription_id", "message_id", "attempt").agg(F.min("visible_at").alias("visible_at"))


def derive_positions(
    subscriptions: DataFrame, cursors: DataFrame, offsets: DataFrame, topics: DataFrame, queue_rows: DataFrame
) -> DataFrame:
    """Say for each group and queue where it started, how far it is, and where the queue ends.

    A group that stores its own offset is at that offset, any other group at the broker's cursor. A
    start that is no longer recorded is the oldest remaining offset for a group that started at
    'earliest', because it started there or before. For a group that started at 'latest' it is null.

    Returns:
        One row for each group, topic and queue. `lane` is the subscription in a retry lane and 0 in
        a topic's own queue.
    """
    stored = offsets.join(topics, "topic").select("consumer_group", "topic_id", "queue_id", "next_offset")
    ends = (
        queue_rows.groupBy("topic_id", "subscription_id", "queue_id")
        .agg(F.min("base_offset").alias("oldest"), F.max(F.col("base_offset") + F.col("n")).alias("tail"))
        .withColumnRenamed("subscription_id", "lane")
    )
    joined = (
        subscriptions.join(cursors, "subscription_id")
        .join(topics, "topic_id")
        .join(stored, ["consumer_group", "topic_id", "queue_id"], "left")
        .withColumn("lane", F.when(F.col("queue_id") < 0, F.col("subscription_id")).otherwise(F.lit(0)))
        .join(ends, ["topic_id", "lane", "queue_id"], "left")
    )
    start = F.coalesce("start_offset", F.when(F.col("start") == "earliest", F.coalesce("oldest", F.lit(0))))
    return joined.select(
        "consumer_group",
        "topic",
        "topic_id",
        "subscription_id",
        "lane",
        "queue_id",
        "committed",
        F.col("next_offset").alias("local_offset"),
        F.coalesce("next_offset", "committed").alias("next_offset"),
        start.alias("start_offset"),
        F.coalesce("tail", "committed").alias("tail"),
        F.coalesce("filtered", F.lit(False)).alias("filtered"),
    )


def derive_deliveries(
    entries: DataFrame,
    positions: DataFrame,
    effects: DataFrame,
    retries: DataFrame,
    dead_letters: DataFrame,
    archived_ranges: IdRanges,
    purged_before: datetime,
) -> DataFrame:
    """Say for each group and each offset since its start what the group did with the message.

    Args:
        positions: Positions of the groups that keep a journal.
        archived_ranges: The ids of messages that were read from an archive, without their bodies.
        purged_before: Position jumps from before this time may have been deleted.

    Returns:
        One row for each group and offset. `times_applied` says how often the journal has the
        message, `behind_position` whether the group's position is beyond the offset, and `dead`
        whether the group does not have to apply it. `last_retry` says that it is the message's
        last delivery in the retry lane, and that none was scheduled behind it. `unjudged` means
        that a filter may have left it out and that its body is dropped, so it is not known any more
        whether it did. Or it was read from an archive, and is so old that the record of a jump over
        it may be deleted.
    """
    journal = (
        effects.where("owner_id is not null")
        .groupBy(F.col("owner_id").alias("subscription_id"), "message_id")
        .agg(
            F.count(F.lit(1)).alias("times_applied"),
            F.min("applied_at").alias("applied_at"),
            F.min("queue_offset").alias("at_offset"),
        )
    )
    first_applied = (
        effects.where("queue_id >= 0 and owner_id is not null")
        .groupBy(F.col("owner_id").alias("subscription_id"), "queue_id")
        .agg(F.min("queue_offset").alias("first_applied"))
    )
    starts = (
        positions.join(first_applied, ["subscription_id", "queue_id"], "left")
        .withColumn("start_offset", F.coalesce("start_offset", "first_applied", "next_offset"))
        .drop("first_applied", "topic")
    )
    # One row for each group and queue.
    starts = F.broadcast(starts)
    rows = entries.withColumnRenamed("subscription_id", "lane").join(starts, ["topic_id", "lane", "queue_id"])
    rows = rows.where("queue_offset >= start_offset")
    rows = rows.join(journal, ["subscription_id", "message_id"], "left")
    rows = rows.join(
        retries.withColumnRenamed("attempt", "retry_attempt"), ["subscription_id", "message_id"], "left"
    ).join(
        dead_letters.select("subscription_id", "message_id", F.lit(True).alias("is_dead")),
        ["subscription_id", "message_id"],
        "left",
    )
    behind = F.col("queue_offset") < F.col("next_offset")
    untouched = F.col("times_applied").isNull() & F.col("retry_attempt").isNull() & F.col("is_dead").isNull()
    unknown = F.col("filtered") & (F.col("state") == "expired")
    if archived_ranges:
        forgotten = F.coalesce(F.col("committed_at") < F.lit(purged_before), F.lit(False))
        unknown |= in_ranges("message_id", archived_ranges) & (F.col("filtered") | forgotten)
    return rows.select(
        "consumer_group",
        "topic",
        "topic_id",
        "subscription_id",
        "lane",
        "queue_id",
        "queue_offset",
        "message_id",
        "tick_id",
        "attempt",
        "state",
        "committed_at",
        "due_at",
        "applied_at",
        "retry_attempt",
        F.coalesce(F.expr("lane > 0 and queue_offset = last_offset"), F.lit(False)).alias("last_retry"),
        F.coalesce("times_applied", F.lit(0)).alias("times_applied"),
        F.col("is_dead").isNotNull().alias("dead"),
        behind.alias("behind_position"),
        (unknown & behind & untouched).alias("unjudged"),
    )
