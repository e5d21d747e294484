"""Making frames of rows that Python has, without Python on the executors.

`createDataFrame` of a list would start a Python there. Of an Arrow table it does not.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from .stores import FrameStore

__all__ = ["Counted", "frame_of_rows", "literals_of_row"]

_ROWS_AT_ONCE = 100_000
# So many rows may be part of plans. The optimizer computes with such rows, again in each query.
_LITERAL = 100
# JSON with every digit of a time.
_EXACT = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


class Counted:
    """Rows that are counted as they pass."""

    def __init__(self, rows: Iterable[Sequence[Any]]) -> None:
        self.rows, self.n = rows, 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for row in self.rows:
            self.n += 1
            yield tuple(row)


def frame_of_rows(
    spark: SparkSession, rows: Iterable[tuple[Any, ...]], schema: StructType, store: FrameStore | None = None
) -> DataFrame:
    """Make a frame of rows. Those of a large table are stored chunk by chunk.

    The store None holds them in memory, in the form of Arrow.
    """
    left, frames, full = iter(rows), list[DataFrame](), True
    while full:
        chunk = list(itertools.islice(left, _ROWS_AT_ONCE))
        full = len(chunk) == _ROWS_AT_ONCE
        frame = spark.createDataFrame(_table(chunk, schema), schema)
        if store and (full or (store.tuning.small and len(chunk) > _LITERAL)):
            frame = store.materialize("rows", frame)
        frames.append(frame)
    return functools.reduce(DataFrame.unionByName, frames)


def literals_of_row(frame: DataFrame) -> DataFrame:
    """Make a frame of the only row of another one, whose columns are literals, so that they are joined with nothing."""
    (text,) = frame.select(F.to_json(F.struct("*"), _EXACT)).collect()[0]
    row = F.from_json(F.lit(text), frame.schema, _EXACT).alias("row")
    return frame.sparkSession.sql("select 1").select(row).select("row.*")


def _table(rows: list[tuple[Any, ...]], schema: StructType) -> pa.Table:
    types = to_arrow_schema(schema, timezone="UTC")
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=types)
