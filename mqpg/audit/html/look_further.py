"""SQL that shows more about one anomaly."""

from __future__ import annotations

from typing import Any

from psycopg import sql

__all__ = ["queries"]


def queries(anomaly: dict[str, Any]) -> list[str]:
    """The statements that a reader of the report would run next about one of its examples.

    They are for the broker, or for the database of the group's journal.
    """
    message_id, topic, group = anomaly["message_id"], anomaly["topic"], anomaly["consumer_group"]
    found = []
    if message_id is not None:
        found.append(_text("select * from mqpg.trace({})", message_id))
    if topic is not None and anomaly["queue_offset"] is not None:
        found.append(
            _text(
                "select * from mqpg_audit.queue_entry where topic = {} and queue_id = {} and queue_offset = {}",
                topic,
                anomaly["queue_id"],
                anomaly["queue_offset"],
            )
        )
    if group is not None and topic is not None:
        found.append(
            _text(
                "select * from mqpg_audit.position_jump where consumer_group = {} and topic = {} order by jumped_at",
                group,
                topic,
            )
        )
    if group is not None and message_id is not None:
        found.append(
            _text("select * from mqpg_applied where consumer_group = {} and message_id = {}", group, message_id)
        )
    return found


def _text(statement: str, *values: object) -> str:
    literals = [sql.Literal(value) for value in values]
    return sql.SQL(statement).format(*literals).as_string(None) + ";"
