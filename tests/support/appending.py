"""Senders beside a worker that appends, and what has to be true of the offsets."""

import threading
from typing import Any

import psycopg

__all__ = ["Sender", "appended", "check_dense_and_once"]

Connection = psycopg.Connection[Any]

_OFFSETS = """
select c.queue_id, c.base_offset + r.start + i, r.first_id + i
from mqpg.consume_queue c
cross join lateral (
    select u.first_id, u.start, coalesce(lead(u.start) over (order by u.start), c.n) - u.start as n
    from unnest(c.first_ids, c.starts) as u (first_id, start)
) r
cross join lateral generate_series(0, r.n - 1) i
order by 1, 2
"""


def appended(db: Connection) -> int:
    row = db.execute("select coalesce(sum(n), 0) from mqpg.consume_queue").fetchone()
    return int(row[0]) if row else 0


def check_dense_and_once(db: Connection, sent: list[int]) -> None:
    """Assert I4 and I5: each queue has offsets 0, 1, 2, …, and every message has exactly one."""
    rows = db.execute(_OFFSETS).fetchall()
    for queue in {queue for queue, _, _ in rows}:
        offsets = [offset for found, offset, _ in rows if found == queue]
        assert offsets == list(range(len(offsets)))
    assert sorted(message for _, _, message in rows) == sorted(sent)


class Sender(threading.Thread):
    """Sends one by one until it is stopped, and keeps the ids whose transactions committed."""

    def __init__(self, conn: Connection, topic: str) -> None:
        super().__init__(daemon=True)
        self._conn, self._topic, self.sent, self._stop_sending = conn, topic, list[int](), threading.Event()

    def run(self) -> None:
        while not self._stop_sending.wait(0.002):
            row = self._conn.execute("select mqpg.send(%s, '{}'::text)", [self._topic]).fetchone()
            self.sent.append(row[0] if row else -1)

    def finish(self) -> list[int]:
        self._stop_sending.set()
        self.join()
        return self.sent
