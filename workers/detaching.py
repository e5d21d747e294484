"""Detaching released partitions before they are dropped, beside the keeper's other work."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from mqpg.values import errors
from mqpg.values.translation import translate

from .session import Connection, connect

__all__ = ["Detaching", "PartitionDetach"]

logger = logging.getLogger(__name__)

# First key of the session advisory locks of those who drop. The second key is a hash of the table.
_LOCK = "select pg_try_advisory_lock(1836150842, hashtext(%s))"
_RELEASED = "select * from mqpg._tables_to_drop() where leaving is not null order by segment_no"
_STATE = "select * from mqpg._tables_to_drop() where (family, segment_no, leaving) = (%s, %s, %s)"
# DETACH … CONCURRENTLY cannot run inside a function, so it needs the owner's rights.
_MAY_DETACH = "select pg_has_role(n.nspowner, 'usage') from pg_namespace n where n.nspname = 'mqpg'"
_FINISH = "select * from mqpg._finish_drop(%s, %s)"
# DETACH … CONCURRENTLY only waits, and no session waits for it. It may therefore wait for hours. The
# server completes it also if this process dies meanwhile, so it must not look for the client.
_PATIENT = {"client_connection_check_interval": "0", "lock_timeout": "0"}
# FINALIZE and DROP hold locks while they wait.
_SHORT = "set lock_timeout = '100ms'"
# The last step of a detach waits for the partition itself, and meanwhile no partition can be made.
# That is rare: a dump that began at that very moment, for instance. It is then finished later.
_UNSTICK = """
select pg_cancel_backend(l.pid)
from pg_locks l
where l.pid = any(%s) and l.locktype = 'relation' and not l.granted
    and l.waitstart < clock_timestamp() - interval '1 second'
"""


class PartitionDetach(threading.Thread):
    """Detaches one released partition, which is not needed any more, and drops it.

    Every step is committed by itself and can be repeated. After a crash between two of them the next keeper,
    or a call of `keep()`, continues with the step that the catalog shows.
    """

    def __init__(self, dsn: str, family: str, segment_no: int, leaving: str) -> None:
        super().__init__(name=f"mqpg-drop-{leaving}", daemon=True)
        self.leaving = leaving  # the table that the partition belongs to
        self.backend: int | None = None  # the process id of the server's session, once it is connected
        self.finished = False  # whether the table is gone, or old rows are, of which there may be more
        self._dsn, self._segment = dsn, (family, segment_no)

    def run(self) -> None:
        """Detach and drop it. What is in use, or fails, is left for the next time."""
        try:
            with connect(self._dsn, f"keeper drops {self.leaving}") as conn:
                self.backend = conn.info.backend_pid
                locked = conn.execute(_LOCK, (self.leaving,)).fetchone()
                if locked and locked[0]:
                    self._drop(conn)
        except psycopg.errors.LockNotAvailable:
            logger.info("table is in use", extra={"table": self.leaving})
        except (psycopg.Error, errors.Error) as error:
            logger.warning("cannot drop a table yet", extra={"table": self.leaving, "error": translate(error)})

    def _drop(self, conn: Connection) -> None:
        state = self._state(conn)
        if state is not None and conn.execute(_MAY_DETACH).fetchone() != (True,):
            self._finish(conn)
            return
        if state is not None and state["state"] == "attached":
            for setting in _PATIENT.items():
                with suppress(psycopg.errors.InvalidParameterValue):
                    conn.execute("select set_config(%s, %s, false)", setting)
            conn.execute(_alter(state, sql.SQL("concurrently")))
            state = self._state(conn)
        conn.execute(_SHORT)
        if state is not None and state["state"] == "detaching":
            conn.execute(_alter(state, sql.SQL("finalize")))
            state = self._state(conn)
        if state is not None and state["state"] == "detached":
            self._finish(conn)

    def _finish(self, conn: Connection) -> None:
        """Drop the table. One that is attached is tried for a moment, and left if it is in use."""
        for step in conn.cursor(row_factory=dict_row).execute(_FINISH, self._segment):
            logger.info("segment", extra=step)
            self.finished = self.finished or step["action"] in ("dropped", "purged")

    def _state(self, conn: Connection) -> dict[str, Any] | None:
        return conn.cursor(row_factory=dict_row).execute(_STATE, (*self._segment, self.leaving)).fetchone()


def _alter(state: dict[str, Any], how: sql.SQL) -> sql.Composed:
    return sql.SQL("alter table {} detach partition {} {}").format(
        sql.Identifier("mqpg", state["parent"]), sql.Identifier("mqpg", state["partition"]), how
    )


class Detaching:
    """The drops that are under way, at most one for each table.

    A table may have only one partition that is being detached, and one that waits must not hold up the other
    tables or the keeper.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._threads: dict[str, PartitionDetach] = {}

    def begin(self, conn: Connection) -> None:
        """Begin to drop what is released."""
        waiting = [thread.backend for thread in self._threads.values() if thread.is_alive() and thread.backend]
        if waiting:
            conn.execute(_UNSTICK, (waiting,))
        for row in conn.cursor(row_factory=dict_row).execute(_RELEASED).fetchall():
            if row["leaving"] not in self._threads:
                thread = PartitionDetach(self._dsn, row["family"], row["segment_no"], row["leaving"])
                self._threads[row["leaving"]] = thread
                thread.start()

    def finished(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for each drop that is under way, and forget those that ended.

        Returns whether a table or old rows are gone, so that there may be more to do.
        """
        ended = []
        for thread in list(self._threads.values()):
            thread.join(timeout)
            if not thread.is_alive():
                ended.append(self._threads.pop(thread.leaving))
        return any(thread.finished for thread in ended)
