"""Electing the leader of a role: one of its processes works, and the others stand by."""

from __future__ import annotations

import logging
from typing import Any

from .foreign_locks import ForeignLocks
from .session import Connection
from .silent_leader import SilentLeader

__all__ = ["LeaderElection"]

logger = logging.getLogger(__name__)

_LEADERSHIP = 1836150837  # first key of the session advisory locks of the leaders; see sql/numbers.md


class LeaderElection:
    """The lock of a role, which makes the process that has it the leader.

    It is a session lock on the same connection that does the work. A worker that loses the connection therefore
    loses the lock at the same moment, and the server frees the lock of a killed process. A standby ends the
    session of a leader that falls silent without dying. Leadership only saves work. The result is correct with
    any number of leaders. A worker therefore also leads if a session that is no worker holds the lock. It then
    tries for the lock until it has it, and stands by if another worker gets it first.

    `lock_id` is the role's own key, and `detail` is what the worker reports.
    """

    def __init__(self, lock_id: int, detail: dict[str, Any]) -> None:
        self._lock = (_LEADERSHIP, lock_id)
        self._foreign_locks = ForeignLocks(detail)
        self._silent_leader = SilentLeader(self._lock, detail)
        self._has_lock = False

    def is_won(self, conn: Connection, *, look: bool) -> bool:
        """Whether this process leads from now on.

        With `look` it also leads without the lock, if a session that is no worker holds it.
        """
        if self._try_lock(conn) or (self._silent_leader.end(conn) and self._try_lock(conn)):
            return True
        is_foreign = look and self._is_lock_foreign(conn)
        if is_foreign:
            logger.warning("leading without the lock", extra={"backend": conn.info.backend_pid})
        return is_foreign

    def is_lost(self, conn: Connection) -> bool:
        """Whether another worker has the lock, so that this one has to stand by. Reports strangers' locks."""
        is_foreign = self._is_lock_foreign(conn)
        return not self._has_lock and not self._try_lock(conn) and not is_foreign

    def resign(self, conn: Connection) -> None:
        """Let another process lead."""
        conn.execute("select pg_advisory_unlock_all()")

    def _try_lock(self, conn: Connection) -> bool:
        """Try for it, and never wait: a statement that waits for a lock would hold back vacuum."""
        row = conn.execute("select pg_try_advisory_lock(%s, %s)", self._lock).fetchone()
        self._has_lock = bool(row and row[0])
        if self._has_lock:
            logger.info("leading", extra={"backend": conn.info.backend_pid})
        return self._has_lock

    def _is_lock_foreign(self, conn: Connection) -> bool:
        return self._lock in self._foreign_locks.report(conn)
