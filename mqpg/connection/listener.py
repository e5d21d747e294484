"""Noticing new ticks: one listener for each process and broker wakes all who wait for a topic.

The appender sends one notification whenever it has appended something. The listener receives it on
its own connection, which all clients and consumers of the process share, synchronous or not.

A program cannot ask whether notifications arrive: behind a pooler in transaction mode LISTEN
succeeds, and no notification ever comes. So the listener also polls the newest tick, seldom
while it trusts notifications and often otherwise (`Notifications` decides). That is one small query
for the whole process, however many topics are waited for.

Every role that can connect may send notifications on the channel. Their text is never trusted: a
notification of a tick that is known already is ignored, and any other one causes a poll. If all
wait for the same topic, they are woken before that poll, unless the last one brought no news. After
several that brought none the listener pauses for a moment, so that junk cannot keep it busy.
However many arrive, a poll that is due is not delayed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from mqpg.connection.forking import OfThisProcess
from mqpg.connection.notifications import Notifications
from mqpg.connection.options import connect_options
from mqpg.connection.settings import Settings
from mqpg.connection.time_limit import LimitedConnection, time_limit

__all__ = ["Interest", "TickListener", "release", "share"]

logger = logging.getLogger("mqpg")

_FIRST_PAUSE = 0.05  # between two attempts to connect
_AGAIN = 5.0  # the longest one
_SLICE = 1.0  # how soon the thread sees that it is no longer wanted

# A seek makes no tick and no notification. It is recorded, and the next poll finds it.
_NEWEST = "select n.tick, n.jump from mqpg._newest() n"
_TOUCHED = "select mqpg._touched(%s::bigint, %s::bigint)"
# When this many ticks are new it is cheaper to wake every waiter than to find out which.
_MANY = 1000


@dataclass(eq=False, slots=True)
class Interest:
    """A waiter for one topic. `wake` is called from the listener's thread and must not block."""

    topic: str
    wake: Callable[[], None]


