"""The compensator: checks overdue half messages back and decides them (protocol T3)."""

from __future__ import annotations

import logging
import threading
import time

from psycopg.rows import dict_row

from .function_checker import FunctionChecker
from .served_ledgers import ServedLedgers, known_ledgers
from .session import Connection
from .worker import Options, Worker

__all__ = ["Compensator"]

logger = logging.getLogger(__name__)

_FUNCTIONS = "select t.checker_target from mqpg._checker_targets('function') t"
_COMPENSATE = "select mqpg._compensate(1, 'ledger')"
_EXPIRE = "select * from mqpg._expire_halves(%s)"
_BATCH = 200  # half messages between two looks at the producer groups
_EXPIRE_BATCH = 100
_EXPIRE_EVERY = 60.0  # in pauses: a minute, as a rule
_DRAIN = 10.0  # how many seconds a drain waits for checks that have begun


class Compensator(Worker):
    """Decides overdue half messages by the checkers of their producer groups.

    The process that leads checks the groups whose ledger is in the broker's database, with one short
    transaction for each half message, and ends half messages that have expired. Each SQL function has a
    thread, so a slow or dead one delays its own groups only. The same holds for each ledger in another
    database, but any compensator that knows those serves them, whether it leads or not. Groups with the
    checker `due_checks` are left to their apps.

    `options.interval` is the pause while nothing is overdue; None means 1 second.
    """

    role = "compensator"
    lock_id = 2

    def __init__(self, options: Options, stop: threading.Event | None = None) -> None:
        super().__init__(options, stop)
        self._interval = options.interval or 1.0
        self._ledgers = ServedLedgers(options, self._interval)
        self._functions: dict[str, FunctionChecker] = {}
        self._next_tend = self._next_expiry = 0.0
        self.detail |= {"checked": 0, "expired": 0, "ledgers": self._ledgers.detail, "functions": {}}
        if known := known_ledgers(options.ledgers):
            self.detail["known_ledgers"] = known  # read before a group names one of them

    def stand_by(self, conn: Connection) -> str:
        """Serve the ledgers that the leader does not know."""
        if self._next_tend == 0.0:  # the leader comes first
            self._next_tend = time.monotonic() + self._interval
        elif time.monotonic() >= self._next_tend:
            self._next_tend = time.monotonic() + self._interval
            self._ledgers.tend(conn)
        return "active" if self._ledgers.serves else "standby"

    def turn(self, conn: Connection) -> float:
        """Start missing checkers, and check the ledger in the broker's database."""
        self._ledgers.tend(conn)
        self._tend_functions(conn)
        self._expire(conn)
        for _ in range(_BATCH):
            if self.stop.is_set() or not self._compensate(conn):
                return self._interval
            self.detail["checked"] += 1
            self._heartbeat.beat(conn, "active")
        return 0.0

    def _compensate(self, conn: Connection) -> int:
        row = conn.execute(_COMPENSATE).fetchone()
        return int(row[0]) if row else 0

    def _expire(self, conn: Connection) -> None:
        """End half messages that were not decided in time.

        The first time comes a minute after this process began to lead. After an outage the apps and the
        ledgers can therefore answer first.
        """
        now, pause = time.monotonic(), _EXPIRE_EVERY * self._interval
        if self._next_expiry == 0.0:
            self._next_expiry = now + pause
        if now < self._next_expiry:
            return
        ended = conn.cursor(row_factory=dict_row).execute(_EXPIRE, (_EXPIRE_BATCH,)).fetchall()
        for half in ended:
            logger.warning("half message expired undecided", extra=half)
        self.detail["expired"] += len(ended)
        self._next_expiry = now + (self._interval if len(ended) == _EXPIRE_BATCH else pause)

    def _tend_functions(self, conn: Connection) -> None:
        """Run one checker for each function that groups name."""
        wanted = {str(row[0]) for row in conn.execute(_FUNCTIONS)}
        for name in set(self.detail["functions"]) - wanted:
            del self.detail["functions"][name]
            if checker := self._functions.pop(name, None):
                checker.stop.set()
        for name in wanted:
            if name not in self._functions or not self._functions[name].is_alive():
                checker = FunctionChecker(self.options.dsn, name, self._interval, self.options.check_timeout)
                self._functions[name] = checker
                self.detail["functions"][name] = checker.detail
                checker.start()

    def end(self) -> None:
        """Stop the checkers. A drain waits for the checks that have begun."""
        checkers = [*self._ledgers.end(), *self._functions.values()]
        for function in self._functions.values():
            function.stop.set()
        self._functions = {}
        self._next_tend = self._next_expiry = 0.0
        if self.stop.is_set():
            deadline = time.monotonic() + _DRAIN
            for checker in checkers:
                checker.join(max(0.0, deadline - time.monotonic()))
