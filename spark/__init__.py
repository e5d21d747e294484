"""mqpg.spark: topics as batches and streams of Spark, and two jobs over the tables of all databases.

`register` makes `format("mqpg")` known to a session. The jobs are the audit and the reconciliation.

The audit proves from the tables alone what happened to every message. It writes to the
audited databases only if a table for its findings is named. The reconciliation finds lost commits and commits them.

The folders of the jobs depend on each other in one direction: `cli` on `jobs`, `jobs` on `read`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Register the data source `mqpg` in a session, for `format("mqpg")`.

    Call it in each thread that writes: Spark knows a registered format only in the thread's active session.

    Args:
        spark: The session; a Spark Connect session, too. Its workers need mqpg installed.
    """
    from .pipeline.source import register as register_source  # what runs without Spark imports this package, too

    register_source(spark)
