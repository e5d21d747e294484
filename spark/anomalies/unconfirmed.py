"""unconfirmed: messages that are still in an outbox although nothing runs any more."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from .rows import anomaly_rows

__all__ = ["unconfirmed"]


def unconfirmed(outbox: DataFrame, *, drained: bool) -> DataFrame:
    """Find half messages that no producer decided (P2), and rows whose message the broker has (P7).

    Unless the audit is drained, each row is work under way.
    """
    left = outbox.where("message_state is not null").where(F.lit(drained))
    # Two databases that contradict each other are a mismatch.
    agreed = left.where(
        "message_state = 'undecided' or (kind <> 'h' and state = 'send') "
        "or (state = 'rollback' and message_state = 'rolled_back') "
        "or (state = 'commit' and message_state <> 'rolled_back')"
    )
    evidence = F.when(
        F.col("message_state") == "undecided",
        F.format_string("prepared (P2) for the outbox %s, and not decided", "ledger"),
    ).otherwise(F.format_string("the broker has it (P7), and the outbox %s still has its row", "ledger"))
    return anomaly_rows("unconfirmed", agreed, evidence)
