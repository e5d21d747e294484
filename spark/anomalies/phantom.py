"""phantom: delivered or applied, and no committed transaction can ever account for it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .override import was_overridden
from .rows import anomaly_rows, union_rows

__all__ = ["phantom"]

_NEVER_DELIVERED = ("missing", "other_topic", "final", "rolled_back", "recalled", "relayed")


def phantom(
    entries: DataFrame,
    effects: DataFrame,
    ledger_matches: DataFrame,
    readers: DataFrame,
    *,
    purged_before: str,
    newest_id: int,
    had_others: bool,
) -> DataFrame:
    """Find entries and journal rows without a message, and deliveries without a local transaction.

    A message that was rolled back or recalled counts as no message.

    Args:
        purged_before: Ledger rows of decisions before this time may have been deleted. Their
            absence proves nothing.
        newest_id: The newest batch id at the time of the newest tick. A message below it
            that is missing was there, so it is a `gap`.
        had_others: Whether there may have been subscriptions that are gone.
    """
    never = F.col("state").isin(*_NEVER_DELIVERED)
    never &= (F.col("state") != "missing") | F.expr(f"message_id >> 10 > {newest_id}")
    queued = anomaly_rows("phantom", entries.where(never), _why("in a queue"))
    applied = anomaly_rows("phantom", effects.where(never), _why("applied"))
    unasked = effects.where(F.col("state").isin("committed", "expired") & F.lit(not had_others)).join(
        readers, ["consumer_group", "topic_id"], "left_anti"
    )
    fenced = F.coalesce(F.col("entry") == "fence", F.lit(False))
    purged = F.col("decided_at") < F.lit(purged_before).cast("timestamp")
    unbacked = ledger_matches.where("audited and seen and state = 'committed'").where(
        fenced | (F.col("entry").isNull() & ~purged & ~was_overridden())
    )
    ledger_row = F.when(fenced, "a fence").otherwise("no row")
    return union_rows(
        queued,
        applied,
        anomaly_rows("phantom", unasked, F.lit("applied, but the group never subscribed to the topic")),
        anomaly_rows(
            "phantom",
            unbacked,
            F.format_string(
                "delivered, committed by the %s, but the ledger %s has %s", "decided_by", "ledger", ledger_row
            ),
        ),
    )


def _why(what: str) -> Column:
    reason = (
        F.when(F.col("state") == "missing", "there is no such message")
        .when(F.col("state") == "other_topic", "the message is one of another topic")
        .when(F.col("state") == "final", "this is the id of a final payload, not of a message")
        .when(F.col("state") == "relayed", "this is the id of a half message that is delivered as other messages")
        .otherwise(F.concat(F.lit("the message was "), F.translate("state", "_", " ")))
    )
    return F.concat(F.lit(f"{what}, but "), reason)
