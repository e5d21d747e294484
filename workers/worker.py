"""What appender, compensator and keeper have in common: connect, wait to lead, work, drain."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mqpg.connection.streak import FailureStreak
from mqpg.values import errors

from .call_timeout import CALL_TIMEOUT
from .full_disk import FullDisk
from .heartbeat import Heartbeat
from .leader_election import LeaderElection
from .session import Connection, connect, patiently, stay_connected
from .silent_leader import PULSE

__all__ = ["Options", "Worker"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """The options of all roles. Times are in seconds."""

    dsn: str
    interval: float | None = None  # The longest pause of an idle worker. None: the role's default.
    heartbeat: float = 5.0  # the time between two heartbeats
    standby_poll: float = 0.5  # the time between two attempts of a standby to take over
    patience: float = 10.0  # how long to try the first connection
    max_messages: int = 100_000  # for the appender, the target size of one append
    check_timeout: float = 30.0  # for the compensator, how long a SQL function may take for one half message
    # How long a statement waits for a server that says nothing, before the connection is replaced
    call_timeout: float = CALL_TIMEOUT
    adopt_promoted: bool = False  # for the appender, whether it adopts a server that was promoted
    ledgers: dict[str, str] = field(default_factory=dict)  # for the compensator, the SQLAlchemy URL of each ledger name


class Worker(ABC):
    """One role in one process.

    Any number of processes may run, on any host. One of each role leads, and the others stand by.
    """

    role: ClassVar[str]
    lock_id: ClassVar[int]  # the second key of the role's lock

    def __init__(self, options: Options, stop: threading.Event | None = None) -> None:
        self.options = options
        self.stop = stop or threading.Event()
        # What the worker has done. The view worker_status shows it.
        self.detail: dict[str, Any] = {"iterations": 0, "failures": 0}
        self._streak = FailureStreak()
        self._heartbeat = Heartbeat(self.role, options.heartbeat, self.detail, self._streak.described)
        self._election = LeaderElection(self.lock_id, self.detail)
        self._full_disk = FullDisk()

    @abstractmethod
    def turn(self, conn: Connection) -> float:
        """Do one iteration of the work, as the leader, and return how many seconds to pause after it."""

    def pulse(self, conn: Connection) -> None:
        """Send a statement every second while the worker rests."""
        conn.execute("")

    def stand_by(self, conn: Connection) -> str:
        """Do what needs no leadership, while another process leads.

        Returns the state to report: "standby", or "active" if there was something to do.
        """
        return "standby"

    def end(self) -> None:
        """Clean up when the connection or the leadership ends, for any reason."""
        logger.debug("the connection or the leadership ends")

    def run(self) -> None:
        """Work until `stop` is set. An iteration that has begun is finished.

        Raises ConnectionFailed if the first connection cannot be made in time, and SchemaError.
        """
        dsn = self.options.dsn
        conn = patiently(lambda: connect(dsn, self.role), self.stop, self.options.patience)
        logger.info("started")
        too_new: list[errors.SchemaTooNew] = []
        stay_connected(
            dsn,
            self.role,
            self._serve,
            self.stop,
            conn=conn,
            on_failure=self._failed,
            on_too_new=too_new.append,
            call_timeout=self.options.call_timeout,
        )
        logger.info("stopped", extra=self.detail)
        if too_new:
            raise too_new[0]

    def _failed(self, error: errors.Error) -> None:
        self.detail["failures"] += 1
        self.detail["last_error"] = str(error)
        self._streak.failed(error)
        self._heartbeat.beat_soon()

    def _serve(self, conn: Connection) -> None:
        try:
            while self._wait_to_lead(conn):
                self._lead(conn)
                if not self.stop.is_set():
                    self.end()
                    self._election.resign(conn)
        finally:
            self.end()
        self._heartbeat.beat(conn, "stopped")

    def _wait_to_lead(self, conn: Connection) -> bool:
        """Wait to become the leader. False: `stop` was set before."""
        while not self.stop.is_set():
            if self._election.is_won(conn, look=self._heartbeat.due_in() == 0):
                return True
            self._heartbeat.beat(conn, self.stand_by(conn))
            self.stop.wait(self.options.standby_poll)
        return False

    def _lead(self, conn: Connection) -> None:
        try:
            while not self.stop.is_set():
                if not self._beat(conn):
                    break
                pause = self.turn(conn)
                self.detail["iterations"] += 1
                if self._streak.worked():
                    self._heartbeat.beat_soon()
                self._rest(conn, pause)
        finally:
            logger.info("no longer leading")

    def _rest(self, conn: Connection, seconds: float) -> None:
        """Pause, with heartbeats, and with statements in between that show a standby that this process lives.

        A statement that fails shows a lost connection before the pause ends.
        """
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self.stop.wait(
            min(left, self._heartbeat.due_in(), PULSE)
        ):
            if not self._beat(conn):
                break
            self.pulse(conn)

    def _beat(self, conn: Connection) -> bool:
        """Report, if it is due. False: another worker has the lock, so this one has to stand by."""
        if self._heartbeat.due_in() == 0:
            # The keeper is one that may find nothing to write for long.
            self._full_disk.check(conn, self.role == "keeper" or self._streak.described() is not None)
            if self._election.is_lost(conn):
                return False
        self._heartbeat.beat(conn, "active")
        return True
