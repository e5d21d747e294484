"""What differs between the SQL of PostgreSQL and that of Spark, in the texts that both engines run.

The texts in `mqpg/audit/sql` keep to what both understand, apart from the words that are listed
here. Where PostgreSQL has a function that Spark has not, the session gets one of the same name.
"""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

__all__ = ["add_functions", "to_spark"]

# With arguments that are expressions of one line and one pair of parentheses at most.
_WORDS = (
    (r"\bselect from\b", "select 1 from"),
    (r"\bas not materialized \(", "as ("),
    (r"\bformat\(", "format_string("),
    (r"\b(extract\(epoch from |date_part\('epoch', )", "seconds_of("),
    (r"\bunnest\(", "explode("),
    (r"::text\b", "::string"),
    (r"::float8\b", "::double"),
    (r"\btimestamptz '", "timestamp '"),
    (r' collate "C"', ""),
    (r"\bencode\(sha256\(decode\(([\w.]+), 'hex'\)\), 'hex'\)", r"sha2(unhex(\1), 256)"),
    (r"\bstring_agg\((.+), ', ' order by (.+)\)", r"string_agg(\1, ', ') within group (order by \2)"),
    (r"([\w.]+) = any\(([\w.]+)\)", r"array_contains(\2, \1)"),
    (r"([\w.]+) <@ ([\w.]+)", r"is_within(\1, \2)"),
    (r"(\w+\.\w+)\[1:\]", r"\1"),
    (r"(\w+\.\w+)\[([^\]]+)\]", r"try_element_at(\1, int(\2))"),
)
# A snapshot is a struct of xmax and the ids that ran, and a multirange is an array of ranges, as
# `portable` makes them.
_FUNCTIONS = (
    """generate_series(low bigint, high bigint) returns table (i bigint)
    return select explode(if(high >= low, sequence(low, high), array()))""",
    """seconds_of(span interval day to second) returns double
    return unix_micros(timestamp '1970-01-01 00:00:00 UTC' + span) / 1e6""",
    """pg_visible_in_snapshot(xid bigint, snapshot struct<xmax: bigint, running: array<bigint>>) returns boolean
    return xid < snapshot.xmax and not array_contains(snapshot.running, xid)""",
    """is_within(id bigint, ranges array<struct<low: bigint, high: bigint>>) returns boolean
    return exists(ranges, r -> id >= r.low and id < r.high)""",
)
# Exact percentiles need memory for each value.
_PERCENTILE = r"\bpercentile_cont\(([\d.]+)\) within group \(order by ([\w.]+)\)", r"percentile_approx(\2, \1, 10000)"
_COMMENT = re.compile(r"--.*$", re.MULTILINE)


def to_spark(text: str, *, exact: bool = True) -> str:
    """Return a text of `mqpg/audit/sql` in the words of Spark SQL.

    `exact` is False for large histories, whose percentiles have ranks that are off by 0.01 % at most.
    """
    text = _COMMENT.sub("", text)
    for word, other in _WORDS if exact else (*_WORDS, _PERCENTILE):
        text = re.sub(word, other, text)
    return text


def add_functions(spark: SparkSession) -> None:
    """Give a session the functions that the texts call."""
    for function in _FUNCTIONS:
        spark.sql(f"create or replace temporary function {function}")
