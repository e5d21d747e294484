"""lost or gap: messages without a row in the log although another table names them."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .rows import anomaly_rows

__all__ = ["deleted"]

# Witnesses outside the broker.
_OUTSIDE = "'a journal', 'a ledger', 'an outbox'"


def deleted(named: DataFrame) -> DataFrame:
    """Find messages that are named although the log has no row for them, as `derive_deleted` returns them.

    They are lost if nothing in the broker names them: a standby that was promoted without the last
    transactions has neither the message nor a trace of it. Otherwise the log has a gap.
    """
    by = F.concat_ws(", ", F.array_sort("witnesses"))
    lost = F.expr(f"forall(witnesses, one -> one in ({_OUTSIDE}))")
    return anomaly_rows(
        F.when(lost, "lost").otherwise("gap"),
        named,
        F.when(lost, F.format_string("the message is in %s, and the broker has no trace of it", by)).otherwise(
            F.format_string("batch id %s has no row, but the message is in %s", F.expr("message_id >> 10"), by)
        ),
    )
