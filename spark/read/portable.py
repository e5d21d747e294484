"""Result sets of PostgreSQL in the types of Spark, whether they come by JDBC or through this process."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

__all__ = ["Column", "columns_of_table", "portable", "shaped", "spark_schema"]

# By PostgreSQL's type: what it is read as there, and the type that Spark gives it.
_TYPES: Mapping[str, tuple[str, str]] = {
    "smallint": ("{}::int", "int"),
    "integer": ("{}::int", "int"),
    "bigint": ("{}::bigint", "bigint"),
    "boolean": ("{}::boolean", "boolean"),
    "text": ("{}::text", "string"),
    '"char"': ("{}::text", "string"),
    "double precision": ("{}::float8", "double"),
    # Neither Python nor Spark has a time without end.
    "timestamp with time zone": (
        "case {0}::timestamptz when 'infinity' then timestamptz '9999-12-31 23:59:59+00' "
        "when '-infinity' then timestamptz '0001-01-02 00:00:00+00' else {0}::timestamptz end",
        "timestamp",
    ),
    "xid8": ("{}::text::bigint", "bigint"),
    "integer[]": ("{}", "array<int>"),
    "bigint[]": ("{}", "array<bigint>"),
    "text[]": ("{}", "array<string>"),
    "pg_snapshot": ("{}::text", "string"),
    "int8multirange": ("{}::text", "string"),
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
    schema = StructType.fromDDL(", ".join(f"`{c.name}` {_TYPES[c.kind][1]}" for c in columns))
    assert isinstance(schema, StructType)
    return schema


def shaped(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Give the rows that `portable` returned their types in Spark."""
    return frame.select(*(F.expr(_shape(c)).alias(c.name) for c in columns))


def _shape(column: Column) -> str:
    plain = f"cast({{0}} as {_TYPES[column.kind][1]})"
    return _SHAPES.get(column.kind, plain).format(f"`{column.name}`")
