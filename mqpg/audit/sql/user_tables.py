"""The tables in users' databases that the engine reads, and the form of a handle there."""

from __future__ import annotations

from typing import LiteralString

__all__ = ["COLUMNS", "IS_HANDLE", "OF_BROKER", "OF_ONE_BROKER"]

# By the temporary table: the user's table, and its columns.
COLUMNS: dict[str, tuple[str, tuple[str, ...]]] = {
    "applied": (
        "mqpg_applied",
        ("consumer_group", "topic", "queue_id", "queue_offset", "message_id", "applied_at", "subscription_id"),
    ),
    "stored_offset": (
        "mqpg_offsets",
        ("consumer_group", "topic", "queue_id", "next_offset", "broker", "incarnation", "last_message_id"),
    ),
    "deferred": ("mqpg_inbox", ("consumer_group", "topic", "message_id")),
}
# Rows of other brokers are read of these only if the report names them.
OF_ONE_BROKER = ("applied", "deferred")
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
