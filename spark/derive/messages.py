"""What happened to each message: one row for each message, queue entry and row of a ledger."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

__all__ = [
    "IdRanges",
    "add_message_state",
    "add_topic_id",
    "derive_entries",
    "derive_messages",
    "expand_batches",
    "hash_nonces",
    "in_ranges",
    "match_ledger",
]

IdRanges = Sequence[tuple[int, int]]
"""Ranges of message ids: (first, last), ends included."""


def expand_batches(batches: DataFrame) -> DataFrame:
    """Make one row (message_id, …), with ascending ids, for each message of record batches (first_id, n, …).

    A column `handle_hashes` becomes `handle_hash`, the message's own, and `key_hashes` becomes `key_hash`.
    """
    ids = F.posexplode(F.expr("sequence(first_id, first_id + n - 1)")).alias("position", "message_id")
    messages = batches.where("n > 0").select(ids, *(c for c in batches.columns if c not in ("first_id", "n")))
    for name in ("handle_hash", "key_hash"):
        if f"{name}es" in batches.columns:
            messages = messages.withColumn(name, F.get(f"{name}es", "position")).drop(f"{name}es")
    return messages.drop("position")


def hash_nonces(ledger_rows: DataFrame) -> DataFrame:
    """Replace the nonces of ledgers' handles by the `handle_hash` that `expand_batches` gives half messages."""
    return ledger_rows.withColumn("handle_hash", F.sha2(F.unhex("nonce"), 256)).drop("nonce")


def derive_messages(bodies: DataFrame, decisions: DataFrame, delayed: DataFrame) -> DataFrame:
    """Say for every stored message what the broker's tables know about it.

    The column `state` is one of:

    * committed;
    * undecided: a half message without a decision;
    * rolled_back;
    * recalled;
    * delayed: its time has not come;
    * final: the payload that a commit brought, whose id is never delivered;
    * relayed: a committed half message of a relay topic. The message `relayed_as` is delivered in
      its place, as its PREPARE was before.

    `committed_at` and `commit_xid` are those of the deciding transaction. `place` is the number by
    which the appender orders the messages of one tick, null for delayed ones. `expected` means that
    the newest tick must have given the message an offset. `waiting` means that it is committed and
    the appender has not seen it yet. `may_be_dropped` means that retention may have dropped its
    offset.
    """
    joined = _with_decisions(bodies, decisions, delayed)
    half = F.col("kind") == "h"
    late = (F.col("kind") == "d") | (half & F.col("op_visible_at").isNotNull())
    joined = joined.withColumn("late", late).withColumn("state", _state(half))
    covered = F.when(half, F.coalesce("op_covered", "decision_gone")).otherwise(F.col("covered"))
    may_be_dropped = F.when(half, F.coalesce("op_may_be_dropped", "decision_gone")).otherwise(F.col("may_be_dropped"))
    may_be_dropped &= ~F.col("late") | F.coalesce("due_may_be_dropped", F.lit(True))
    may_be_dropped = F.coalesce(may_be_dropped, F.lit(False))
    covered = F.coalesce(covered, F.lit(False))
    committed = F.col("state") == "committed"
    return joined.select(
        "message_id",
        "topic_id",
        "kind",
        "state",
        "producer_group_id",
        "handle_hash",
        "check_at",
        "born_at",
        "decided_at",
        "decided_by",
        F.when(half, F.col("decided_at")).otherwise(F.col("born_at")).alias("committed_at"),
        F.when(half, F.col("op_xid")).otherwise(F.col("xid")).alias("commit_xid"),
        F.when(F.col("late"), F.coalesce("visible_at", "op_visible_at")).alias("due_at"),
        F.when(half, F.col("relayed_as")).alias("relayed_as"),
        F.when(~F.col("late"), F.when(half, F.col("order_no")).otherwise(F.expr("message_id >> 10"))).alias("place"),
        F.when(half, F.col("deliver_id")).alias("deliver_id"),
        "xid",
        "queue_id",
        "op_queue_id",
        "key_hash",
        may_be_dropped.alias("may_be_dropped"),
        (committed & covered & ~may_be_dropped).alias("expected"),
        (committed & ~covered).alias("waiting"),
    )


def _with_decisions(bodies: DataFrame, decisions: DataFrame, delayed: DataFrame) -> DataFrame:
    """One row for each stored message, with its decision and the end of its delay."""
    first = decisions.where("stage = 0").select(
        "message_id",
        "op",
        "decided_by",
        F.col("at").alias("decided_at"),
        F.col("xid").alias("op_xid"),
        F.col("visible_at").alias("op_visible_at"),
        "relayed_as",
        "order_no",
        "deliver_id",
        F.col("queue_id").alias("op_queue_id"),
        F.col("covered").alias("op_covered"),
        F.col("may_be_dropped").alias("op_may_be_dropped"),
    )
    second = decisions.where("stage = 1").select("message_id", F.col("op").alias("due_op"))
    # A message has several rows if an open recall postponed it. The last of them counts.
    times = (
        expand_batches(delayed.where("subscription_id = 0"))
        .groupBy("message_id")
        .agg(
            F.max("visible_at").alias("visible_at"),
            F.bool_and("due").alias("due"),
            F.bool_and("may_be_dropped").alias("due_may_be_dropped"),
        )
    )
    return (
        expand_batches(bodies.drop("sizes", "intact"))
        .join(first, "message_id", "left")
        .join(second, "message_id", "left")
        .join(times, "message_id", "left")
    )


