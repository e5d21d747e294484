"""Counting messages: conservation equations, FastMiniMQ's relations, latency, redelivery."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = [
    "group_totals",
    "lag",
    "latencies",
    "ledger_totals",
    "redelivery",
    "topic_totals",
    "unattributed_rows",
    "without_ledger_row",
]

_QUANTILES = (0.5, 0.95, 0.99)
# An approximate quantile is off by one in so many ranks.
_ACCURACY = 10_000


def _n(condition: Column | str) -> Column:
    return F.count_if(F.expr(condition) if isinstance(condition, str) else condition)


def topic_totals(messages: DataFrame, entries: DataFrame, queued_ids: DataFrame, topics: DataFrame) -> DataFrame:
    """Count for each topic what was stored and decided, and what its queues contain.

    The equation is committed = queued + waiting + dropped. `queued` counts offsets whose message is not
    expired. The sides are counted in different tables.
    """
    ids = queued_ids.select("message_id", F.lit(True).alias("queued"))
    stored = (
        messages.where("kind <> 'f'")
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
            _n("state = 'committed' and may_be_dropped and queued is null").alias("dropped"),
        )
    )
    offsets = (
        entries.where("subscription_id = 0")
        .groupBy("topic_id")
        .agg(_n("state <> 'expired'").alias("queued"), _n("state = 'expired'").alias("expired"))
    )
    return topics.join(stored, "topic_id", "left").join(offsets, "topic_id", "left").drop("topic_id").fillna(0)


def group_totals(deliveries: DataFrame, effects: DataFrame, queued_ids: DataFrame) -> DataFrame:
    """Count for each group and topic the offsets, and what the group did with them.

    The equation is offsets = applied + retrying + dead + ahead. `applied` is counted in the
    journal. Journal rows from before the group's start, and of messages whose offset retention has
    dropped since, are left out on both sides. So are messages whose body is dropped and that a
    filter may have left out, because it is not known any more whether it did.
    """
    own = deliveries.where("lane = 0 and not unjudged")
    sides = own.groupBy("consumer_group", "topic").agg(
        F.count(F.lit(1)).alias("offsets"),
        _n("times_applied = 0 and dead").alias("dead"),
        _n("times_applied = 0 and not dead and retry_attempt is not null").alias("retrying"),
        _n("times_applied = 0 and not dead and retry_attempt is null and not behind_position").alias("ahead"),
    )
    owed = own.select(F.col("subscription_id").alias("owner_id"), "message_id", F.lit(True).alias("owed")).distinct()
    journal = (
        effects.where("state <> 'topic_dropped'")
        .join(owed, ["owner_id", "message_id"], "left")
        .join(queued_ids.select("message_id", F.lit(True).alias("queued")), "message_id", "left")
        .where("owed or (queued is null and state <> 'expired' and not coalesce(may_be_dropped, false))")
        .groupBy("consumer_group", "topic")
        .agg(
            F.count_distinct(F.struct("owner_id", "message_id")).alias("applied"),
            F.count(F.lit(1)).alias("journal_rows"),
        )
    )
    return sides.join(journal, ["consumer_group", "topic"], "full").fillna(0)


def ledger_totals(
    ledger_matches: DataFrame,
    effects: DataFrame,
    deliveries: DataFrame,
    queued_ids: DataFrame,
    *,
    purged_before: str,
) -> DataFrame:
    """Count both sides of FastMiniMQ's relations for each ledger, topic and consumer group.

    The counts are:

    * confirmed: local rows that are marked done. A ledger in the broker's own database has no such
      mark. There a decision at the broker counts.
    * open: the other local rows, U in the relations.
    * consumed: messages in the journal, each counted once.
    * excused: confirmed and not applied, because they are dead letters or in retry, from before the
      group's start, or dropped.
    * ahead: confirmed, and the group has not reached them yet.
    * missing: confirmed and not applied for none of these reasons.
    * extra: consumed without a local row.
    * purged: the same, but the ledger row may have been deleted since.
    * overridden: the same, but an operator decided so by hand.
    """
    readers = F.broadcast(deliveries.select("consumer_group", "topic_id").distinct())
    done = F.col("done_at").isNotNull() | (F.col("in_broker") & (F.col("state") != "undecided"))
    halves = (
        ledger_matches.where("audited")
        .join(readers, "topic_id")
        .select(
            "ledger",
            "consumer_group",
            "topic_id",
            "message_id",
            "state",
            "may_be_dropped",
            F.coalesce(F.col("entry") == "local", F.lit(False)).alias("local"),
            (F.col("entry").isNull() & F.coalesce(F.col("decided_by") == "admin", F.lit(False))).alias("by_hand"),
            done.alias("done"),
            F.coalesce(F.col("decided_at") < F.lit(purged_before).cast("timestamp"), F.lit(False)).alias("old"),
        )
    )
    applied = effects.groupBy("consumer_group", "topic_id", "message_id").agg(F.count(F.lit(1)).alias("times_applied"))
    outcomes = (
        deliveries.where("lane = 0")
        .groupBy("consumer_group", "topic_id", "message_id")
        .agg(
            F.bool_or(F.col("dead") | F.col("retry_attempt").isNotNull()).alias("dead_or_retrying"),
            F.bool_or("behind_position").alias("behind_position"),
        )
    )
    keys = ["consumer_group", "topic_id", "message_id"]
    rows = (
        halves.join(applied, keys, "left")
        .join(outcomes, keys, "left")
        .join(queued_ids.select("message_id", F.lit(True).alias("queued")), "message_id", "left")
    )
    confirmed, consumed = F.col("local") & F.col("done"), F.col("times_applied").isNotNull()
    unapplied = confirmed & ~consumed
    owed = F.col("behind_position").isNotNull()
    behind, excusable = F.col("behind_position"), F.col("dead_or_retrying")
    # The group does not have to apply a message that was in the queue before its start, or whose
    # offset may be dropped.
    not_owed = F.col("queued").isNotNull() | F.col("may_be_dropped")
    ahead = unapplied & F.when(owed, ~behind & ~excusable).otherwise(
        ~not_owed & F.col("state").isin("committed", "delayed", "undecided")
    )
    excused = unapplied & F.when(owed, excusable).otherwise(not_owed)
    unconfirmed = consumed & ~F.col("local")
    return rows.groupBy("ledger", "consumer_group", "topic_id").agg(
        _n(confirmed).alias("confirmed"),
        _n(F.col("local") & ~F.col("done")).alias("open"),
        _n(consumed).alias("consumed"),
        _n(ahead).alias("ahead"),
        _n(excused).alias("excused"),
        _n(unapplied & ~ahead & ~excused).alias("missing"),
        _n(unconfirmed & ~F.col("old") & ~F.col("by_hand")).alias("extra"),
        _n(unconfirmed & F.col("old") & ~F.col("by_hand")).alias("purged"),
        _n(unconfirmed & F.col("by_hand")).alias("overridden"),
    )


def without_ledger_row(ledger_matches: DataFrame, *, purged_before: str) -> DataFrame:
    """Count, for each ledger, the commits that cannot be judged, because their rows may have been deleted.

    Ledger rows of decisions before `purged_before` may have been.
    """
    absent = ledger_matches.where("audited and state = 'committed' and entry is null and decided_by <> 'admin'")
    old = absent.where(F.col("decided_at") < F.lit(purged_before).cast("timestamp"))
    return old.groupBy("ledger").agg(F.count(F.lit(1)).alias("messages"))


def unattributed_rows(effects: DataFrame) -> DataFrame:
    """Count, for each group, the journal rows that may belong to any of several subscriptions."""
    return effects.where("unattributed").groupBy("consumer_group").agg(F.count(F.lit(1)).alias("messages"))


def lag(positions: DataFrame) -> DataFrame:
    """Count the offsets, retry lanes included, that each group has not reached yet, if there are any."""
    remaining = positions.withColumn("lag", F.greatest(F.col("tail") - F.col("next_offset"), F.lit(0)))
    return remaining.groupBy("consumer_group", "topic").agg(F.sum("lag").alias("lag")).where("lag > 0")


def redelivery(deliveries: DataFrame) -> DataFrame:
    """Count messages by how often they were applied, and by how many attempts were scheduled.

    Returns rows (consumer_group, topic, value, messages, what). `what` is "applied" or "attempts".
    """
    own = deliveries.where("lane = 0")
    applied = (
        own.groupBy("consumer_group", "topic", F.col("times_applied").cast("int").alias("value"))
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
    messages: DataFrame,
    entries: DataFrame,
    deliveries: DataFrame,
    ticks: DataFrame,
    topics: DataFrame,
    *,
    exact: bool,
) -> DataFrame:
    """Measure how long each step took, as the quantiles 0.5, 0.95 and 0.99 and the maximum.

    Exact quantiles keep all durations in memory. The maximum is exact always. Returns rows (step, topic,
    consumer_group, seconds, max, messages). consumer_group is null for steps without a group.
    """
    halves = messages.where("kind = 'h' and state in ('committed', 'relayed')").join(topics, "topic_id")
    appended = ticks.select("tick_id", F.col("at").alias("appended_at"))
    queued = entries.where("subscription_id = 0 and state = 'committed'").join(appended, "tick_id")
    applied = deliveries.where("lane = 0 and state = 'committed' and applied_at is not null").join(appended, "tick_id")
    committed_at = F.greatest("committed_at", "due_at")
    steps = [
        (halves, "prepare to decision", _seconds(F.col("born_at"), F.col("decided_at"))),
        (queued, "commit to queue", _seconds(committed_at, F.col("appended_at"))),
        (applied, "queue to effect", _seconds(F.col("appended_at"), F.col("applied_at"))),
        (applied, "commit to effect", _seconds(committed_at, F.col("applied_at"))),
    ]
    frames = [_quantiles(frame, step, value, exact=exact) for frame, step, value in steps]
    result = frames[0]
    for frame in frames[1:]:
        result = result.unionByName(frame)
    return result


def _seconds(start: Column, end: Column) -> Column:
    return (F.unix_micros(end) - F.unix_micros(start)) / 1e6


def _quantiles(frame: DataFrame, step: str, value: Column, *, exact: bool) -> DataFrame:
    wanted = F.array(*map(F.lit, _QUANTILES))
    seconds = F.percentile("value", wanted) if exact else F.percentile_approx("value", wanted, _ACCURACY)
    group = F.col("consumer_group") if "consumer_group" in frame.columns else F.lit(None).cast("string")
    rows = frame.select(group.alias("consumer_group"), "topic", value.alias("value"))
    return (
        rows.groupBy("consumer_group", "topic")
        .agg(
            seconds.alias("seconds"),
            F.max("value").alias("max"),
            F.count(F.lit(1)).alias("messages"),
        )
        .withColumn("step", F.lit(step))
    )
