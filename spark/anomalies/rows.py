"""Rows of anomalies."""

from __future__ import annotations

import functools

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ..read.schemas import ANOMALY

__all__ = ["anomaly", "together"]


def anomaly(kind: str, frame: DataFrame, evidence: Column) -> DataFrame:
    """The rows of the frame as anomalies of a kind; columns that it lacks are null."""
    columns = []
    for column in ANOMALY:
        if column.name == "kind":
            value = F.lit(kind)
        elif column.name == "evidence":
            value = evidence
        elif column.name in frame.columns:
            value = F.col(column.name)
        else:
            value = F.lit(None)
        columns.append(value.cast(column.dataType).alias(column.name))
    return frame.select(*columns)


def together(*frames: DataFrame) -> DataFrame:
    """All rows of some frames of anomalies."""
    return functools.reduce(DataFrame.unionByName, frames)
