"""Extending leases while handlers work, in a thread with a connection of its own.

A handler can block its event loop, and handlers can hold all connections of their client. So a
heartbeat uses neither. The thread also notices a loop that does not turn, and names the handler.

For sessions in whose transaction a delivery is handled (C1) it holds an advisory lock that names
the session, and sends a statement every two seconds. Others see by it whether the process lives: a
transaction that waits for its program looks the same, whether that works or is frozen.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg

from mqpg.connection.forking import OfThisProcess
from mqpg.connection.options import SESSION, connect_options
from mqpg.connection.pooled import BrokerConnection
from mqpg.connection.settings import Settings
from mqpg.connection.time_limit import time_limit
from mqpg.values.errors import ReceiptError
from mqpg.values.translation import translate

__all__ = ["HeldLease", "LeaseExtender", "lease_extender"]

logger = logging.getLogger("mqpg")

_EXTEND = b"select mqpg.extend(cast(%s as text), cast(%s as interval))"
_IDLE = 5.0  # seconds until a thread without leases ends
_PAUSE = 1.0  # seconds between two checks of what is held, so that a new lease need not wake the thread
_AFTER_ERROR = 0.1  # seconds until the next attempt after an error that is none of the database's
_BLOCKED = 2.0  # seconds in which an event loop has to turn
_PULSE = 2.0  # seconds between two statements that show that the process lives
_VOUCH = "select pg_advisory_lock_shared(1836150847, pid) from unnest(cast(%s as int[])) as pid"


@dataclass(eq=False)
class HeldLease:
    """A delivery whose lease is extended."""

    receipt: str
    seconds: float  # how long it is
    handler: str  # who works on it
    # Runs a function in the handler's event loop. None: it has none.
    call_soon: Callable[[Callable[[], None]], object] | None = None
    lost: bool = False  # the lease ended, and another consumer may have received the messages
    due: float = field(init=False)
    turned_at: float = field(init=False)
    turning: bool = False

    def __post_init__(self) -> None:
        self.turned_at = time.monotonic()
        self.due = self.turned_at + self.seconds / 3

    def turned(self) -> None:
        """Note that the event loop is alive. It calls this."""
        self.turned_at, self.turning = time.monotonic(), False


class LeaseExtender:
    """Extends the leases of one broker's deliveries in this process."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        self._dsn, self._settings = dsn, settings
        self._held: set[HeldLease] = set()
        self._sessions: dict[int, Callable[[], Any]] = {}  # process ids at the server, and their connections
        self._vouched: set[int] = set()
        self._said_at = self._idle_since = 0.0
        self._changed = threading.Condition()
        self._running = False
        self._conn: BrokerConnection | None = None

    def hold(self, held: HeldLease) -> None:
        """Extend this lease three times in its length from now on."""
        with self._changed:
            runs = self._start()  # raises if the process can have no more threads
            self._held.add(held)
            if runs and held.seconds < 3 * _PAUSE:
                self._changed.notify()

    def vouch(self, conn: Any) -> None:
        """Show that the process lives that has this connection of psycopg, until the connection is closed."""
        with self._changed:
            if self._sessions.get(conn.info.backend_pid, _nothing)() is not conn:
                self._start()
                self._sessions[conn.info.backend_pid] = weakref.ref(conn)
                self._changed.notify()

    def let_go(self, held: HeldLease) -> None:
        """Extend it no more."""
        with self._changed:
            self._held.discard(held)

    def _start(self) -> bool:
        """Start the thread. True: it runs already."""
        before = self._running
        if not before:
            threading.Thread(target=self._run, name="mqpg-leases", daemon=True).start()  # may fail
            self._running = True
        return before

    def _run(self) -> None:
        self._idle_since, failed = time.monotonic(), False
        while True:
            try:
                if self._work_or_end():
                    return
                failed = False
            except Exception:  # whatever it is, the leases of handlers at work must not end with it
                if not failed:
                    logger.exception("heartbeats of deliveries failed")
                failed = True
                self._close()
                time.sleep(_AFTER_ERROR)

    def _work_or_end(self) -> bool:
        """Extend what is due, after a pause. True: there was nothing to do for some time, and the thread ends."""
        self._show_life()
        with self._changed:
            now = time.monotonic()
            if self._held or self._sessions:
                self._idle_since = now
            if now - self._idle_since > _IDLE:
                self._running = False
                self._close()
                return True
            wake = min((min(one.due, self._next_turn(one)) for one in self._held), default=now + _PAUSE)
            self._changed.wait(min(max(wake - now, 0.0), _PAUSE))
            held = list(self._held)
        if any(one.seconds < 3 * _PAUSE for one in held):
            # To connect may take longer than such a lease has left at its first heartbeat.
            with suppress(psycopg.Error):
                self._connection()
        for one in held:
            self._check(one)
        return False

    def _show_life(self) -> None:
        """Hold the locks of all sessions, and let the server see a statement now and then."""
        with self._changed:
            self._sessions = {
                pid: ref for pid, ref in self._sessions.items() if (conn := ref()) is not None and not conn.closed
            }
            wanted = self._sessions.keys() - self._vouched
        now = time.monotonic()
        if not self._sessions or not (wanted or now >= self._said_at + _PULSE):
            return
        self._said_at = now
        try:
            with time_limit(self._settings.call_timeout):
                self._connection().execute(_VOUCH, [sorted(wanted)])
        except psycopg.Error as error:
            logger.debug("cannot show that this process lives: %s", translate(error))
            self._close()
            return
        self._vouched |= wanted

    @staticmethod
    def _next_turn(one: HeldLease) -> float:
        return one.turned_at + _BLOCKED if one.call_soon is not None else one.due

    def _check(self, one: HeldLease) -> None:
        now = time.monotonic()
        if one.call_soon is not None and now >= one.turned_at + _BLOCKED:
            if one.turning:
                logger.warning(
                    "%s blocks its event loop: nothing else in it runs. Its lease is extended all the same",
                    one.handler,
                )
            one.turning, one.turned_at = True, now
            with suppress(RuntimeError):  # the loop is closed
                one.call_soon(one.turned)
        if now >= one.due:
            self._extend(one)

    def _extend(self, one: HeldLease) -> None:
        pause = one.seconds / 3
        try:
            with time_limit(min(self._settings.call_timeout or pause, pause)):
                self._connection().execute(_EXTEND, [one.receipt, timedelta(seconds=one.seconds)])
        except psycopg.Error as error:
            known = translate(error)
            if isinstance(known, ReceiptError):
                with self._changed:
                    one.lost = one in self._held
                    self._held.discard(one)
                logger.info("heartbeats of a delivery end: %s", known)
                return
            logger.warning("a heartbeat of a delivery failed: %s", known)
            self._close()
            pause = min(1.0, one.seconds / 10)
        one.due = time.monotonic() + pause

    def _connection(self) -> BrokerConnection:
        if self._conn is None:
            options: dict[str, Any] = connect_options(self._dsn, self._settings)
            self._conn = BrokerConnection.connect(self._dsn, **options)
            self._conn.execute(SESSION)
        return self._conn

    def _close(self) -> None:
        conn, self._conn, self._vouched = self._conn, None, set()
        if conn is not None:
            conn.close()


def _nothing() -> None:
    """Stand for a connection that is not there."""


_shared = OfThisProcess[str, LeaseExtender]()


def lease_extender(dsn: str, settings: Settings) -> LeaseExtender:
    """What extends the leases of this process for one broker. A child of fork has one of its own."""
    with _shared.lock:
        if dsn not in _shared.known:
            _shared.known[dsn] = LeaseExtender(dsn, settings)
        return _shared.known[dsn]
