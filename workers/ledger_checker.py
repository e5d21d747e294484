"""Check-backs in one ledger outside the broker's database (protocol T3)."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from datetime import datetime, timedelta
from typing import Any

import psycopg

from mqpg import Verdict
from mqpg.connection.backoff import Backoff
from mqpg.user_tables.drivers import is_locked
from mqpg.values import errors
from mqpg.values.translation import translate

from .ledgers import NoVerdict, open_ledger, require_reachable
from .session import Connection, stay_connected

__all__ = ["LedgerChecker"]

logger = logging.getLogger(__name__)

# A lease that ends counts as a check, so looks into the ledger begin only in the first third of it.
# The lease is also how long the handles of a killed compensator wait for the next one.
_HANDLES = 16
_LEASE = 12.0
_RETURN_DELAY = timedelta(seconds=1)
_LOCK_TIMEOUT = 0.2  # seconds that a locked ledger may delay the question whether its URL is right
_STRANGERS_EVERY = 5.0  # in pauses
_DUE = "select d.handle, d.ledger, d.born_at from mqpg._due_in_ledger(%s, %s, %s, %s, %s) d"
_ANSWER = "select mqpg._answer(%s, %s::text::mqpg.verdict, %s, %s, %s, %s)"
_PARK = "select mqpg._answer(%s, 'wait', %s, %s, park => true)"
_WAIT = "select mqpg.check_wait(%s, %s)"
_PARKED = "select e.handle, e.ledger, e.born_at from mqpg._parked_halves(%s, %s, %s, %s) e"
_STRANGERS = "select s.ledger, s.problem, s.halves from mqpg._unnoted_ledgers(%s, %s) s"
_NOTE = "select mqpg._note_ledgers(%s, %s, %s)"
_PARKED_EVERY = 60.0  # in pauses: a minute, as a rule
_BROKER = "select b.broker_id from mqpg._broker() b"

Half = tuple[str, str | None, datetime]  # handle, identity of its ledger, when it was prepared


class LedgerChecker(threading.Thread):
    """Decides the overdue half messages that belong to one ledger, of the producer groups that name it.

    If it leads, no other compensator serves the name. It then reports what no compensator serves, and
    answers for half messages that carry no ledger, if `alone` says that its process knows no other ledger
    of that name.

    It is a thread with a connection of its own to the broker, so a slow ledger delays its own groups only.
    `name` is what the groups have as checker_target. It pauses for `interval` seconds while nothing is
    overdue. A malformed URL raises ConfigurationError.
    """

    def __init__(
        self, dsn: str, name: str, url: str, groups: list[str], interval: float, *, alone: bool = True
    ) -> None:
        super().__init__(name=f"mqpg-ledger-{name}", daemon=True)
        self.groups, self.stop = groups, threading.Event()
        self.detail: dict[str, Any] = {"state": "starting", "reason": None}
        self.detail |= {"commit": 0, "rollback": 0, "wait": 0, "failures": 0}
        self._dsn, self._target, self._interval = dsn, name, interval
        self._ledger = open_ledger(url)
        self.leads, self._alone = False, alone
        self.place = self._ledger.database.place
        self._strangers: set[str] = set()
        self._next_strangers, self._complaints, self._next_complaint = 0.0, Backoff(5.0, 600.0), 0.0
        self._backoff = Backoff(0.2, 15.0)
        self._next_parked = 0.0
        self._url_checked = False

    def run(self) -> None:
        """Check back until `stop` is set."""
        stay_connected(self._dsn, f"compensator {self._target}", self._serve, self.stop)
        self._ledger.close()

    def _serve(self, conn: Connection) -> None:
        while not self.stop.is_set():
            try:
                pause = self._interval if self._check_groups(conn) == 0 else 0.0
            except NoVerdict as error:
                pause = self._backoff.next()
                self.detail["state"], self.detail["reason"] = "no verdict", str(error)
                self.detail["failures"] += 1
                logger.log(
                    logging.WARNING if self.leads else logging.DEBUG,
                    "ledger gives no verdict, so its half messages wait",
                    extra={"ledger": self._target, "error": error, "retry_in": round(pause, 2)},
                )
            self.stop.wait(pause)

    def _check_groups(self, conn: Connection) -> int:
        """Check one batch of each group.

        After a failure the ledger must first be reachable again.
        """
        if self.detail["state"] != "ok":
            require_reachable(self._ledger)
            self._url_checked = False
        if self.leads and not self._url_checked:
            self._url_checked = self._warn_of_wrong_url(conn)
        asked = 0
        for group in self.groups:
            asked += self._check(conn, group)
        asked += self._check_parked(conn)
        self._meet_strangers(conn)
        self._backoff.reset()
        self.detail["state"], self.detail["reason"] = "ok", None
        return asked

    def _warn_of_wrong_url(self, conn: Connection) -> bool:
        """Warn if the ledger holds handles of other brokers only.

        Its URL is then probably wrong, and the local commits are in another ledger. False while that is not
        known, because the table is locked.
        """
        row = conn.execute(_BROKER).fetchone()
        try:
            other = self._ledger._foreign_broker(str(row[0]), _LOCK_TIMEOUT) if row else None
        except Exception as error:  # no table or no right; the first look into it reports that
            logger.debug("ledger %s: %s", self._target, error)
            return not is_locked(error.__cause__ or error)
        if other is not None:
            self.detail["doubt"] = f"holds handles of broker {other} only"
            logger.warning(
                "ledger holds no handle of this broker: is its URL right?",
                extra={"ledger": self._target, "broker_found": other},
            )
        return True

    def _check(self, conn: Connection, group: str) -> int:
        """Decide the overdue half messages of one group.

        Those for which no time is left are given back, which does not count as a check.
        """
        deadline = time.monotonic() + _LEASE / 3
        due = (group, _HANDLES, timedelta(seconds=_LEASE), self.place, self.unmarked)
        left: deque[Half] = deque(conn.execute(_DUE, due).fetchall())
        taken = len(left)
        try:
            while left and not self.stop.is_set() and time.monotonic() < deadline:
                self._decide(conn, left.popleft())
        finally:
            if not conn.broken:
                for handle, _, _ in left:
                    conn.execute(_WAIT, (handle, _RETURN_DELAY))
        return taken

    def _check_parked(self, conn: Connection) -> int:
        """Ask about half messages that were parked, now that the ledger answers.

        They expired while it did not. This ends them without an administrator.
        """
        if time.monotonic() < self._next_parked:
            return 0
        self._next_parked = time.monotonic() + _PARKED_EVERY * self._interval
        before = self.detail["commit"] + self.detail["rollback"]
        for group in self.groups:
            for half in conn.execute(_PARKED, (group, _HANDLES, self.place, self.unmarked)).fetchall():
                self._decide(conn, half)
        decided = int(self.detail["commit"] + self.detail["rollback"] - before)
        if decided >= _HANDLES:  # there may be more
            self._next_parked = 0.0
        return decided

    @property
    def unmarked(self) -> bool:
        """Whether it answers for half messages that carry no ledger."""
        return self.leads and self._alone

    def _meet_strangers(self, conn: Connection) -> None:
        """Note the identities that the ledger got since, and report those of ledgers that none serves."""
        if time.monotonic() < self._next_strangers:
            return
        self._next_strangers = time.monotonic() + _STRANGERS_EVERY * self._interval
        strangers = conn.execute(_STRANGERS, (self.groups, self.place)).fetchall()
        if not strangers:
            return
        mine = self._ledger.known_identities()
        if known := [ledger for ledger, _, _ in strangers if ledger in mine]:
            conn.execute(_NOTE, (self.groups, known, self.place))
            self._next_strangers = 0.0
        # Another thread may not have noted its ledger yet, so what is new is not reported.
        before, self._strangers = self._strangers, {ledger for ledger, _, _ in strangers}
        unserved = {
            problem: halves
            for ledger, problem, halves in strangers
            if ledger not in mine and ledger in before and problem
        }
        if self.leads and unserved and time.monotonic() >= self._next_complaint:
            self._next_complaint = time.monotonic() + self._complaints.next()
            for problem, halves in unserved.items():
                logger.error(
                    "overdue half messages wait, because their own ledger is not asked",
                    extra={"ledger": self._target, "halves": halves, "reason": problem},
                )

    def _decide(self, conn: Connection, half: Half) -> None:
        handle, identity, born_at = half
        by = f"ledger {self._target}"
        try:
            look = self._ledger._look_up(handle, identity=identity, born_at=born_at)
            if look.lost:
                conn.execute(_PARK, (handle, by, look.reason))
                logger.error(
                    "half message stays undecided",
                    extra={"ledger": self._target, "handle": handle, "error": look.reason},
                )
                self.detail["wait"] += 1
                return
            if look.verdict is Verdict.WAIT:
                require_reachable(self._ledger)
            payload = self._ledger.final_payload(handle) if look.verdict is Verdict.COMMIT else None
        except NoVerdict as error:
            conn.execute(_ANSWER, (handle, Verdict.WAIT.value, by, str(error), _RETURN_DELAY, None))
            raise
        except Exception as error:  # whatever the driver raises, it gives no verdict
            known = str(translate(error))
            # The full back-off applies. If the error concerns this handle only, the others are not
            # delayed.
            conn.execute(_ANSWER, (handle, Verdict.WAIT.value, by, known, None, None))
            raise NoVerdict(known) from error
        final = None if payload is None else payload.raw
        try:
            conn.execute(_ANSWER, (handle, look.verdict.value, by, look.reason, None, final))
        except psycopg.Error as error:
            refused = translate(error)
            if conn.broken or isinstance(refused, errors.ConnectionFailed):
                raise
            self._refused(conn, handle, f"the broker refuses its {look.verdict.value}: {refused}")
        else:
            self.detail[look.verdict.value] += 1

    def _refused(self, conn: Connection, handle: str, reason: str) -> None:
        """Leave a half message undecided, for instance because its final payload is too large.

        It waits until an operator has raised the limit. Others are not delayed.
        """
        conn.execute(_ANSWER, (handle, Verdict.WAIT.value, f"ledger {self._target}", reason, None, None))
        self.detail["wait"] += 1
        logger.error("half message stays undecided", extra={"ledger": self._target, "handle": handle, "error": reason})
