"""The form of a handle, as the audits recognise it in tables that belong to users."""

from __future__ import annotations

from typing import LiteralString

__all__ = ["IS_HANDLE", "OF_BROKER"]

# mqpg.values.handle.HANDLE in SQL; {0} is the column. The lengths are compared apart, because a
# pattern with {1,18} takes PostgreSQL five times as long.
IS_HANDLE: LiteralString = (
    "({0} ~ '^[^.]+[.][0-9]+[.][0-9]+[.][0-9a-f]+$' "
    "and length(split_part({0}, '.', 3)) <= 18 and length(split_part({0}, '.', 4)) = 32)"
)
# A handle of one broker, if {0} is the column and {1} the placeholder of the broker's id. A query that also casts
# parts of handles ends with `offset 0`: Spark reads it in ranges of ids, and a ledger has rows that are no handles,
# whose parts PostgreSQL would otherwise compare first.
OF_BROKER: LiteralString = "case when split_part({0}, '.', 1) = {1} then " + IS_HANDLE + " else false end"
