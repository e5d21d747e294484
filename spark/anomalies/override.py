"""override: a half message that an operator committed by hand, without a local transaction.

It is a note and no anomaly, because `settle()` is there for that. Who calls it has looked first.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .rows import anomaly_rows

__all__ = ["override", "was_overridden"]


def was_overridden() -> Column:
    """Return the condition on a half message that is matched with its ledger row."""
    return (
        (F.col("state") == "committed")
        & F.col("entry").isNull()
        & F.coalesce(F.col("decided_by") == "admin", F.lit(False))
    )


def override(ledger_matches: DataFrame) -> DataFrame:
    """Find the half messages that an operator committed by hand.

    Args:
        ledger_matches: Half messages matched with ledger rows.

    Returns:
        Rows with the columns of `schemas.ANOMALY`.
    """
    decided = ledger_matches.where("audited").where(was_overridden())
    return anomaly_rows(
        "override", decided, F.format_string("committed by hand, the ledger %s has no row", F.col("ledger"))
    )
