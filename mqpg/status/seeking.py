"""What a seek would skip and repeat, before it does anything."""

from __future__ import annotations

from typing import Any

from psycopg.rows import dict_row

import mqpg
from mqpg.values.words import counted

__all__ = ["preview", "sentence"]

_POSITIONS = """
    select l.queue_id, coalesce(l.owner, '') as owner, l.committed, l.next_offset
    from mqpg.subscription_lag as l
    where l.consumer_group = %(group)s and l.topic = %(topic)s
"""


def preview(
    mq: mqpg.Client, group: str, topic: str, target: str, queue: int | None, consumer: str | None
) -> dict[str, Any]:
    """Try a seek in a transaction that is rolled back, and compare the positions.

    Returns how many messages it would skip and repeat, and how many queues it would move. Messages that
    are being worked on count as unread.
    """
    names = {"group": group, "topic": topic}
    with (
        mq.transaction() as conn,
        conn.transaction(force_rollback=True),
        conn.cursor(row_factory=dict_row) as cursor,
    ):
        before = _by_queue(cursor.execute(_POSITIONS.encode(), names).fetchall())
        mq.seek(group, topic, target, queue, consumer=consumer, conn=conn)
        after = _by_queue(cursor.execute(_POSITIONS.encode(), names).fetchall())
    moves = [after[one] - before[one] for one in before if one in after]
    return {
        "skipped": sum(move for move in moves if move > 0),
        "repeated": -sum(move for move in moves if move < 0),
        "queues": sum(move != 0 for move in moves),
    }


def sentence(effect: dict[str, Any]) -> str:
    """Say in one line what a seek would do, from what `preview` returned."""
    skipped, queues = counted(effect["skipped"], "message"), counted(effect["queues"], "queue")
    return f"skips {skipped} and repeats {effect['repeated']:,}, on {queues}"


def _by_queue(rows: list[dict[str, Any]]) -> dict[tuple[int, str], int]:
    return {(row["queue_id"], row["owner"]): row["committed"] for row in rows}
