"""The compensator: checks overdue half messages back and decides them (protocol T3)."""

from __future__ import annotations

import logging
import threading
import time

from mqpg import errors
from mqpg.settings import ledger_variable

from .checker import LedgerChecker
from .functions import FunctionChecker
from .session import Backoff, Connection
from .targets import find_url
from .worker import Options, Worker

__all__ = ["Compensator"]

logger = logging.getLogger(__name__)

_URL_GROUPS = """
select checker_target, array_agg(name order by name)
from mqpg.producer_group
where checker = 'url'
group by checker_target
"""
_FUNCTIONS = "select distinct checker_target from mqpg.producer_group where checker = 'function'"
_COMPENSATE = "select mqpg._compensate(1, 'ledger')"
_BATCH = 200  # half messages between two looks at the producer groups
_DRAIN = 10.0  # how many seconds a drain waits for checks that have begun


class Compensator(Worker):
    """Decides overdue half messages by the checkers of their producer groups.

    Groups whose ledger is in the broker's database are checked here, with one short transaction for
    each half message. Each other ledger and each SQL function has a thread, so a slow or dead one
    delays its own groups only. Groups with the checker `due_checks` are left to their apps.

    Args:
        options: What the process was started with. `interval` is the pause in seconds while nothing
            is overdue; None means 1.
        stop: An event that ends the worker when it is set. None: a new one.
    """

    role = "compensator"
    lock_id = 2

    def __init__(self, options: Options, stop: threading.Event | None = None) -> None:
        super().__init__(options, stop)
        self._interval = options.interval or 1.0
        self._checkers: dict[str, LedgerChecker] = {}
        self._functions: dict[str, FunctionChecker] = {}
        self._unknown: dict[str, _Reminder] = {}
        self.detail |= {"checked": 0, "ledgers": {}, "functions": {}}

    def turn(self, conn: Connection) -> float:
        """Start missing checkers, and check the ledger in the broker's database.

        Args:
            conn: The connection that leads.

        Returns:
            How many seconds to pause; 0 where more may be overdue.
        """
        self._tend_ledgers(conn)
        self._tend_functions(conn)
        for _ in range(_BATCH):
            if self.stop.is_set() or not self._compensate(conn):
                return self._interval
            self.detail["checked"] += 1
            self._heartbeat.beat(conn, "active")
        return 0.0

    def _compensate(self, conn: Connection) -> int:
        row = conn.execute(_COMPENSATE).fetchone()
        return int(row[0]) if row else 0

    def _tend_ledgers(self, conn: Connection) -> None:
        """Run one checker for each ledger that groups name and this process knows, and no other."""
        wanted: dict[str, list[str]] = dict(conn.execute(_URL_GROUPS).fetchall())
        for name in set(self._checkers) - set(wanted):
            self._checkers.pop(name).stop.set()
        for name, groups in wanted.items():
            checker = self._checkers.get(name)
            if checker is not None and checker.is_alive():
                checker.groups = groups
            elif (url := find_url(name, self.options.ledgers)) is not None:
                self._start(name, url, groups)
            else:
                hint = f"--ledger {name}=URL or {ledger_variable(name)}"
                self._remind(name, groups, f"it is not configured here: set {hint}")

    def _tend_functions(self, conn: Connection) -> None:
        """Run one checker for each function that groups name."""
        wanted = {str(row[0]) for row in conn.execute(_FUNCTIONS)}
        for name in set(self._functions) - wanted:
            self._functions.pop(name).stop.set()
            self.detail["functions"].pop(name, None)
        for name in wanted:
            if name not in self._functions or not self._functions[name].is_alive():
                checker = FunctionChecker(self.options.dsn, name, self._interval, self.options.check_timeout)
                self._functions[name] = checker
                self.detail["functions"][name] = checker.detail
                checker.start()

    def _start(self, name: str, url: str, groups: list[str]) -> None:
        try:
            checker = LedgerChecker(self.options.dsn, name, url, groups, self._interval)
        except errors.ConfigurationError as error:
            self._remind(name, groups, str(error))
            return
        self.detail["ledgers"][name] = checker.detail
        self._checkers[name] = checker
        checker.start()

    def _remind(self, name: str, groups: list[str], reason: str) -> None:
        """Report a ledger that cannot be opened.

        The half messages of its groups wait until an operator configures it. No check is counted.
        """
        self.detail["ledgers"][name] = {"state": "unknown", "reason": reason}
        if self._unknown.setdefault(name, _Reminder()).due():
            logger.error(
                "unknown ledger, so the overdue half messages of its groups wait",
                extra={"ledger": name, "groups": ",".join(groups), "reason": reason},
            )

    def end(self) -> None:
        """Stop the checkers. A drain waits for the checks that have begun."""
        super().end()
        checkers: list[LedgerChecker | FunctionChecker] = [*self._checkers.values(), *self._functions.values()]
        self._checkers, self._functions = {}, {}
        for checker in checkers:
            checker.stop.set()
        if self.stop.is_set():
            deadline = time.monotonic() + _DRAIN
            for checker in checkers:
                checker.join(max(0.0, deadline - time.monotonic()))


class _Reminder:
    """Decides when to repeat a report: at once, then after pauses that grow to ten minutes."""

    def __init__(self) -> None:
        self._backoff, self._next = Backoff(5.0, 600.0), 0.0

    def due(self) -> bool:
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + self._backoff.next()
        return True
