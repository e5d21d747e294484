"""The keeper: creates segments ahead, closes them, and drops expired ones (invariant I11)."""

from __future__ import annotations

import logging
import threading

from psycopg.rows import dict_row

from .session import Connection
from .worker import Options, Worker

__all__ = ["Keeper"]

logger = logging.getLogger(__name__)

_FORGET = "delete from mqpg.worker where seen_at < clock_timestamp() - interval '1 day'"

_MOST_CALLS = 100  # calls in a row
# Actions that a call of keep() reports without having done them. It tries again after the interval.
_UNDONE = ("pinned", "blocked")


class Keeper(Worker):
    """Calls `mqpg.keep` periodically, and forgets workers that were not seen for a day.

    Args:
        options: What the process was started with. `interval` is the pause in seconds; None means
            60.
        stop: An event that ends the worker when it is set. None: a new one.
    """

    role = "keeper"
    lock_id = 3

    def __init__(self, options: Options, stop: threading.Event | None = None) -> None:
        super().__init__(options, stop)
        self.detail["steps"] = 0

    def turn(self, conn: Connection) -> float:
        """Call `mqpg.keep` until nothing is left to do, and log each of its actions.

        Args:
            conn: The connection that leads.

        Returns:
            How many seconds to pause.
        """
        conn.execute(_FORGET)
        for _ in range(_MOST_CALLS):
            if self.stop.is_set() or not self._keep(conn):
                break
            self._heartbeat.beat(conn, "active")
        return self.options.interval or 60.0

    def _keep(self, conn: Connection) -> bool:
        """Call it once, which drops at most one table. True where there may be more to do."""
        steps = conn.cursor(row_factory=dict_row).execute("select * from mqpg.keep()").fetchall()
        for step in steps:
            logger.info("segment", extra=step)
        done = [step for step in steps if step["action"] not in _UNDONE]
        self.detail["steps"] += len(done)
        return bool(done)
