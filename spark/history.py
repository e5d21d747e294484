"""From rows as stored to one row per message, per queue entry, per delivery and per promise of a ledger."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = [
    "Segments",
    "applied_messages",
    "deliveries",
    "entries",
    "expand",
    "in_segments",
    "messages",
    "positions",
    "promises",
    "retries",
    "with_state",
]

Segments = Sequence[tuple[int, int]]


def expand(batches: DataFrame) -> DataFrame:
    """Rows (first_id, n, …) to n rows (message_id, …) with ascending ids."""
    ids = F.explode(F.expr("sequence(first_id, first_id + n - 1)"))
    return batches.where("n > 0").select(
        ids.alias("message_id"), *(c for c in batches.columns if c not in ("first_id", "n"))
    )


def messages(bodies: DataFrame, decisions: DataFrame, delayed: DataFrame) -> DataFrame:
    """One row per stored message: what the broker's tables say became of it.

    state: committed, undecided, rolled_back, recalled, delayed (its time has not come), final (the payload
    that a commit brought: its id is never delivered), relayed (a committed half of a relay topic: the message
    relayed_as is delivered in its place, as PREPARE was before). committed_at and commit_xid are those of the deciding
    transaction; expected means that the newest tick must have given it an offset; waiting that it is
    committed, but the appender has not seen it yet.
    """
    first = decisions.where("stage = 0").select(
        "message_id",
        "op",
        "decided_by",
        F.col("at").alias("decided_at"),
        F.col("xid").alias("op_xid"),
        F.col("visible_at").alias("op_visible_at"),
        "relayed_as",
        F.col("settled").alias("op_settled"),
        F.col("forgotten").alias("op_forgotten"),
    )
    second = decisions.where("stage = 1").select("message_id", F.col("op").alias("due_op"))
    # Several rows where an open recall put the message off: it is due when the last of them is.
    times = (
        expand(delayed.where("subscription_id = 0"))
        .groupBy("message_id")
        .agg(
            F.max("visible_at").alias("visible_at"),
            F.bool_and("due").alias("due"),
            F.bool_and("forgotten").alias("due_forgotten"),
        )
    )
    joined = (
        expand(bodies)
        .join(first, "message_id", "left")
        .join(second, "message_id", "left")
        .join(times, "message_id", "left")
    )
    half = F.col("kind") == "h"
    late = (F.col("kind") == "d") | (half & F.col("op_visible_at").isNotNull())
    joined = joined.withColumn("late", late).withColumn("state", _state(half))
    settled = F.when(half, F.coalesce("op_settled", "decision_gone")).otherwise(F.col("settled"))
    forgotten = F.when(half, F.coalesce("op_forgotten", "decision_gone")).otherwise(F.col("forgotten"))
    forgotten &= ~F.col("late") | F.coalesce("due_forgotten", F.lit(True))
    committed = F.col("state") == "committed"
    return joined.select(
        "message_id",
        "topic_id",
        "kind",
        "state",
        "producer_group_id",
        "nonce",
        "check_at",
        "born_at",
        "decided_at",
        "decided_by",
        F.when(half, F.col("decided_at")).otherwise(F.col("born_at")).alias("committed_at"),
        F.when(half, F.col("op_xid")).otherwise(F.col("xid")).alias("commit_xid"),
        F.when(F.col("late"), F.coalesce("visible_at", "op_visible_at")).alias("due_at"),
        F.when(half, F.col("relayed_as")).alias("relayed_as"),
        F.coalesce(forgotten, F.lit(False)).alias("forgotten"),
        (committed & F.coalesce(settled, F.lit(False)) & ~F.coalesce(forgotten, F.lit(False))).alias("expected"),
        (committed & ~F.coalesce(settled, F.lit(False))).alias("waiting"),
    )


def _state(half: Column) -> Column:
    # A delayed message whose row in `delayed` is gone without a 'due' decision is committed all the same:
    # it is expected in a queue, where nothing will bring it any more.
    return (
        F.when(F.col("kind") == "f", "final")
        .when(half & F.col("op").isNull() & ~F.col("decision_gone"), "undecided")
        .when(half & (F.col("op") == "b"), "rolled_back")
        .when(half & F.col("relayed_as").isNotNull(), "relayed")
        .when(F.col("late") & (F.col("due_op") == "r"), "recalled")
        .when(F.col("late") & F.col("due_op").isNull() & ~F.coalesce("due", F.lit(True)), "delayed")
        .otherwise("committed")
    )


def entries(queue_rows: DataFrame) -> DataFrame:
    """One row per offset of the consume queues; subscription_id 0 for a topic's own queues, else a retry lane."""
    ends = F.expr("concat(slice(starts, 2, greatest(size(starts) - 1, 0)), array(n))")
    runs = queue_rows.select(
        "topic_id",
        "subscription_id",
        "queue_id",
        "tick_id",
        "base_offset",
        F.explode(
            F.arrays_zip(
                "first_ids",
                "starts",
                ends.alias("ends"),
                F.expr("coalesce(attempts, transform(first_ids, x -> 1))").alias("attempts"),
            )
        ).alias("run"),
    )
    steps = F.explode(F.expr("sequence(0, run.ends - run.starts - 1)"))
    return (
        runs.where("run.ends > run.starts and run.first_ids is not null")
        .select(
            "topic_id",
            "subscription_id",
            "queue_id",
            "tick_id",
            F.col("run.attempts").alias("attempt"),
            F.col("base_offset"),
            F.col("run.starts").alias("start"),
            F.col("run.first_ids").alias("first_id"),
            steps.alias("step"),
        )
        .select(
            "topic_id",
            "subscription_id",
            "queue_id",
            "tick_id",
            "attempt",
            (F.col("base_offset") + F.col("start") + F.col("step")).alias("queue_offset"),
            (F.col("first_id") + F.col("step")).alias("message_id"),
        )
    )


