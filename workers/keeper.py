"""The keeper: makes segments ahead, closes them, and drops what retention allows (invariant I11)."""

from __future__ import annotations

import logging
import threading

from psycopg.rows import dict_row

from .session import Connection
from .worker import Options, Worker

__all__ = ["Keeper"]

logger = logging.getLogger(__name__)

_FORGET = "delete from mqpg.worker where seen_at < clock_timestamp() - interval '1 day'"

_ROUND = 100  # calls in a row at most
# What a pass reports without having done it: the next one a minute later is soon enough.
_UNDONE = ("pinned", "blocked")


class Keeper(Worker):
    """Calls `mqpg.keep` every `interval` seconds (a minute), and forgets workers not seen for a day."""

    role = "keeper"
    lock_id = 3

    def __init__(self, options: Options, stop: threading.Event | None = None) -> None:
        super().__init__(options, stop)
        self.detail["steps"] = 0

    def turn(self, conn: Connection) -> float:
        """All that there is to do about segments now; what was done, or could not be and why, is logged."""
        conn.execute(_FORGET)
        for _ in range(_ROUND):
            if self.stop.is_set() or not self._keep(conn):
                break
            self._heartbeat.beat(conn, "active")
        return self.options.interval or 60.0

    def _keep(self, conn: Connection) -> bool:
        """One call, which drops one table at most; True when there may be more to do."""
        steps = conn.cursor(row_factory=dict_row).execute("select * from mqpg.keep()").fetchall()
        for step in steps:
            logger.info("segment", extra=step)
        done = [step for step in steps if step["action"] not in _UNDONE]
        self.detail["steps"] += len(done)
        return bool(done)
