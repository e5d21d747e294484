"""The compensator: asks what became of overdue half messages (protocol T3) and records the verdicts."""

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
_PASS = "select mqpg._compensate(1, 'ledger')"
_ROUND = 200  # halves between two looks at the groups
_DRAIN = 10.0  # seconds that a drain waits for checks in hand


class Compensator(Worker):
    """Groups whose ledger is in the broker's database are settled here, one short transaction a half; each other
    ledger and each SQL function has a thread, so that a slow or dead one holds up its own groups only.

    Groups with checker `due_checks` are left to their apps.
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
        self._tend_ledgers(conn)
        self._tend_functions(conn)
        for _ in range(_ROUND):
            if self.stop.is_set() or not self._compensate(conn):
                return self._interval
            self.detail["checked"] += 1
            self._heartbeat.beat(conn, "active")
        return 0.0

    def _compensate(self, conn: Connection) -> int:
        row = conn.execute(_PASS).fetchone()
        return int(row[0]) if row else 0

    def _tend_ledgers(self, conn: Connection) -> None:
        """One checker for each target that groups name and this process knows; no other."""
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
                self._remind(name, groups, f"not configured here: {hint}")

    def _tend_functions(self, conn: Connection) -> None:
        """One checker for each function that groups name."""
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
        """Their halves wait, unasked and uncounted, until somebody says where the ledger is."""
        self.detail["ledgers"][name] = {"state": "unknown", "reason": reason}
        if self._unknown.setdefault(name, _Reminder()).due():
            logger.error(
                "unknown ledger: overdue half messages of its groups wait",
                extra={"ledger": name, "groups": ",".join(groups), "reason": reason},
            )

    def end(self) -> None:
        """Stop the checkers; a drain waits for what they have in hand."""
        super().end()
        checkers: list[LedgerChecker | FunctionChecker] = [*self._checkers.values(), *self._functions.values()]
        self._checkers, self._functions = {}, {}
        for checker in checkers:
            checker.stop.set()
        if self.stop.is_set():
            until = time.monotonic() + _DRAIN
            for checker in checkers:
                checker.join(max(0.0, until - time.monotonic()))


class _Reminder:
    """True at first, then after pauses that grow to ten minutes."""

    def __init__(self) -> None:
        self._backoff, self._next = Backoff(5.0, 600.0), 0.0

    def due(self) -> bool:
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + self._backoff.next()
        return True
