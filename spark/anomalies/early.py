"""early: delivered or applied before its transaction, or while that is open."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .override import was_overridden
from .rows import anomaly_rows, union_rows
from .rows import seconds_for as _seconds

__all__ = ["early"]


def early(
    entries: DataFrame,
    effects: DataFrame,
    ledger_matches: DataFrame,
    ticks: DataFrame,
    deliveries: DataFrame,
    retry_times: DataFrame,
    *,
    tolerances: dict[str, float],
    ledger_tolerances: dict[str, float],
    purged_before: str,
) -> DataFrame:
    """Find deliveries and effects before their commit, and commits before their local transaction.

    Args:
        retry_times: When each retry becomes visible: rows (subscription_id, message_id, attempt,
            visible_at).
        tolerances: Seconds by which the clock of each consumer group's database may differ.
        ledger_tolerances: The same for each ledger.
        purged_before: Ledger rows of decisions before this time may have been deleted.
    """
    return union_rows(
        _open(entries, "in a queue"),
        _open(effects, "applied"),
        _before_its_tick(entries, ticks),
        _before_the_queue(entries, effects),
        _retry_before_its_time(
            entries, effects, deliveries, retry_times, ticks, _seconds("consumer_group", tolerances)
        ),
        _before_the_commit(effects, _seconds("consumer_group", tolerances)),
        _before_the_ledger(ledger_matches, _seconds("ledger", ledger_tolerances), purged_before),
    )


def _epoch(column: str) -> Column:
    return F.unix_micros(column) / 1e6


def _open(rows: DataFrame, what: str) -> DataFrame:
    state = F.when(F.col("state") == "undecided", "the half message is undecided").otherwise("its time has not come")
    undelivered = rows.where("state in ('undecided', 'delayed')")
    return anomaly_rows("early", undelivered, F.concat(F.lit(f"{what}, but "), state))


def _before_its_tick(entries: DataFrame, ticks: DataFrame) -> DataFrame:
    own = entries.where("subscription_id = 0 and state = 'committed'").join(ticks, "tick_id")
    unseen = (F.col("commit_xid") >= F.col("xmax")) | F.array_contains("xip", F.col("commit_xid"))
    not_due = F.coalesce(F.col("due_at") > F.col("due_until"), F.lit(False))
    reason = F.when(unseen, F.format_string("which had not seen transaction %s", F.col("commit_xid"))).otherwise(
        "before its time had come"
    )
    return anomaly_rows(
        "early",
        own.where(unseen | not_due),
        F.concat(F.lit("appended by tick "), F.col("tick_id"), F.lit(", "), reason),
    )


def _before_the_queue(entries: DataFrame, effects: DataFrame) -> DataFrame:
    # The consumers' snapshots are older than the broker's, so the broker's queues must contain
    # everything that a journal contains.
    queued = entries.where("subscription_id = 0").select("message_id").distinct()
    unqueued = effects.where("state = 'committed' and waiting").join(queued, "message_id", "left_anti")
    return anomaly_rows("early", unqueued, F.lit("applied, but no tick of the appender has seen its commit"))


def _retry_before_its_time(
    entries: DataFrame,
    effects: DataFrame,
    deliveries: DataFrame,
    retry_times: DataFrame,
    ticks: DataFrame,
    tolerance: Column,
) -> DataFrame:
    retry = ["subscription_id", "message_id", "attempt"]
    appended = entries.where("subscription_id > 0").join(retry_times, retry).join(ticks, "tick_id")
    place = ["subscription_id", "queue_id", "queue_offset", "message_id"]
    scheduled = deliveries.where("lane > 0 and state = 'committed'").select(*place, "attempt")
    applied = effects.join(scheduled, place).join(retry_times, retry)
    lead = _epoch("visible_at") - _epoch("applied_at")
    before_its_commit = _epoch("committed_at") - _epoch("applied_at") > tolerance
    return union_rows(
        anomaly_rows(
            "early",
            appended.where("visible_at > due_until"),
            F.format_string("retry %s was appended by tick %s, before its time", "attempt", "tick_id"),
        ),
        anomaly_rows(
            "early",
            applied.where((lead > tolerance) & ~before_its_commit),
            F.format_string("retry %s was applied %.3f s before its time", F.col("attempt"), lead),
        ),
    )


def _before_the_commit(effects: DataFrame, tolerance: Column) -> DataFrame:
    committed = effects.where("state = 'committed'").withColumn("_from", F.greatest("committed_at", "due_at"))
    lead = _epoch("_from") - _epoch("applied_at")
    return anomaly_rows(
        "early", committed.where(lead > tolerance), F.format_string("applied %.3f s before its commit", lead)
    )


def _before_the_ledger(ledger_matches: DataFrame, tolerance: Column, purged_before: str) -> DataFrame:
    committed = ledger_matches.where("audited and state = 'committed'")
    purged = F.col("decided_at") < F.lit(purged_before).cast("timestamp")
    missing = committed.where("entry is null and not seen and not expected").where(~purged & ~was_overridden())
    lead = _epoch("created_at") - _epoch("decided_at")
    late_rows = committed.where("entry = 'local'").where(lead > tolerance)
    return union_rows(
        anomaly_rows(
            "early",
            missing,
            F.format_string("committed by the %s, but the ledger %s has no row", "decided_by", "ledger"),
        ),
        anomaly_rows(
            "early",
            late_rows,
            F.format_string("committed %.3f s before its row in the ledger %s", lead, F.col("ledger")),
        ),
    )