class TickListener:
    """The listener of one broker. Its thread and its connection exist from the first waiter on."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        self._dsn, self._settings = dsn, settings
        self._lock = threading.Lock()
        self._interests: dict[str, set[Interest]] = {}
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self.users = 0
        self._state = Notifications(settings.poll_interval)
        # The newest tick and jump.
        self._seen: tuple[int, int] | None = None
        # The newest tick, if the waiters were woken by its notification and not again by the poll that saw it.
        self._woken_early_for: int | None = None

    @property
    def trusted(self) -> bool:
        """Whether notifications are known to arrive."""
        return self._state.trusted

    def add(self, topic: str, wake: Callable[[], None]) -> Interest:
        """Call `wake` whenever the topic has new messages, until `remove`.

        It is sometimes called where there are none.
        """
        interest = Interest(topic, wake)
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._live, name="mqpg-ticks", daemon=True)
                thread.start()  # raises if the process can have no more threads
                self._thread = thread
            self._interests.setdefault(topic, set()).add(interest)
        return interest

    def remove(self, interest: Interest) -> None:
        """Stop waking a waiter. An unknown one is ignored."""
        with self._lock:
            mine = self._interests.get(interest.topic, set())
            mine.discard(interest)
            if not mine:
                self._interests.pop(interest.topic, None)

    def close(self) -> None:
        """End the thread, without waiting for it."""
        self._closing.set()

    def _live(self) -> None:
        pause = _FIRST_PAUSE
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                with _open(self._dsn, self._settings) as conn:
                    self._watch(conn)
            except psycopg.Error as error:
                logger.info("the listener for new ticks lost its connection: %s", " ".join(str(error).split()))
            except Exception:
                logger.exception("the listener for new ticks failed")
            self._state = Notifications(self._settings.poll_interval)
            if time.monotonic() - began > _AGAIN:
                pause = _FIRST_PAUSE
            # A notification may have been lost with the connection, so every waiter asks once.
            self._wake(None)
            self._closing.wait(pause)
            pause = min(pause * 2, _AGAIN)

    def _watch(self, conn: psycopg.Connection[Any]) -> None:
        listening = self._listen(conn)
        self._seen = self._newest(conn)
        self._wake(None)
        while not self._closing.is_set():
            ticks = self._next_ticks(conn) if listening else []
            if not listening:
                self._closing.wait(self._state.seconds_until_poll())
            self._poll_for(conn, ticks)

    def _next_ticks(self, conn: psycopg.Connection[Any]) -> list[int]:
        """Wait until a notification announces a new tick, or the next poll is due.

        Returns the ticks of all notifications that came at once; empty if the poll is due.
        """
        due = time.monotonic() + self._state.seconds_until_poll()
        while ticks := [_tick_of(payload) for payload in _notified(conn, due, self._closing)]:
            self._state.heard(ticks)
            if not all(self._is_known(tick) for tick in ticks):
                self._state.announced()
                return ticks
            if (left := due - time.monotonic()) <= 0:
                break
            self._closing.wait(min(self._state.seconds_after_junk(), left))
        return []

    def _poll_for(self, conn: psycopg.Connection[Any], ticks: list[int]) -> None:
        """Poll for news, because of the ticks that were announced or, if there are none, because it is due."""
        known = self._known
        woken_for = self._wake_early(ticks) if ticks and self._state.credible else None
        news = self._poll(conn, woken_for)
        self._closing.wait(self._state.polled(announced=bool(ticks), news=news, known=known))

    def _listen(self, conn: psycopg.Connection[Any]) -> bool:
        if not self._settings.listen:
            return False
        try:
            with time_limit(self._settings.call_timeout):
                conn.execute("listen mqpg")
        except psycopg.Error as error:
            if conn.closed:
                raise
            logger.info(
                "cannot listen for notifications, polling in short pauses instead: %s", " ".join(str(error).split())
            )
            return False
        return True

    def _newest(self, conn: psycopg.Connection[Any]) -> tuple[int, int]:
        with time_limit(self._settings.call_timeout):
            row = conn.execute(_NEWEST).fetchone()
        return row if row else (0, 0)

    @property
    def _known(self) -> int:
        """The newest tick that was seen."""
        return self._seen[0] if self._seen else 0

    def _is_known(self, tick: int) -> bool:
        """Whether an announced tick was seen, and woke the waiters then."""
        return 0 <= tick <= self._known and tick != self._woken_early_for

    def _wake_early(self, announced: list[int]) -> int | None:
        """Wake the waiters before the poll, which spares them its round trip, if all wait for one topic.

        Returns the newest tick that they were woken for. None: they were not, because there are several topics.
        A tick that is announced twice wakes all: anybody can send a notification, so the first one may have
        come before the tick was committed, when the waiters found nothing.
        """
        if len(self._interests) != 1 and self._woken_early_for not in announced:
            return None
        self._woken_early_for = None
        self._wake(None)
        return max(announced)

    def _poll(self, conn: psycopg.Connection[Any], woken_for: int | None = None) -> bool:
        """Look for new ticks, and wake the waiters whose topics they touched. Returns whether there were any.

        `woken_for` is the tick for which the waiters were woken already.
        """
        before, newest = self._seen, self._newest(conn)
        if newest == before:
            return False
        self._seen, self._woken_early_for = newest, None
        if before is None:
            self._wake(None)
            return True
        ticks = newest[0] - before[0]
        if newest == (woken_for, before[1]):  # this tick is all that is new
            self._woken_early_for = woken_for
        elif not 0 <= ticks <= _MANY or len(self._interests) == 1:
            self._wake(None)
        else:
            with time_limit(self._settings.call_timeout):
                self._wake({row[0] for row in conn.execute(_TOUCHED, before)})
        return ticks != 0

    def _wake(self, topics: set[str] | None) -> None:
        """Wake the waiters for some topics, or all waiters where `topics` is None."""
        with self._lock:
            names = list(self._interests) if topics is None else topics
            woken = [interest for name in names for interest in self._interests.get(name, ())]
        for interest in woken:
            with suppress(RuntimeError):  # the waiter's event loop is closed
                interest.wake()


def _tick_of(payload: str) -> int:
    """The tick that a notification announces. -1 means that its text is none of the appender's."""
    return int(payload) if payload.isascii() and payload.isdigit() and len(payload) < 19 else -1


def _open(dsn: str, settings: Settings) -> psycopg.Connection[Any]:
    options = connect_options(dsn, settings)
    # Behind a pooler two statements may run in different sessions.
    options["prepare_threshold"] = None
    if "application_name" in options:
        options["application_name"] += " ticks"
    return LimitedConnection.connect(dsn, **options)


def _notified(conn: psycopg.Connection[Any], deadline: float, closing: threading.Event) -> list[str]:
    """Wait for a notification until the deadline. Returns the texts of all that have arrived."""
    while not closing.is_set() and (left := deadline - time.monotonic()) > 0:
        if told := [one.payload for one in conn.notifies(timeout=min(left, _SLICE), stop_after=1)]:
            return told + [one.payload for one in conn.notifies(timeout=0)]
    return []


_shared = OfThisProcess[tuple[str, bool], TickListener]()


def share(dsn: str, settings: Settings) -> TickListener:
    """The listener of this process for a broker. Give it back with `release`.

    A forked child has its own.
    """
    with _shared.lock:
        listener = _shared.known.setdefault((dsn, settings.listen), TickListener(dsn, settings))
        listener.users += 1
        return listener


def release(listener: TickListener) -> None:
    """Give a listener back. The last user's release closes it."""
    with _shared.lock:
        listener.users -= 1
        if listener.users == 0:
            listener.close()
            for key in [key for key, found in _shared.known.items() if found is listener]:
                del _shared.known[key]
