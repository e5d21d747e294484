"""From rows as stored to one row per message, per queue entry and per promise of a ledger."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = [
    "Segments",
    "applied_messages",
    "entries",
    "expand",
    "in_segments",
    "messages",
    "promises",
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
