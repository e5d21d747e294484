"""Ends the session of a leader that has fallen silent, so that PostgreSQL frees its lock.

The lock of a process that was frozen, or whose host vanished, stays with its session. A leader that
works sends a statement every second at least (`PULSE`), and the server notes when. So a standby needs
no clock and no row of the leader to see that it is silent. With the session ends its transaction,
before the lock is free: nothing is done twice.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import psycopg
from psycopg.rows import dict_row

from .session import Connection

__all__ = ["PULSE", "SilentLeader"]

logger = logging.getLogger(__name__)

PULSE = 1.0  # seconds within which a leader sends a statement
_SILENCE = 3.5  # seconds without one after which a standby ends its session
_PAUSE = 0.5  # seconds between two looks

# A session that works on a statement is not silent: its client waits for the server. A worker of another role may
# hide what it does, and then its session is left alone.
_END = """
select a.pid, a.client_addr::text as host, a.application_name as application,
    extract(epoch from clock_timestamp() - a.state_change)::float8 as seconds,
    date_trunc('second', clock_timestamp())::text as at, pg_terminate_backend(a.pid) as ended
from pg_locks as k
join pg_stat_activity as a on k.pid = a.pid
where k.locktype = 'advisory' and k.granted and k.objsubid = 2 and k.classid::bigint = %s and k.objid::bigint = %s
    and k.database = (select d.oid from pg_database as d where d.datname = current_database())
    and a.application_name like 'mqpg %%' and a.state like 'idle%%'
    and a.state_change < clock_timestamp() - make_interval(secs => %s)
"""


class SilentLeader:
    """Looks now and then whether the session that holds a leader's lock is silent, and ends it.

    `detail` is what the worker reports: `ended_silent` says whom it ended last, and why, `sessions_ended`
    how many.
    """

    def __init__(self, lock: tuple[int, int], detail: dict[str, Any]) -> None:
        self._lock, self._detail = lock, detail
        self._next_look = 0.0

    def end(self, conn: Connection) -> bool:
        """End the session, if it is silent. True: it was ended."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + _PAUSE
        try:
            found = conn.cursor(row_factory=dict_row).execute(_END, (*self._lock, _SILENCE)).fetchall()
        except psycopg.errors.InsufficientPrivilege as error:
            logger.debug("cannot end the session of a silent leader: %s", error)
            return False
        for one in found:
            self._detail["ended_silent"] = one
            self._detail["sessions_ended"] = self._detail.get("sessions_ended", 0) + 1
            logger.warning("ended the session of a leader that fell silent", extra=one)
        return bool(found)
