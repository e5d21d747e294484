"""The life that appender, compensator and keeper have in common: connect, wait to lead, work, drain."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mqpg import errors

from .heartbeat import Heartbeat
from .session import Connection, connect, keep_connected, patiently

__all__ = ["Options", "Worker"]

logger = logging.getLogger(__name__)

# First key of the session advisory locks that say who leads; the second is the role's own.
LEADERSHIP = 1836150837


@dataclass(frozen=True)
class Options:
    """What all roles can be told; times in seconds."""

    dsn: str
    interval: float | None = None  # longest pause of an idle worker; None: the role's default
    heartbeat: float = 5.0
    standby_poll: float = 0.5  # how often a standby tries to take over
    patience: float = 10.0  # how long the first connection is tried
    max_messages: int = 100_000  # appender: target size of a pass
    check_timeout: float = 30.0  # compensator: how long a SQL function may think about one half
    ledgers: dict[str, str] = field(default_factory=dict)  # compensator: name -> SQLAlchemy URL


class Worker(ABC):
    """One role in one process: any number may run anywhere, one of each role leads, the others stand by.

    Leadership is a session lock on the very connection that the passes use: who loses the connection has
    lost both at once, and the server frees the lock of a killed process. It only saves work; passes are
    correct however many run.
    """

    role: ClassVar[str]
    lock_id: ClassVar[int]

    def __init__(self, options: Options, stop: threading.Event | None = None) -> None:
        self.options = options
        self.stop = stop or threading.Event()
        self.detail: dict[str, Any] = {"passes": 0, "failures": 0}
        self._heartbeat = Heartbeat(self.role, options.heartbeat, self.detail)

    @abstractmethod
    def turn(self, conn: Connection) -> float:
        """One pass as the leader; returns the seconds to pause before the next one."""

    def end(self) -> None:
        """Called when this worker no longer leads, whatever the cause."""
        logger.info("leading no more")

    def run(self) -> None:
        """Work until `stop` is set; the pass in hand is finished. Raises mqpg.Error when the start fails."""
        dsn = self.options.dsn
        conn = patiently(lambda: connect(dsn, self.role), self.stop, self.options.patience)
        logger.info("started")
        keep_connected(dsn, self.role, self._serve, self.stop, conn=conn, on_failure=self._failed)
        logger.info("stopped", extra=self.detail)

    def _failed(self, error: errors.Error) -> None:
        self.detail["failures"] += 1
        self.detail["last_error"] = str(error)

    def _serve(self, conn: Connection) -> None:
        if self._take_over(conn):
            try:
                self._lead(conn)
            finally:
                self.end()
        self._heartbeat.beat(conn, "stopped")

    def _take_over(self, conn: Connection) -> bool:
        """Wait to become the leader. Polls: a statement that waits for the lock would hold back vacuum."""
        while not self.stop.is_set():
            row = conn.execute("select pg_try_advisory_lock(%s, %s)", (LEADERSHIP, self.lock_id)).fetchone()
            if row and row[0]:
                logger.info("leading", extra={"backend": conn.info.backend_pid})
                return True
            self._heartbeat.beat(conn, "standby")
            self.stop.wait(self.options.standby_poll)
        return False

    def _lead(self, conn: Connection) -> None:
        while not self.stop.is_set():
            self._heartbeat.beat(conn, "active")
            pause = self.turn(conn)
            self.detail["passes"] += 1
            self._rest(conn, pause)

    def _rest(self, conn: Connection, seconds: float) -> None:
        """Pause, with heartbeats: one that fails shows a lost connection long before the pause ends."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self.stop.wait(min(left, self._heartbeat.due_in())):
            self._heartbeat.beat(conn, "active")