def in_segments(column: str, dropped: Segments) -> Column:
    """Whether a message id lies in one of some ranges (first, last), ends included."""
    inside = F.lit(False)
    for first, last in dropped:
        inside |= F.col(column).between(first, last)
    return inside


def with_state(found: DataFrame, known: DataFrame, topics: DataFrame, dropped: Segments) -> DataFrame:
    """Adds to rows (message_id, topic_id, …) the state of the message and its times.

    Beside the states of `messages`: missing (there is no such message), elsewhere (it is one of another
    topic), expired (its segment is dropped), former (its topic is dropped, and the name maybe used again).
    """
    state = known.select(
        "message_id",
        F.col("topic_id").alias("home"),
        F.col("state").alias("stored"),
        "committed_at",
        "commit_xid",
        "due_at",
        "expected",
        "waiting",
        "forgotten",
    )
    living = topics.select(F.col("topic_id").alias("home"), F.lit(True).alias("home_lives"))
    joined = found.join(state, "message_id", "left").join(living, "home", "left")
    judged = (
        F.when(F.col("stored").isNull() & in_segments("message_id", dropped), "expired")
        .when(F.col("stored").isNull(), "missing")
        .when(F.col("home") == F.col("topic_id"), F.col("stored"))
        .when(F.col("home_lives").isNull(), "former")
        .otherwise("elsewhere")
    )
    return joined.withColumn("state", judged).drop("home", "home_lives", "stored")


def applied_messages(applied: DataFrame, topics: DataFrame) -> DataFrame:
    """Journal rows with the id of their topic, null where the broker has no topic of that name."""
    return applied.join(topics, "topic", "left")


def retries(
    delayed: DataFrame, lanes: DataFrame, deferred: DataFrame, subscriptions: DataFrame, topics: DataFrame
) -> DataFrame:
    """Per subscription and message the highest attempt that a retry was scheduled for: the nacked ones.

    What a group's own database defers counts too: it is nacked only after the local transaction.
    """
    scheduled = expand(delayed.where("subscription_id > 0")).select("subscription_id", "message_id", "attempt")
    seen = lanes.select("subscription_id", "message_id", "attempt")
    aside = deferred.join(topics, "topic").join(subscriptions, ["consumer_group", "topic_id"])
    aside = aside.select("subscription_id", "message_id", F.lit(1).alias("attempt"))
    rows = scheduled.unionByName(seen).unionByName(aside)
    return rows.groupBy("subscription_id", "message_id").agg(F.max("attempt").cast("int").alias("attempt"))


