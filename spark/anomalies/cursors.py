"""reverted, stale_epoch, skipped and lease: versions of cursors that their actions do not explain.

A version breaks at most one of these rules. If it breaks several, the first of them counts.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..derive.cursor_history import overlap
from .rows import anomaly_rows

__all__ = ["cursor_faults"]

_KINDS = ("reverted", "stale_epoch", "skipped", "lease")


def cursor_faults(
    transitions: DataFrame, jumps: DataFrame, *, dropped_slots: list[int], purged_before: str
) -> DataFrame:
    """Find positions, claims and epochs that changed without an action that may change them.

    Position jumps from before `purged_before`, and the cursor slots that retention has dropped, prove
    nothing. The anomalies have four kinds.
    """
    recorded = _jumps_of(transitions, jumps)
    rows = transitions.join(recorded, ["subscription_id", "queue_id", "version"], "left")
    old = F.col("at") < F.lit(purged_before).cast("timestamp")
    # The own row of a broadcast group has no position jumps, because no consumer reads by it.
    moved_on_record = F.coalesce("has_jump", F.lit(False)) | old | ~F.col("reads")
    back_on_record = F.coalesce("has_jump_back", F.lit(False)) | old | ~F.col("reads")
    # A queue's rows in a newer slot begin with the state that was carried from an older one.
    dropped = F.array(*map(F.lit, dropped_slots)) if dropped_slots else F.array().cast("array<int>")
    between = F.exists(dropped, lambda one: (one < F.col("slot")) & (one > F.coalesce("previous_slot", F.lit(-1))))
    carried = (F.col("action") == "carried") & between
    rows = rows.withColumn("unknown", carried & F.col("step").isin("first", "gap"))
    faults = F.array_compact(
        F.array(
            F.when(F.col("step") == "next", _reverted(back_on_record)),
            F.when(~F.col("unknown"), _missing()),
            F.when(F.col("step") == "next", _stale()),
            F.when(F.col("step") == "next", _lease()),
            F.when(F.col("step") == "next", _unexplained_move(moved_on_record | F.col("moved_back_later"))),
        )
    )
    found = rows.withColumn("fault", F.get(faults, F.lit(0))).where("fault is not null")
    found = found.withColumn("queue_offset", F.coalesce("previous_committed", "committed")).withColumn(
        "evidence",
        F.format_string("version %s (action %s): %s", F.col("version"), F.col("action"), F.col("fault.evidence")),
    )
    parts = [anomaly_rows(kind, found.where(F.col("fault.kind") == kind), F.col("evidence")) for kind in _KINDS]
    everything = parts[0]
    for part in parts[1:]:
        everything = everything.unionByName(part)
    return everything


def _fault(kind: str, evidence: Column) -> Column:
    return F.struct(F.lit(kind).alias("kind"), evidence.alias("evidence"))


def _jumps_of(transitions: DataFrame, jumps: DataFrame) -> DataFrame:
    """Say for each version that moved a position on purpose whether a position jump records it."""
    moves = transitions.where("action in ('moved', 'expired') and step = 'next'").select(
        "subscription_id", "queue_id", "version", "action", "claimed", "previous_claimed", "previous_committed"
    )
    named = jumps.select("subscription_id", "queue_id", "from_offset", "to_offset", "why", "back")
    same_action = (F.col("why") == "expired") == (F.col("action") == "expired")
    overlaps = F.col("from_offset") < F.greatest("claimed", "previous_claimed")
    overlaps &= F.col("to_offset") > F.col("previous_committed")
    covers_way_back = F.col("back") & (F.col("from_offset") <= F.col("claimed"))
    covers_way_back &= F.col("to_offset") >= F.col("previous_claimed")
    return (
        moves.join(named, ["subscription_id", "queue_id"])
        .groupBy("subscription_id", "queue_id", "version")
        .agg(
            F.bool_or(same_action & ~F.col("back") & overlaps).alias("has_jump"),
            F.bool_or(covers_way_back).alias("has_jump_back"),
        )
    )


def _reverted(back_on_record: Column) -> Column:
    went_back = (F.col("claimed") < F.col("previous_claimed")) | (F.col("committed") < F.col("previous_committed"))
    by_seek = F.col("action") == "moved"
    unrecorded = by_seek & (F.col("claimed") < F.col("previous_claimed")) & ~back_on_record
    return F.when(
        (went_back & ~by_seek & (F.col("action") != "incarnation")) | unrecorded,
        _fault(
            "reverted",
            F.format_string(
                "went back from %s (claimed up to %s) to %s (claimed up to %s)",
                "previous_committed",
                "previous_claimed",
                "committed",
                "claimed",
            ),
        ),
    )


def _missing() -> Column:
    return F.when(
        (F.col("step") == "first") & (F.col("version") > 1),
        _fault("skipped", F.lit("the versions before it are missing")),
    ).when(
        F.col("step") == "gap",
        _fault("skipped", F.format_string("the versions between %s and it are missing", "previous_version")),
    )


def _stale() -> Column:
    receipt = F.col("action").isin("ack", "nack", "extend", "release")
    held = F.expr("exists(previous_claims, c -> c.epoch <=> epoch)")
    given = F.col("action").isin("receive", "ack_and_receive", "take_over")
    not_given = F.expr("not exists(claims, c -> c.epoch <=> epoch)")
    not_rising = F.col("epoch") <= F.coalesce("highest_before", F.lit(0))
    foreign = F.expr(
        "exists(claims, c -> c.epoch > 0 "
        "and not (c.epoch <=> epoch and action in ('receive', 'ack_and_receive', 'take_over')) "
        "and not exists(previous_claims, p -> p.epoch = c.epoch))"
    )
    return (
        F.when(
            receipt & ~held & (F.col("claimed") == F.col("previous_claimed")),
            _fault("stale_epoch", F.format_string("no claim had epoch %s", "epoch")),
        )
        .when(
            given & (not_given | not_rising),
            _fault("stale_epoch", F.format_string("epoch %s is not a new claim's", "epoch")),
        )
        .when(foreign, _fault("stale_epoch", F.lit("it has a claim that no delivery gave")))
    )


def _unexplained_move(on_record: Column) -> Column:
    action, moved = F.col("action"), F.col("claimed") > F.col("previous_claimed")
    others_gone = F.expr(
        "size(array_except(filter(previous_claims, c -> not c.epoch <=> epoch), "
        "filter(claims, c -> not c.epoch <=> epoch))) > 0"
    )
    first = F.expr("if(size(claims) > 0, array_min(transform(claims, c -> c.from_offset)), claimed)")
    ended = F.expr("size(array_except(previous_claims, claims))")
    # A receive skips what a filter leaves out. It needs no record, because `lost` judges it.
    unexplained = (
        F.when(action == "ack", moved | others_gone)
        .when(action == "nack", moved | others_gone)
        .when(
            action.isin("extend", "release", "unpin", "incarnation", "closed", "carried"), moved | (F.col("done") != 0)
        )
        .when(action == "ack_and_receive", (F.col("done") <= 0) | (ended != 1))
        .when(
            action == "take_over", (F.col("done") < 0) | ((F.col("on_failure") != "block_key") & (F.col("done") != 0))
        )
        .when(action.isin("moved", "expired"), (F.col("done") > 0) & ~on_record)
        .when(action.isin("receive", "filtered", "dead_letter"), F.col("done") < 0)
        .otherwise(True)
    )
    return F.when(
        unexplained | (first != F.col("committed")),
        _fault(
            "skipped",
            F.format_string(
                "moved from %s (claimed up to %s) to %s (claimed up to %s), which its action does not explain",
                "previous_committed",
                "previous_claimed",
                "committed",
                "claimed",
            ),
        ),
    )


def _lease() -> Column:
    # A pinned consumer takes its own claims again at any time.
    taken = F.expr(
        "exists(previous_claims, c -> c.epoch > 0 and try_cast(c.lease_until as timestamp) > at "
        "and not array_contains(claims, c))"
    )
    early = F.col("action").isin("receive", "take_over", "dead_letter") & (F.col("mode") != "pinned") & taken
    return F.when(early, _fault("lease", F.lit("it took over a claim whose lease had not ended"))).when(
        overlap("claims") & ~overlap("previous_claims"),
        _fault("lease", F.lit("two claims hold the same offset")),
    )
