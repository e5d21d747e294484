"""What differs between the SQL of PostgreSQL and that of Spark, in the texts that both engines run.

The texts in `mqpg/audit/sql` keep to what both understand, apart from the words that are listed
here. Where PostgreSQL has a function that Spark has not, the call becomes an expression. A function
of the session would become a subquery, which Spark analyzes by itself and joins.
"""

from __future__ import annotations

import re

__all__ = ["SINGLE", "to_spark"]

# Frames of a single row, which the session has as literals.
SINGLE = ("horizon", "judged", "run", "setback")

# With arguments that are expressions of one line and one pair of parentheses at most.
_WORDS = (
    (r"\bselect from\b", "select 1 from"),
    # Spark would compute the product with such a frame, and computes none with a subquery.
    (rf"\bcross join ({'|'.join(SINGLE)}) as", r"cross join lateral (table \1) as"),
    (r"\bas not materialized \(", "as ("),
    (r"\bformat\(", "format_string("),
    (
        r"\b(?:extract\(epoch from|date_part\('epoch',) ((?:[^()]|\([^()]*\))*)\)",
        r"(unix_micros(timestamp '1970-01-01 00:00:00 UTC' + (\1)) / 1e6)",
    ),
    # After the word array, Spark's parser takes >> for the end of two types.
    (
        r"\bgenerate_series\(([^,]+), ([^)]+)\)",
        r"explode(if(\2 >= \1, sequence(bigint(\1), bigint(\2)), `array`()))",
    ),
    (r"\bunnest\(", "explode("),
    (r"\barray\[([^\]]+)\]", r"`array`(\1)"),
    (r"::text\b", "::string"),
    (r"::float8\b", "::double"),
    (r"\btimestamptz '", "timestamp '"),
    (r' collate "C"', ""),
    (r"\bencode\(sha256\(decode\(([\w.]+), 'hex'\)\), 'hex'\)", r"sha2(unhex(\1), 256)"),
    (r"\bstring_agg\((.+), ', ' order by (.+)\)", r"string_agg(\1, ', ') within group (order by \2)"),
    (r"([\w.]+) = any\(([\w.]+)\)", r"array_contains(\2, \1)"),
    # A snapshot is a struct of xmax and the ids that ran, and a multirange an array of ranges (read/portable.py).
    (
        r"\bpg_visible_in_snapshot\(([\w.]+), ([\w.]+)\)",
        r"(\1 < \2.xmax and not array_contains(\2.running, \1))",
    ),
    (r"([\w.]+) <@ ([\w.]+)", r"(not forall(\2, span -> \1 < span.low or \1 >= span.high))"),
    (r"(\w+\.\w+)\[1:\]", r"\1"),
    (r"(\w+\.\w+)\[([^\]]+)\]", r"try_element_at(\1, int(\2))"),
)
# Exact percentiles need memory for each value.
_PERCENTILE = r"\bpercentile_cont\((.+)\) within group \(order by ([\w.]+)\)", r"percentile_approx(\2, \1, 10000)"
_COMMENT = re.compile(r"--.*$", re.MULTILINE)


def to_spark(text: str, *, exact: bool = True) -> str:
    """Return a text of `mqpg/audit/sql` in the words of Spark SQL.

    `exact` is False for large histories, whose percentiles have ranks that are off by 0.01 % at most.
    """
    text = _COMMENT.sub("", text)
    for word, other in _WORDS if exact else (*_WORDS, _PERCENTILE):
        text = re.sub(word, other, text)
    return text
