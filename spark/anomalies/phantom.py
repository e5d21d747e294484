"""phantom: delivered or applied without a committed transaction that could ever account for it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .rows import anomaly, together

__all__ = ["phantom"]

_GHOSTS = ("missing", "elsewhere", "final", "rolled_back", "recalled", "relayed")


def phantom(placed: DataFrame, applied: DataFrame, promised: DataFrame, *, purged_before: str) -> DataFrame:
    """Entries and journal rows of no message, of a rolled back or recalled one, or without a local transaction.

    promised: promises with `seen` (in a queue or applied) and `topic`. A commit decided before the time
    `purged_before` may have lost its ledger row to the purge and is not judged by its absence.
    """
    queued = anomaly("phantom", placed.where(F.col("state").isin(*_GHOSTS)), _why("in a queue"))
    taken = anomaly("phantom", applied.where(F.col("state").isin(*_GHOSTS)), _why("applied"))
    fenced = F.coalesce(F.col("entry") == "fence", F.lit(False))
    purged = F.col("decided_at") < F.lit(purged_before).cast("timestamp")
    unbacked = promised.where("asked and seen and state = 'committed'").where(
        fenced | (F.col("entry").isNull() & ~purged)
    )
    told = F.when(fenced, "a fence").otherwise("no row")
    return together(
        queued,
        taken,
        anomaly(
            "phantom",
            unbacked,
            F.format_string("delivered, committed by the %s, but the ledger %s has %s", "decided_by", "ledger", told),
        ),
    )


def _why(what: str) -> Column:
    reason = (
        F.when(F.col("state") == "missing", "there is no such message")
        .when(F.col("state") == "elsewhere", "the message is one of another topic")
        .when(F.col("state") == "final", "this is the id of a final payload, not of a message")
        .when(F.col("state") == "relayed", "this is the id of a half that travels as other messages")
        .otherwise(F.concat(F.lit("the message was "), F.translate("state", "_", " ")))
    )
    return F.concat(F.lit(f"{what}, but "), reason)