def positions(
    subscriptions: DataFrame, cursors: DataFrame, offsets: DataFrame, topics: DataFrame, queue_rows: DataFrame
) -> DataFrame:
    """Per group, topic and queue: where it started, how far it is, and the end of the queue.

    The group's own offset counts where it keeps one, the broker's cursor otherwise. A start that is not
    recorded any more is the oldest offset left (start 'earliest' began no later than there), or unknown, null,
    for a group that started at 'latest'.
    """
    local = offsets.join(topics, "topic").select("consumer_group", "topic_id", "queue_id", "next_offset")
    ends = (
        queue_rows.groupBy("topic_id", "subscription_id", "queue_id")
        .agg(F.min("base_offset").alias("oldest"), F.max(F.col("base_offset") + F.col("n")).alias("tail"))
        .withColumnRenamed("subscription_id", "lane")
    )
    joined = (
        subscriptions.join(cursors, "subscription_id")
        .join(topics, "topic_id")
        .join(local, ["consumer_group", "topic_id", "queue_id"], "left")
        .withColumn("lane", F.when(F.col("queue_id") < 0, F.col("subscription_id")).otherwise(F.lit(0)))
        .join(ends, ["topic_id", "lane", "queue_id"], "left")
    )
    begun = F.coalesce("start_offset", F.when(F.col("start") == "earliest", F.coalesce("oldest", F.lit(0))))
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
        begun.alias("start_offset"),
        F.coalesce("tail", "committed").alias("tail"),
    )


def deliveries(
    placed: DataFrame, where: DataFrame, applied: DataFrame, retried: DataFrame, dead: DataFrame
) -> DataFrame:
    """One row per group and offset of its topics from its start on, with what the group did about it.

    placed: entries with states; where: positions of groups that keep a journal. times is how often the
    journal has the message; passed that the group's position lies beyond the offset.
    """
    journal = (
        applied.where("topic_id is not null")
        .groupBy("consumer_group", "topic_id", "message_id")
        .agg(
            F.count(F.lit(1)).alias("times"),
            F.min("applied_at").alias("applied_at"),
            F.min("queue_offset").alias("at_offset"),
        )
    )
    first_seen = (
        applied.where("queue_id >= 0")
        .groupBy("consumer_group", "topic_id", "queue_id")
        .agg(F.min("queue_offset").alias("first_applied"))
    )
    spots = (
        where.join(first_seen, ["consumer_group", "topic_id", "queue_id"], "left")
        .withColumn("start_offset", F.coalesce("start_offset", "first_applied", "next_offset"))
        .drop("first_applied", "topic")
    )
    rows = placed.withColumnRenamed("subscription_id", "lane").join(spots, ["topic_id", "lane", "queue_id"])
    rows = rows.where("queue_offset >= start_offset")
    rows = rows.join(journal, ["consumer_group", "topic_id", "message_id"], "left")
    rows = rows.join(
        retried.withColumnRenamed("attempt", "retry_attempt"), ["subscription_id", "message_id"], "left"
    ).join(
        dead.select("subscription_id", "message_id", F.lit(True).alias("died")),
        ["subscription_id", "message_id"],
        "left",
    )
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
        F.coalesce("times", F.lit(0)).alias("times"),
        F.col("died").isNotNull().alias("dead"),
        (F.col("queue_offset") < F.col("next_offset")).alias("passed"),
    )


def promises(known: DataFrame, ledger: DataFrame, groups: DataFrame) -> DataFrame:
    """One row per half message of a producer group with a ledger, and per ledger row, matched by id and nonce.

    entry is null where the ledger has no row; state is null where the broker has no such half. message_id is
    that of the message delivered: of a relay topic's half, its COMMIT.
    """
    halves = known.where("kind = 'h'").select(
        "message_id",
        "nonce",
        "topic_id",
        "producer_group_id",
        F.when(F.col("state") == "relayed", "committed").otherwise(F.col("state")).alias("state"),
        "relayed_as",
        "decided_at",
        "decided_by",
        "committed_at",
        "forgotten",
    )
    rows = ledger.select("ledger", "message_id", "nonce", "entry", "created_at", "done_at")
    owned = halves.join(groups, "producer_group_id")
    matched = owned.join(rows, ["ledger", "message_id", "nonce"], "left").withColumn("asked", F.lit(True))
    # A ledger may serve groups that this audit was not given: their rows are known, and nobody's concern here.
    strays = rows.join(halves.select("message_id", "nonce"), ["message_id", "nonce"], "left_anti").withColumn(
        "asked", F.lit(False)
    )
    found = matched.unionByName(strays, allowMissingColumns=True)
    return found.withColumn("message_id", F.coalesce("relayed_as", "message_id")).drop("relayed_as")
