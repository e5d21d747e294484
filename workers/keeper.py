"""The keeper: creates segments ahead, closes them, and drops expired ones (invariant I11)."""

from __future__ import annotations

import logging
import threading
import time

from psycopg.rows import dict_row

from .dropping import Dropping
from .session import Connection
from .worker import Options, Worker

__all__ = ["Keeper"]

logger = logging.getLogger(__name__)

_FORGET = "select mqpg._forget_workers()"

# Tables that should have been dropped long ago, with the sessions that use them.
_BLOCKED = """
select b.partition as table_name, b.state, b.since, clock_timestamp() - b.since as age, b.blocked_by, (
    select string_agg(format('%%s (%%s, in a transaction for %%s)', a.pid, coalesce(nullif(a.application_name, ''),
        a.usename), coalesce(date_trunc('second', clock_timestamp() - a.xact_start)::text, 'unknown')), ', ')
    from pg_stat_activity a where a.pid = any(b.blocked_by)) as sessions
from mqpg._leaving() b
where clock_timestamp() - b.since > make_interval(secs => %s)
order by b.since
"""
_MOST_CALLS = 100  # calls in a row
_LONG = 3600.0  # seconds after which a table that is held up is reported, and again
# Actions that a call of keep() reports without having done them. It tries again after the interval.
_UNDONE = ("pinned", "blocked")


class Keeper(Worker):
    """Calls `mqpg.keep` periodically, and forgets workers that were not seen for a day.

    Tables that are no longer needed it detaches and drops on connections of their own, because that
    may have to wait for other transactions.

    Args:
        options: What the process was started with. `interval` is the pause in seconds; None means
            60.
        stop: An event that ends the worker when it is set. None: a new one.
        long: A table that is held up for so many seconds is reported as a warning, and again after
            as many.
    """

    role = "keeper"
    lock_id = 3

    def __init__(self, options: Options, stop: threading.Event | None = None, *, long: float = _LONG) -> None:
        super().__init__(options, stop)
        self.detail["steps"] = 0
        self._dropping = Dropping(options.dsn)
        self._long = long
        self._reported: dict[str, float] = {}

    def turn(self, conn: Connection) -> float:
        """Call `mqpg.keep` until nothing is left to do, and log each of its actions.

        Args:
            conn: The connection that leads.

        Returns:
            How many seconds to pause.
        """
        conn.execute(_FORGET)
        for _ in range(_MOST_CALLS):
            if self.stop.is_set():
                break
            done = self._keep(conn)
            self._dropping.begin(conn)
            if not self._dropping.finished(0.0 if done else 0.5) and not done:
                break
            self._heartbeat.beat(conn, "active")
        self._report_blocked(conn)
        return self.options.interval or 60.0

    def _keep(self, conn: Connection) -> bool:
        """Call it once. True where there may be more to do."""
        steps = conn.cursor(row_factory=dict_row).execute("select * from mqpg._keep(false)").fetchall()
        for step in steps:
            logger.info("segment", extra=step)
        done = [step for step in steps if step["action"] not in _UNDONE]
        self.detail["steps"] += len(done)
        return bool(done)

    def _report_blocked(self, conn: Connection) -> None:
        """Warn of tables that are held up for an hour, and show them in heartbeats."""
        blocked = conn.cursor(row_factory=dict_row).execute(_BLOCKED, (self._long,)).fetchall()
        self.detail["blocked"] = {
            row["table_name"]: f"since {row['since']:%Y-%m-%d %H:%M:%S%z} by {row['sessions'] or 'no session now'}"
            for row in blocked
        }
        now = time.monotonic()
        self._reported = {
            table: at
            for table, at in self._reported.items()
            if table in self.detail["blocked"] and now - at < self._long
        }
        for row in blocked:
            if row["table_name"] not in self._reported:
                self._reported[row["table_name"]] = now
                logger.warning(
                    "table cannot be dropped, because transactions use it",
                    extra={"table": row["table_name"], "held_up_for": row["age"], "sessions": row["sessions"]},
                )
