"""Which ledgers in other databases this compensator serves, among all compensators."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mqpg.connection.backoff import Backoff
from mqpg.connection.settings import ledger_url, ledger_variable, split_urls
from mqpg.values import errors

from .session import Connection
from .worker import Options

if TYPE_CHECKING:
    from .ledger_checker import LedgerChecker

__all__ = ["ServedLedgers", "find_url", "known_ledgers"]

logger = logging.getLogger(__name__)

_YIELD_AFTER = 30.0  # in pauses: half a minute, as a rule
_YIELD_FOR = 5.0

_WANTED = "select t.checker_target, t.producer_groups from mqpg._checker_targets('url') t"
_CLAIM = "select mqpg._claim_ledgers(%s::text[])"
_RELEASE = "select mqpg._release_ledger(%s)"
_HAS_HEIR = "select mqpg._is_served_elsewhere(%s)"
_SERVED = "select * from mqpg._ledgers_served(%s)"


def find_url(name: str, given: Mapping[str, str]) -> str | None:
    """Find the URL of a ledger: that of the command line (`given`), else that of the environment.

    None: this process does not know the ledger.
    """
    return given.get(name) or ledger_url(name) or None


def known_ledgers(given: Mapping[str, str]) -> list[str]:
    """The variables of the ledgers that this process knows, by the command line (`given`) or the environment."""
    found = {name for name, url in os.environ.items() if url and name.startswith(ledger_variable(""))}
    return sorted(found | {ledger_variable(name) for name in given})


class ServedLedgers:
    """Serves each ledger that producer groups name, this process knows, and no other one serves.

    The compensator that serves a ledger holds its advisory lock on the connection that leads or stands by.
    Two compensators with different ledgers therefore do not shut one another out, and the server frees the
    ledgers of a killed process. A ledger that does not answer here for half a minute is left to another one
    that knows it, because that one may reach it. Every compensator reports a ledger that none serves.

    A name may stand for several ledgers of one group, in this process or in several. Each compensator
    decides the half messages that carry a ledger which it knows, with the lock or without it. The lock is
    for those that carry none, and for the reports.

    Attributes:
        detail: The state of each ledger, by name: that of its checker, or "standby" if this process would
            take it over from another compensator, "elsewhere" if it is not known here and another one serves
            it, "unknown" if none does, "refused" if its URL cannot be used, "yielded" if it does not answer
            here and is left to another one.
    """

    def __init__(self, options: Options, interval: float) -> None:
        self.detail: dict[str, dict[str, Any]] = {}
        self._options, self._interval = options, interval
        self._checkers: dict[str, list[LedgerChecker]] = {}
        self._leading: set[str] = set()
        self._refused: dict[str, str] = {}
        self._failing: dict[str, float] = {}  # since when
        self._yielded: dict[str, tuple[float, str]] = {}  # until when, and why
        self._reminders: dict[str, _Reminder] = {}
        self._grace = 3 * interval  # another compensator may be about to take it
        self._elsewhere: set[str] = set()
        self._next_look = 0.0

    @property
    def serves(self) -> bool:
        """Whether this process serves any ledger."""
        return bool(self._leading)

    def tend(self, conn: Connection) -> None:
        """Take the free ledgers that this process knows, and leave those that no group names.

        The connection holds the locks. It stays the same until `end`.
        """
        wanted: dict[str, list[str]] = dict(conn.execute(_WANTED).fetchall())
        for name in self.detail.keys() - wanted.keys():
            self._leave(conn, name)
        for name, groups in wanted.items():
            self._start(name, groups)
        self._yield(conn)
        for name in self._claim(conn, [name for name in wanted if name not in self._leading]):
            logger.info("serves the ledger", extra={"ledger": name, "groups": ",".join(wanted[name])})
            self._leading.add(name)
            self._elsewhere.discard(name)
            self._reminders.pop(name, None)
        self._report(conn, {name: groups for name, groups in wanted.items() if name not in self._leading})
        for name, checkers in self._checkers.items():
            for checker in checkers:
                checker.leads = name in self._leading
            self.detail[name] = _detail(checkers, self.detail.get(name, {}))

    def end(self) -> list[threading.Thread]:
        """Serve nothing any more, because the connection with the locks ends.

        Returns the checkers, which end after the half message that they are at.
        """
        checkers = [checker for several in self._checkers.values() for checker in several]
        for checker in checkers:
            checker.stop.set()
        self._checkers.clear()
        self._leading.clear()
        self._failing.clear()
        self._yielded.clear()
        self._elsewhere.clear()
        self._next_look = 0.0
        return [*checkers]

    def _start(self, name: str, groups: list[str]) -> None:
        """Run one checker for each URL of the name that this process knows."""
        from .ledger_checker import LedgerChecker  # and with it SQLAlchemy, 20 MB that few compensators need

        found = find_url(name, self._options.ledgers)
        if name in self._refused or found is None:
            return
        urls = split_urls(found)
        checkers = self._checkers.setdefault(name, [])
        if not checkers or not all(checker.is_alive() for checker in checkers):
            try:
                started = [
                    LedgerChecker(self._options.dsn, name, url, groups, self._interval, alone=len(urls) == 1)
                    for url in urls
                ]
            except errors.ConfigurationError as error:
                self._refused[name] = str(error)
                del self._checkers[name]
                return
            for checker in checkers:
                checker.stop.set()
            self._checkers[name] = checkers = started
            for checker in started:
                checker.leads = name in self._leading
                checker.start()
        for checker in checkers:
            checker.groups = groups

    def _claim(self, conn: Connection, missing: Iterable[str]) -> list[str]:
        """Take the locks of ledgers that this process knows."""
        known = [name for name in missing if name in self._checkers and name not in self._yielded]
        if not known:
            return []
        free = [str(row[0]) for row in conn.execute(_CLAIM, (known,))]
        self._elsewhere.update(set(known) - set(free))
        return free

    def _yield(self, conn: Connection) -> None:
        """Leave ledgers that give no verdict here to others, and try again after a pause."""
        now = time.monotonic()
        for name in [name for name, (until, _) in self._yielded.items() if now >= until]:
            del self._yielded[name]
        for name in sorted(self._leading):
            checkers = self._checkers.get(name, [])
            if not checkers or not all(checker.detail["state"] == "no verdict" for checker in checkers):
                self._failing.pop(name, None)
            elif now - self._failing.setdefault(name, now) >= _YIELD_AFTER * self._interval:
                del self._failing[name]
                if conn.execute(_HAS_HEIR, (name,)).fetchone() == (True,):
                    self._yielded[name] = (now + _YIELD_FOR * self._interval, str(checkers[0].detail["reason"]))
                    self._release(conn, name)

    def _release(self, conn: Connection, name: str) -> None:
        if name in self._leading:
            self._leading.discard(name)
            conn.execute(_RELEASE, (name,))
        self._failing.pop(name, None)
        self._elsewhere.discard(name)
        self._reminders.pop(name, None)

    def _leave(self, conn: Connection, name: str) -> None:
        for checker in self._checkers.pop(name, []):
            checker.stop.set()
        self._release(conn, name)
        del self.detail[name]

    def _report(self, conn: Connection, missing: dict[str, list[str]]) -> None:
        """Report the ledgers that this process does not serve.

        Half messages of a ledger that no compensator serves wait until an operator has configured it. No
        check is counted. The look at the locks of others is not made with each call, because it reads all
        locks of the server.
        """
        if missing and time.monotonic() >= self._next_look:
            self._elsewhere = {str(row[0]) for row in conn.execute(_SERVED, (list(missing),))}
            self._next_look = time.monotonic() + self._options.heartbeat
        for name, groups in missing.items():
            if name in self._elsewhere:
                self.detail[name] = {"state": "standby" if name in self._checkers else "elsewhere"}
                self._reminders.pop(name, None)
            elif name in self._yielded:
                self.detail[name] = {"state": "yielded", "reason": self._yielded[name][1]}
            elif name in self._refused:
                self._complain(name, groups, "refused", f"the URL of the ledger {name}: {self._refused[name]}")
            else:
                line = f"--ledger {name}=URL or with the variable {ledger_variable(name)}=URL"
                hint = f'no compensator knows the ledger {name}: start "mqpg worker" with {line}'
                self._complain(name, groups, "unknown", hint)

    def _complain(self, name: str, groups: list[str], state: str, reason: str) -> None:
        self.detail[name] = {"state": state, "reason": reason}
        if self._reminders.setdefault(name, _Reminder(self._grace)).due():
            logger.error(
                "no compensator serves a ledger, so the overdue half messages of its groups wait",
                extra={"ledger": name, "groups": ",".join(groups), "reason": reason},
            )


class _Reminder:
    """Decides when to report: after `first` seconds, then after pauses that grow to ten minutes."""

    def __init__(self, first: float) -> None:
        self._backoff, self._next = Backoff(5.0, 600.0), time.monotonic() + first

    def due(self) -> bool:
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + self._backoff.next()
        return True


def _detail(checkers: list[LedgerChecker], reported: dict[str, Any]) -> dict[str, Any]:
    """What the heartbeat says of one name: its state, and at which places its ledgers are asked."""
    places = {
        checker.place: {"problem": checker.detail["reason"]}
        for checker in checkers
        if checker.detail["state"] != "starting"
    }
    if not checkers[0].leads:
        return {key: reported[key] for key in ("state", "reason") if key in reported} | {"places": places}
    failing = [checker.detail for checker in checkers if checker.detail["state"] != "ok"]
    merged = dict((failing or [checkers[0].detail])[0])
    for count in ("commit", "rollback", "wait", "failures"):
        merged[count] = sum(checker.detail[count] for checker in checkers)
    return merged | {"places": places, "unmarked": any(checker.unmarked for checker in checkers)}
