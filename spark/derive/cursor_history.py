"""What each version of a cursor changed: the version before it, and the claims of both.

A cursor is a list of versions. Each names the action that wrote it. So what a version changed can
be compared with what its action may change.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

__all__ = [
    "derive_failures",
    "derive_known_since",
    "derive_letters",
    "derive_released",
    "derive_transitions",
    "overlap",
]

_CLAIMS = (
    "array<struct<epoch:bigint,from_offset:bigint,to_offset:bigint,lease_until:string,"
    "settled:array<bigint>,picked:array<bigint>>>"
)
_QUEUE = ("subscription_id", "queue_id")
# adopt() moves versions so far ahead that no receipt of a former life can match.
_ADOPTED = 1 << 32


def derive_transitions(history: DataFrame, readers: DataFrame) -> DataFrame:
    """Put each version of a cursor beside the version before it.

    Returns:
        One row for each version of a present subscription. The columns `previous_…` are null in the
        first version that is stored. `step` is "first", "next" or "gap": whether a version is
        missing before this one. `done` says how many offsets this version released: they were
        pending before, in a claim or not claimed yet, and are pending no longer. `moved_back_later`
        says whether a later seek went back below this version's position.
    """
    versions = Window.partitionBy(*_QUEUE).orderBy("version", "slot")
    later = versions.rowsBetween(1, Window.unboundedFollowing)
    before = versions.rowsBetween(Window.unboundedPreceding, -1)
    rows = history.withColumn("claims", F.coalesce(F.from_json("claims", _CLAIMS), F.array().cast(_CLAIMS)))
    rows = rows.withColumn("highest", F.array_max(F.transform("claims", lambda claim: claim["epoch"])))
    for name in ("version", "slot", "committed", "claimed", "claims"):
        rows = rows.withColumn(f"previous_{name}", F.lag(name).over(versions))
    lowest_later = F.min(F.when(F.col("action") == "moved", F.col("claimed"))).over(later)
    rows = rows.withColumn("highest_before", F.max("highest").over(before)).withColumn(
        "moved_back_later", F.coalesce(lowest_later < F.col("claimed"), F.lit(False))
    )
    ahead = F.col("version") - F.col("previous_version")
    step = (
        F.when(F.col("previous_version").isNull(), "first")
        .when((ahead == 1) | ((F.col("action") == "incarnation") & (ahead == _ADOPTED)), "next")
        .otherwise("gap")
    )
    held = F.expr(_held("previous_claims")) + F.col("claimed") - F.col("previous_claimed") - F.expr(_held("claims"))
    return rows.withColumn("step", step).withColumn("done", held).drop("highest").join(readers, "subscription_id")


def _held(claims: str) -> str:
    """Return how many offsets some claims hold."""
    return (
        f"aggregate({claims}, 0L, (total, c) -> total + if(c.picked is not null, size(c.picked), "
        "c.to_offset - c.from_offset - if(c.settled is null, 0, size(c.settled))))"
    )


def derive_known_since(transitions: DataFrame) -> DataFrame:
    """Say since when the history of each queue is known.

    Returns:
        One row for each queue of a subscription. `known_since` is null if its history is
        complete: it begins with the subscription itself.
    """
    first = transitions.where("step = 'first'")
    return first.select(*_QUEUE, F.when(F.col("version") > 1, F.col("at")).alias("known_since"))


def derive_released(transitions: DataFrame) -> DataFrame:
    """List the offsets that each version of a cursor released.

    They were pending before, and are pending no longer. Acknowledgments are listed only if
    something is still pending, and only of queues that are read in order.

    Returns:
        Rows (subscription_id, topic_id, queue_id, lane, version, action, queue_offset, ahead).
        `ahead` says whether an offset below it is still pending.
    """
    failed = "action in ('nack', 'dead_letter', 'take_over', 'expired')"
    acknowledged = "action = 'ack' and committed < claimed and mode in ('exclusive', 'pinned')"
    fresh = "if(claimed > previous_claimed, sequence(previous_claimed, claimed - 1), array())"
    gone = f"array_except(concat({_offsets('previous_claims')}, {fresh}), {_offsets('claims')})"
    versions = transitions.where(f"step = 'next' and done > 0 and ({failed} or {acknowledged})")
    return versions.select(
        *_QUEUE,
        "topic_id",
        "version",
        "action",
        F.when(F.col("queue_id") < 0, F.col("subscription_id")).otherwise(0).alias("lane"),
        F.array_min(F.expr(_offsets("claims"))).alias("first_pending"),
        F.explode(F.expr(gone)).alias("queue_offset"),
    ).select(
        *_QUEUE,
        "topic_id",
        "version",
        "action",
        "lane",
        "queue_offset",
        F.coalesce(F.col("queue_offset") > F.col("first_pending"), F.lit(False)).alias("ahead"),
    )


def derive_failures(released: DataFrame, offsets: DataFrame) -> DataFrame:
    """List the messages whose delivery failed, by a nack, the end of a lease, or expiry.

    `offsets` have `subscription_id` 0 in a topic's own queues. Returns rows (subscription_id, message_id,
    action). A message may have several.
    """
    messages = offsets.select(
        "topic_id", "queue_id", "queue_offset", "message_id", F.col("subscription_id").alias("lane")
    )
    failed = released.where("action <> 'ack'").drop("ahead", "version")
    return failed.join(messages, ["topic_id", "lane", "queue_id", "queue_offset"]).select(
        "subscription_id", "message_id", "action"
    )


def derive_letters(letters: DataFrame, known_since: DataFrame, readers: DataFrame) -> DataFrame:
    """Name the readers of dead letters of present subscriptions, and say which can be judged.

    `judged` says whether the history of all queues reaches back to the time when the message became a dead
    letter.
    """
    since = known_since.groupBy("subscription_id").agg(F.max("known_since").alias("known_since"))
    judged = F.col("known_since").isNull() | (F.col("died_at") > F.col("known_since"))
    return letters.join(readers, "subscription_id").join(since, "subscription_id").withColumn("judged", judged)


def _offsets(claims: str) -> str:
    return (
        f"flatten(transform({claims}, c -> if(c.picked is not null, c.picked, "
        "array_except(sequence(c.from_offset, c.to_offset - 1), coalesce(c.settled, array())))))"
    )


def overlap(claims: str) -> Column:
    """Whether two claims of a column hold the same offset."""
    inside = (
        "exists({some}.picked, o -> o >= {other}.from_offset and o < {other}.to_offset "
        "and not coalesce(array_contains({other}.settled, o), false))"
    )
    shared = (
        "case when c.picked is not null and d.picked is not null then arrays_overlap(c.picked, d.picked) "
        f"when c.picked is not null then {inside.format(some='c', other='d')} "
        f"when d.picked is not null then {inside.format(some='d', other='c')} "
        "else size(array_except(sequence(greatest(c.from_offset, d.from_offset), "
        "least(c.to_offset, d.to_offset) - 1), "
        "concat(coalesce(c.settled, array()), coalesce(d.settled, array())))) > 0 end"
    )
    pairs = (
        f"exists(transform({claims}, (c, i) -> exists(slice({claims}, i + 2, size({claims})), "
        f"d -> c.from_offset < d.to_offset and d.from_offset < c.to_offset and {shared})), x -> x)"
    )
    return F.coalesce(F.expr(f"if(size({claims}) < 2, false, {pairs})"), F.lit(False))
