"""The books: conservation equations, FastMiniMQ's counting relations, redelivery and latency, as small frames."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = ["group_accounts", "lag", "latencies", "ledger_accounts", "redelivery", "topic_accounts"]

_SHARES = (0.5, 0.95, 0.99, 1.0)


def _n(condition: Column | str) -> Column:
    return F.count_if(F.expr(condition) if isinstance(condition, str) else condition)


def topic_accounts(known: DataFrame, placed: DataFrame, queued: DataFrame, topics: DataFrame) -> DataFrame:
    """Per topic: what was stored and decided, against what the queues hold.

    committed = queued + waiting + dropped, where queued counts the queues' offsets whose message is not
    expired, and each side is counted by itself.
    """
    ids = queued.select("message_id", F.lit(True).alias("queued"))
    stored = (
        known.where("kind <> 'f'")
        .join(ids, "message_id", "left")
        .groupBy("topic_id")
        .agg(
            _n("kind <> 'h'").alias("sent"),
            _n("kind = 'h'").alias("prepared"),
            _n("kind = 'h' and decided_at is not null and state <> 'rolled_back'").alias("decided_commit"),
            _n("state = 'rolled_back'").alias("rolled_back"),
            _n("state = 'undecided'").alias("undecided"),
            _n("state = 'recalled'").alias("recalled"),
            _n("state = 'delayed'").alias("delayed"),
            _n("state = 'committed'").alias("committed"),
            _n("waiting and queued is null").alias("waiting"),
            _n("state = 'committed' and forgotten and queued is null").alias("dropped"),
        )
    )
    offsets = (
        placed.where("subscription_id = 0")
        .groupBy("topic_id")
        .agg(_n("state <> 'expired'").alias("queued"), _n("state = 'expired'").alias("expired"))
    )
    return topics.join(stored, "topic_id", "left").join(offsets, "topic_id", "left").drop("topic_id").fillna(0)


def group_accounts(delivered: DataFrame, applied: DataFrame, queued: DataFrame) -> DataFrame:
    """Per group and topic: offsets = applied + retrying + dead + ahead; applied is counted in the journal.

    queued: ids in the topics' own queues. What the journal has from before the group's start, or of what is
    dropped since, is left out on both sides.
    """
    own = delivered.where("lane = 0")
    sides = own.groupBy("consumer_group", "topic").agg(
        F.count(F.lit(1)).alias("offsets"),
        _n("times = 0 and dead").alias("dead"),
        _n("times = 0 and not dead and retry_attempt is not null").alias("retrying"),
        _n("times = 0 and not dead and retry_attempt is null and not passed").alias("ahead"),
    )
    reached = own.select("consumer_group", "topic_id", "message_id", F.lit(True).alias("reached")).distinct()
    journal = (
        applied.where("state not in ('expired', 'former')")
        .join(reached, ["consumer_group", "topic_id", "message_id"], "left")
        .join(queued.select("message_id", F.lit(True).alias("queued")), "message_id", "left")
        .where("reached or (queued is null and not coalesce(forgotten, false))")
        .groupBy("consumer_group", "topic")
        .agg(F.count_distinct("message_id").alias("applied"), F.count(F.lit(1)).alias("journal_rows"))
    )
    return sides.join(journal, ["consumer_group", "topic"], "full").fillna(0)


def ledger_accounts(
    promised: DataFrame,
    applied: DataFrame,
    delivered: DataFrame,
    queued: DataFrame,
    *,
    purged_before: str,
) -> DataFrame:
    """Per ledger, topic and consumer group: both sides of FastMiniMQ's relations, over counts and over ids.

    confirmed: local rows marked done (a ledger in the broker's own database has no such mark: there a commit
    decision is one); open: the other local rows, U; consumed: distinct messages in the journal. excused were
    confirmed and are dead-lettered, in retry, older than the group or dropped; ahead have not been reached yet;
    missing and extra break id-set equality; purged are consumed ones whose ledger row may be deleted.
    Groups are those with a journal.
    """
    readers = delivered.select("consumer_group", "topic_id").distinct()
    done = F.col("done_at").isNotNull() | (F.col("own") & (F.col("state") != "undecided"))
    halves = (
        promised.where("asked")
        .join(readers, "topic_id")
        .select(
            "ledger",
            "consumer_group",
            "topic_id",
            "message_id",
            "state",
            "forgotten",
            F.coalesce(F.col("entry") == "local", F.lit(False)).alias("local"),
            done.alias("done"),
            F.coalesce(F.col("decided_at") < F.lit(purged_before).cast("timestamp"), F.lit(False)).alias("old"),
        )
    )
    took = applied.groupBy("consumer_group", "topic_id", "message_id").agg(F.count(F.lit(1)).alias("times"))
    fate = (
        delivered.where("lane = 0")
        .groupBy("consumer_group", "topic_id", "message_id")
        .agg(
            F.bool_or(F.col("dead") | F.col("retry_attempt").isNotNull()).alias("apart"),
            F.bool_or("passed").alias("passed"),
        )
    )
    keys = ["consumer_group", "topic_id", "message_id"]
    rows = (
        halves.join(took, keys, "left")
        .join(fate, keys, "left")
        .join(queued.select("message_id", F.lit(True).alias("queued")), "message_id", "left")
    )
    confirmed, consumed = F.col("local") & F.col("done"), F.col("times").isNotNull()
    unseen = confirmed & ~consumed
    # Not owed to the group: in the queue from before its start, or in a part of the queue that is dropped.
    older = F.col("queued").isNotNull() | F.col("forgotten")
    ahead = unseen & F.when(F.col("passed").isNotNull(), ~F.col("passed") & ~F.col("apart")).otherwise(
        ~older & F.col("state").isin("committed", "delayed", "undecided")
    )
    excused = unseen & F.when(F.col("passed").isNotNull(), F.col("apart")).otherwise(older)
    stray = consumed & ~F.col("local")
    return rows.groupBy("ledger", "consumer_group", "topic_id").agg(
        _n(confirmed).alias("confirmed"),
        _n(F.col("local") & ~F.col("done")).alias("open"),
        _n(consumed).alias("consumed"),
        _n(ahead).alias("ahead"),
        _n(excused).alias("excused"),
        _n(unseen & ~ahead & ~excused).alias("missing"),
        _n(stray & ~F.col("old")).alias("extra"),
        _n(stray & F.col("old")).alias("purged"),
    )


def lag(where: DataFrame) -> DataFrame:
    """Per group and topic with any: how many offsets, retry lanes included, are still before the group."""
    behind = where.withColumn("lag", F.greatest(F.col("tail") - F.col("next_offset"), F.lit(0)))
    return behind.groupBy("consumer_group", "topic").agg(F.sum("lag").alias("lag")).where("lag > 0")


def redelivery(delivered: DataFrame) -> DataFrame:
    """Per group and topic: how many messages were applied how often, and needed how many scheduled retries."""
    own = delivered.where("lane = 0")
    applied = (
        own.groupBy("consumer_group", "topic", F.col("times").cast("int").alias("value"))
        .agg(F.count(F.lit(1)).alias("messages"))
        .withColumn("what", F.lit("applied"))
    )
    attempts = (
        own.groupBy("consumer_group", "topic", F.coalesce("retry_attempt", F.lit(1)).alias("value"))
        .agg(F.count(F.lit(1)).alias("messages"))
        .withColumn("what", F.lit("attempts"))
    )
    return applied.unionByName(attempts)


def latencies(
    known: DataFrame, placed: DataFrame, delivered: DataFrame, ticks: DataFrame, topics: DataFrame
) -> DataFrame:
    """Seconds at p50, p95, p99 and the maximum, per step, topic and, where it has one, group."""
    halves = known.where("kind = 'h' and state in ('committed', 'relayed')").join(topics, "topic_id")
    passes = F.broadcast(ticks.select("tick_id", F.col("at").alias("appended_at")))
    queued = placed.where("subscription_id = 0 and state = 'committed'").join(passes, "tick_id")
    taken = delivered.where("lane = 0 and state = 'committed' and applied_at is not null").join(passes, "tick_id")
    since = F.greatest("committed_at", "due_at")
    steps = [
        (halves, "prepare to decision", _seconds(F.col("born_at"), F.col("decided_at"))),
        (queued, "commit to queue", _seconds(since, F.col("appended_at"))),
        (taken, "queue to effect", _seconds(F.col("appended_at"), F.col("applied_at"))),
        (taken, "commit to effect", _seconds(since, F.col("applied_at"))),
    ]
    frames = [_percentiles(frame, step, value) for frame, step, value in steps]
    result = frames[0]
    for frame in frames[1:]:
        result = result.unionByName(frame)
    return result


def _seconds(start: Column, end: Column) -> Column:
    return (F.unix_micros(end) - F.unix_micros(start)) / 1e6


def _percentiles(frame: DataFrame, step: str, value: Column) -> DataFrame:
    group = F.col("consumer_group") if "consumer_group" in frame.columns else F.lit(None).cast("string")
    rows = frame.select(group.alias("consumer_group"), "topic", value.alias("value"))
    return (
        rows.groupBy("consumer_group", "topic")
        .agg(F.percentile("value", F.array(*map(F.lit, _SHARES))).alias("seconds"), F.count(F.lit(1)).alias("messages"))
        .withColumn("step", F.lit(step))
    )