def _state(half: Column) -> Column:
    # A delayed message whose row in `delayed` is gone without a 'due' decision is committed too. It
    # is expected in a queue, and because no row will bring it there, the audit finds it lost.
    return (
        F.when(F.col("kind") == "f", "final")
        .when(half & F.col("op").isNull() & ~F.col("decision_gone"), "undecided")
        .when(half & (F.col("op") == "b"), "rolled_back")
        .when(half & F.col("relayed_as").isNotNull(), "relayed")
        .when(F.col("late") & (F.col("due_op") == "r"), "recalled")
        .when(F.col("late") & F.col("due_op").isNull() & ~F.coalesce("due", F.lit(True)), "delayed")
        .otherwise("committed")
    )


def derive_entries(queue_rows: DataFrame) -> DataFrame:
    """Make one row for each offset of the consume queues.

    `body_id` is the message that holds the body. The subscription_id is 0 in a topic's own queues, and the
    subscription in a retry lane.
    """
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
                F.expr("coalesce(deliver_ids, transform(first_ids, x -> null))").alias("deliver_ids"),
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
            F.col("run.deliver_ids").alias("deliver_id"),
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
            (F.coalesce("deliver_id", "first_id") + F.col("step")).alias("body_id"),
        )
    )


def in_ranges(column: str, ranges: IdRanges) -> Column:
    """A condition that is true if a message id lies in one of some ranges."""
    inside = F.lit(False)
    for first, last in ranges:
        inside |= F.col(column).between(first, last)
    return inside


def add_message_state(rows: DataFrame, messages: DataFrame, topics: DataFrame, dropped_ranges: IdRanges) -> DataFrame:
    """Add to each row the state of its message and its times.

    In addition to the states of `derive_messages` there are:

    * missing: there is no such message;
    * other_topic: the message is one of another topic;
    * expired: retention has dropped it;
    * topic_dropped: its topic was dropped. There may be a new topic of the same name.
    """
    facts = messages.select(
        "message_id",
        F.col("topic_id").alias("own_topic_id"),
        F.col("state").alias("stored_state"),
        "committed_at",
        "commit_xid",
        "due_at",
        "expected",
        "waiting",
        "may_be_dropped",
        "place",
        "key_hash",
        F.col("queue_id").alias("stored_queue_id"),
    )
    existing = topics.select(F.col("topic_id").alias("own_topic_id"), F.lit(True).alias("own_topic_exists"))
    joined = rows.join(facts, "message_id", "left").join(existing, "own_topic_id", "left")
    state = (
        F.when(F.col("stored_state").isNull() & in_ranges("message_id", dropped_ranges), "expired")
        .when(F.col("stored_state").isNull(), "missing")
        .when(F.col("own_topic_id") == F.col("topic_id"), F.col("stored_state"))
        .when(F.col("own_topic_exists").isNull(), "topic_dropped")
        .otherwise("other_topic")
    )
    return joined.withColumn("state", state).drop("own_topic_id", "own_topic_exists", "stored_state")


def add_topic_id(applied: DataFrame, topics: DataFrame) -> DataFrame:
    """Add to each journal row the id of its topic, null if the broker has no topic of that name."""
    return applied.join(topics, "topic", "left")


def match_ledger(messages: DataFrame, ledger: DataFrame, ledger_groups: DataFrame) -> DataFrame:
    """Match half messages with the rows of ledgers, by id and hash of the handle's nonce.

    Returns:
        One row for each half message of a producer group with a ledger (`audited` is true), and one
        for each ledger row without a half message (`audited` is false). `entry` is null if the
        ledger has no row, `state` is null if the broker has no half message. `message_id` is the
        message that is delivered: for a half message of a relay topic, its COMMIT.
    """
    halves = messages.where("kind = 'h'").select(
        "message_id",
        "handle_hash",
        "topic_id",
        "producer_group_id",
        F.when(F.col("state") == "relayed", "committed").otherwise(F.col("state")).alias("state"),
        "relayed_as",
        "decided_at",
        "decided_by",
        "committed_at",
        "check_at",
        "expected",
        "may_be_dropped",
    )
    rows = hash_nonces(ledger.select("ledger", "message_id", "nonce", "entry", "created_at", "done_at"))
    owned = halves.join(ledger_groups, "producer_group_id")
    matched = owned.join(rows, ["ledger", "message_id", "handle_hash"], "left").withColumn("audited", F.lit(True))
    # A ledger may also serve producer groups that are not audited. Their half messages exist, so
    # their rows are left out here.
    named = ["message_id", "handle_hash"]
    unmatched = rows.join(halves.select(named), named, "left_anti").withColumn("audited", F.lit(False))
    found = matched.unionByName(unmatched, allowMissingColumns=True)
    return found.withColumn("message_id", F.coalesce("relayed_as", "message_id")).drop("relayed_as")
