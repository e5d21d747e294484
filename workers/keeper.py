"""The keeper: creates segments ahead, closes them, and drops expired ones (invariant I11)."""

from __future__ import annotations

import logging
import threading
import time

import psycopg
from psycopg.rows import dict_row

from .detaching import Detaching
from .session import Connection
from .unread_groups import UnreadGroups
from .worker import Options, Worker

__all__ = ["Keeper"]

logger = logging.getLogger(__name__)

_MEASURE = "select mqpg._apply_size_limits()"
_FORGET = "select mqpg._forget_workers()"

# Tables that should have been dropped or merged long ago, with the sessions that use them. Another
# role's transactions show when they began only to a member of pg_read_all_stats.
_BLOCKED = """
select b.table_name, b.state, b.since, b.age, b.blocked_by, (
    select string_agg(format('%%s (%%s%%s)', a.pid, coalesce(nullif(a.application_name, ''), a.usename),
        ', in a transaction for ' || date_trunc('second', clock_timestamp() - a.xact_start)), ', ')
    from pg_stat_activity a where a.pid = any(b.blocked_by)) as sessions
from mqpg._blocked_segments() b
where b.age > make_interval(secs => %s)
order by b.since
"""
# The room of the server's lock table: what each connection is counted with, times the connections.
# A call of keep() takes up to 500 locks, and one statement that reads the whole log about 1000.
_LOCKS = """
select each.setting::int as each, each.boot_val::int as own, connections.setting::int as connections,
    prepared.setting::int as prepared
from pg_settings each, pg_settings connections, pg_settings prepared
where each.name = 'max_locks_per_transaction' and connections.name = 'max_connections'
    and prepared.name = 'max_prepared_transactions'
"""
# PostgreSQL's own default, which is enough for a consumer in a transaction on each connection. Version 19
# makes half the room of the same number, and its default is 128.
_OWN = 64
_LEAST_LOCKS = 3000
_MEASURES = 2.0  # seconds from one to the next
_MOST_CALLS = 100  # calls in a row, before the keeper reports what is held up
# Seconds after which a table that is held up is reported, and again, and a group that no consumer reads.
_LONG = 3600.0
# Actions that a call of keep() reports without having done them. It tries again after the interval.
_UNDONE = ("pinned", "blocked")


class Keeper(Worker):
    """Calls `mqpg.keep` periodically, and forgets workers that were not seen for a day.

    It detaches and drops tables that are no longer needed on connections of their own, because that may have
    to wait for other transactions. It also reports consumer groups that no consumer reads, because their
    messages keep segments.

    `options.interval` is the pause; None means 60 seconds. A drop or a merge that is held up for `long`
    seconds is reported as a warning, and again after as many. So is a group whose messages are not read for
    as long, once.
    """

    role = "keeper"
    lock_id = 3

    def __init__(self, options: Options, stop: threading.Event | None = None, *, long: float = _LONG) -> None:
        super().__init__(options, stop)
        self.detail["steps"] = 0
        self._detaching = Detaching(options.dsn)
        self._unread_groups = UnreadGroups(long)
        self._long = long
        self._next_measure = 0.0
        self._reported: dict[str, float] = {}

    def turn(self, conn: Connection) -> float:
        """Call `mqpg.keep` until nothing is left to do, and log each of its actions."""
        try:
            conn.execute(_FORGET)
        except psycopg.Error as error:  # the next turn tries again
            if conn.closed:
                raise
            logger.warning("workers are not forgotten", extra={"error": error})
        self._report_locks(conn)
        pause = 0.0  # there is more to do, unless one of the calls says otherwise
        for _ in range(_MOST_CALLS):
            if self.stop.is_set():
                break
            done = self._keep(conn)
            self._detaching.begin(conn)
            if not self._detaching.finished(0.0 if done else 0.5) and not done:
                pause = self.options.interval or 60.0
                break
            self._heartbeat.beat(conn, "active")
        self._report_blocked(conn)
        self._unread_groups.report(conn)
        return pause

    def pulse(self, conn: Connection) -> None:
        """Compare sizes with their limits every two seconds."""
        now = time.monotonic()
        if now < self._next_measure:
            super().pulse(conn)
            return
        conn.execute(_MEASURE)
        self._next_measure = now + _MEASURES

    def _keep(self, conn: Connection) -> bool:
        """Call it once. True: there may be more to do."""
        steps = conn.cursor(row_factory=dict_row).execute("select * from mqpg._keep(false)").fetchall()
        for step in steps:
            logger.info("segment", extra=step)
        done = [step for step in steps if step["action"] not in _UNDONE]
        self.detail["steps"] += len(done)
        return bool(done)

    def _report_locks(self, conn: Connection) -> None:
        """Warn once if the server has too little room for locks, and show it in heartbeats."""
        found = conn.cursor(row_factory=dict_row).execute(_LOCKS).fetchone() or {}
        problem = _too_few_locks(**found)
        if problem is None:
            self.detail.pop("locks", None)
            return
        if self.detail.get("locks") != problem:
            logger.warning(problem)
        self.detail["locks"] = problem

    def _report_blocked(self, conn: Connection) -> None:
        """Warn of drops and merges that are held up for an hour, and show them in heartbeats."""
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
                    "segments cannot be merged, because transactions use their tables"
                    if row["state"] == "merging"
                    else "table cannot be dropped, because transactions use it",
                    extra={"table": row["table_name"], "held_up_for": row["age"], "sessions": row["sessions"]},
                )


def _too_few_locks(each: int, own: int, connections: int, prepared: int) -> str | None:
    """Say what is wrong with max_locks_per_transaction (`each`). None: it leaves room enough.

    `own` is PostgreSQL's own default of it. `connections` and `prepared` are max_connections and
    max_prepared_transactions.
    """
    room = each * _OWN // own * (connections + prepared)
    if each >= own and room >= _LEAST_LOCKS:
        return None
    wanted = max(own, -(-_LEAST_LOCKS * own // _OWN // (connections + prepared)))
    return (
        f"max_locks_per_transaction = {each} leaves room for {room} locks, which is too few: "
        f"set it to {wanted} or more and restart the server"
    )
