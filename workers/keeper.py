"""The keeper: makes segments ahead, closes them, and drops what retention allows (invariant I11)."""

from __future__ import annotations

from mqpg.workers.session import Connection
from mqpg.workers.worker import Worker

__all__ = ["Keeper"]

_FORGET = "delete from mqpg.worker where seen_at < clock_timestamp() - interval '1 day'"


class Keeper(Worker):
    """Calls `mqpg.keep` every `interval` seconds (a minute)."""

    role = "keeper"
    lock_id = 3

    def turn(self, conn: Connection) -> float:
        conn.execute("select mqpg.keep()")
        conn.execute(_FORGET)
        return self.options.interval or 60.0
