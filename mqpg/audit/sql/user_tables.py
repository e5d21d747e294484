"""The tables in users' databases that the engine reads."""

from __future__ import annotations

__all__ = ["COLUMNS", "OF_ONE_BROKER"]

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
