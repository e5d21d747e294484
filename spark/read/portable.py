"""Result sets of PostgreSQL in the types of Spark, whether they come by JDBC or through this process."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from mqpg.audit.sql.statements import FINITE

__all__ = ["Column", "columns_of_table", "portable", "shaped", "spark_schema"]

# By PostgreSQL's type: what it is read as there, and the type that Spark gives it.
_TYPES: Mapping[str, tuple[str, DataType]] = {
    "smallint": ("{}::int", IntegerType()),
    "integer": ("{}::int", IntegerType()),
    "bigint": ("{}::bigint", LongType()),
    "boolean": ("{}::boolean", BooleanType()),
    "text": ("{}::text", StringType()),
    '"char"': ("{}::text", StringType()),
    "double precision": ("{}::float8", DoubleType()),
    "timestamp with time zone": (FINITE, TimestampType()),
    "xid8": ("{}::text::bigint", LongType()),
    "integer[]": ("{}", ArrayType(IntegerType())),
    "bigint[]": ("{}", ArrayType(LongType())),
    "text[]": ("{}", ArrayType(StringType())),
    "pg_snapshot": ("{}::text", StringType()),
    "int8multirange": ("{}::text", StringType()),
}
_SHAPES: Mapping[str, str] = {
    "pg_snapshot": "if({0} is null, null, named_struct('xmax', bigint(split({0}, ':')[1]), 'running', "
    "transform(filter(split(split({0}, ':')[2], ','), x -> x <> ''), x -> bigint(x))))",
    "int8multirange": r"transform(regexp_extract_all({0}, '[0-9]+,[0-9]+', 0), x -> "
    "named_struct('low', bigint(split(x, ',')[0]), 'high', bigint(split(x, ',')[1])))",
}
_ALIASES = {"int": "integer", "float8": "double precision", "timestamptz": "timestamp with time zone"}


@dataclass(frozen=True)
class Column:
    """A column, with PostgreSQL's name for its type."""

    name: str
    kind: str


def columns_of_table(text: str) -> list[Column]:
    """List the columns of a table by the text that creates it."""
    inside = re.sub(r"--.*", "", text).partition("(")[2].rpartition(")")[0]
    words = (one.split() for one in inside.split(","))
    return [Column(name, _ALIASES.get(kind, kind)) for name, kind, *_ in words]


def portable(columns: Sequence[Column]) -> str:
    """The columns of a row `q` as PostgreSQL must return them."""
    return ", ".join(f"{_TYPES[c.kind][0].format(f'q.{c.name}')} as {c.name}" for c in columns)


def spark_schema(columns: Sequence[Column]) -> StructType:
    """The schema of the rows that `portable` returns."""
    return StructType([StructField(c.name, _TYPES[c.kind][1]) for c in columns])


def shaped(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Give the rows that `portable` returned their types in Spark."""
    if frame.schema == spark_schema(columns) and not any(c.kind in _SHAPES for c in columns):
        return frame
    return frame.select(*(F.expr(_shape(c)).alias(c.name) for c in columns))


def _shape(column: Column) -> str:
    plain = f"cast({{0}} as {_TYPES[column.kind][1].simpleString()})"
    return _SHAPES.get(column.kind, plain).format(f"`{column.name}`")
