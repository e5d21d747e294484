"""Rows of anomalies."""

from __future__ import annotations

import functools

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..read.schemas import ANOMALY

__all__ = ["anomaly_rows", "seconds_for", "union_rows"]


def anomaly_rows(kind: str | Column, frame: DataFrame, evidence: Column) -> DataFrame:
    """Turn the rows of a frame into anomalies (`schemas.ANOMALY`), all of one kind or each of its own.

    A column of the schema that they lack becomes null. `evidence` says what is wrong, as text.
    """
    present = frame.withColumns({"kind": F.lit(kind) if isinstance(kind, str) else kind, "evidence": evidence})
    names = {*frame.columns, "kind", "evidence"}
    # One text for each column. The functions of PySpark ask the JVM a dozen times for each.
    values = ((column, column.name if column.name in names else "null") for column in ANOMALY)
    return present.selectExpr(
        *(f"cast({value} as {column.dataType.simpleString()}) as {column.name}" for column, value in values)
    )


def union_rows(*frames: DataFrame) -> DataFrame:
    """All rows of several frames of anomalies, at least one."""
    return functools.reduce(DataFrame.unionByName, frames)


def seconds_for(column: str, tolerances: dict[str, float]) -> Column:
    """Choose a tolerance, in seconds, by the name in a column; 0 for other names."""
    chosen = F.lit(0.0)
    for name, seconds in tolerances.items():
        chosen = F.when(F.col(column) == name, F.lit(float(seconds))).otherwise(chosen)
    return chosen
