"""early: delivered or applied before the transaction that accounts for it, or while it is still open."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .rows import anomaly, together

__all__ = ["early"]


def early(
    placed: DataFrame,
    applied: DataFrame,
    promised: DataFrame,
    ticks: DataFrame,
    *,
    tolerances: dict[str, float],
    ledger_tolerances: dict[str, float],
    purged_before: str,
) -> DataFrame:
    """Deliveries and effects that came before their commit, and commits that came before the local transaction.

    tolerances: seconds, per consumer group and per ledger, by which the clocks may disagree.
    """
    return together(
        _open(placed, "in a queue"),
        _open(applied, "applied"),
        _before_its_tick(placed, ticks),
        _before_the_queue(placed, applied),
        _before_the_commit(applied, _seconds("consumer_group", tolerances)),
        _before_the_ledger(promised, _seconds("ledger", ledger_tolerances), purged_before),
    )


def _seconds(column: str, tolerances: dict[str, float]) -> Column:
    chosen = F.lit(0.0)
    for name, seconds in tolerances.items():
        chosen = F.when(F.col(column) == name, F.lit(float(seconds))).otherwise(chosen)
    return chosen


def _epoch(column: str) -> Column:
    return F.unix_micros(column) / 1e6


def _open(seen: DataFrame, what: str) -> DataFrame:
    state = F.when(F.col("state") == "undecided", "the half is undecided").otherwise("its time has not come")
    return anomaly("early", seen.where("state in ('undecided', 'delayed')"), F.concat(F.lit(f"{what}, but "), state))


def _before_its_tick(placed: DataFrame, ticks: DataFrame) -> DataFrame:
    own = placed.where("subscription_id = 0 and state = 'committed'").join(ticks, "tick_id")
    unseen = (F.col("commit_xid") >= F.col("xmax")) | F.array_contains("xip", F.col("commit_xid"))
    not_due = F.coalesce(F.col("due_at") > F.col("due_until"), F.lit(False))
    reason = F.when(unseen, F.format_string("which had not seen transaction %s", F.col("commit_xid"))).otherwise(
        "before its time had come"
    )
    return anomaly(
        "early",
        own.where(unseen | not_due),
        F.concat(F.lit("appended by tick "), F.col("tick_id"), F.lit(", "), reason),
    )


def _before_the_queue(placed: DataFrame, applied: DataFrame) -> DataFrame:
    # The consumers' snapshots are older than the broker's: what they hold, its queues must hold.
    queued = placed.where("subscription_id = 0").select("message_id").distinct()
    ahead = applied.where("state = 'committed' and waiting").join(queued, "message_id", "left_anti")
    return anomaly("early", ahead, F.lit("applied, but no pass of the appender has seen its commit"))


def _before_the_commit(applied: DataFrame, tolerance: Column) -> DataFrame:
    known = applied.where("state = 'committed'").withColumn("_since", F.greatest("committed_at", "due_at"))
    lead = _epoch("_since") - _epoch("applied_at")
    return anomaly("early", known.where(lead > tolerance), F.format_string("applied %.3f s before its commit", lead))


def _before_the_ledger(promised: DataFrame, tolerance: Column, purged_before: str) -> DataFrame:
    committed = promised.where("asked and state = 'committed'")
    purged = F.col("decided_at") < F.lit(purged_before).cast("timestamp")
    missing = committed.where("entry is null and not seen").where(~purged)
    lead = _epoch("created_at") - _epoch("decided_at")
    ahead = committed.where("entry = 'local'").where(lead > tolerance)
    return together(
        anomaly(
            "early",
            missing,
            F.format_string("committed by the %s, but the ledger %s has no row", "decided_by", "ledger"),
        ),
        anomaly(
            "early", ahead, F.format_string("committed %.3f s before its row in the ledger %s", lead, F.col("ledger"))
        ),
    )
