"""One watcher a process and broker: it learns of new ticks and wakes whoever waits for one of their topics.

The appender notifies once a pass; the watcher listens on a connection of its own, shared by all clients and
consumers of the process, synchronous or not. Whether notifications arrive cannot be asked: behind a pooler
in transaction mode LISTEN succeeds and nothing ever comes. So they are trusted from the first that came, and
no longer when a tick was seen that none announced; without trust the newest tick is looked up in pauses that
grow while nothing happens. That is one small query for the whole process, however many topics are waited for.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from mqpg import _dial
from mqpg.settings import Settings

__all__ = ["Interest", "TickWatch", "release", "share"]

logger = logging.getLogger("mqpg")

_FIRST_LOOK = 0.05  # without notifications: the pause after something happened
_SAFETY = 10.0  # with them: the pause between two looks all the same
_LATE = 1.0  # how long after a tick was seen its notification may still come
_AGAIN = 5.0  # longest pause between two tries to connect
_SLICE = 1.0  # how soon the thread sees that it is no longer wanted

# A seek makes no tick, but is noted; nobody announces it, so it is seen with the next look.
_NEWEST = """
select (select coalesce(max(k.tick_id), 0) from mqpg.tick k), (select coalesce(max(j.jump_id), 0) from mqpg.jump j)
"""
_TOUCHED = """
select t.name from mqpg.tick k, unnest(k.topic_ids) as u (topic_id) join mqpg.topic t using (topic_id)
where k.tick_id > %s
union
select j.topic from mqpg.jump j where j.jump_id > %s
"""
# Behind so many ticks it is cheaper to wake everybody than to find out whom.
_MANY = 1000


@dataclass(eq=False, slots=True)
class Interest:
    """Somebody who waits for a topic; `wake` is called from the watcher's thread and must not block."""

    topic: str
    wake: Callable[[], None]


class TickWatch:
    """The watcher of one broker. Its thread and its connection live while somebody is interested."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        self._dsn, self._settings = dsn, settings
        self._lock = threading.Lock()
        self._interests: dict[str, set[Interest]] = {}
        self._thread: threading.Thread | None = None
        self._gone = threading.Event()
        self.users = 0
        # Whether notifications are known to arrive; for tests and for the curious.
        self.trusted = False
        # The newest tick and jump.
        self._seen: tuple[int, int] | None = None

    def add(self, topic: str, wake: Callable[[], None]) -> Interest:
        """Be woken whenever the topic got something, until `remove`; once in vain now and then."""
        interest = Interest(topic, wake)
        with self._lock:
            self._interests.setdefault(topic, set()).add(interest)
            if self._thread is None:
                self._thread = threading.Thread(target=self._live, name="mqpg-ticks", daemon=True)
                self._thread.start()
        return interest

    def remove(self, interest: Interest) -> None:
        """No longer; unknown ones are ignored."""
        with self._lock:
            mine = self._interests.get(interest.topic, set())
            mine.discard(interest)
            if not mine:
                self._interests.pop(interest.topic, None)

    def close(self) -> None:
        """End the thread; it is not waited for."""
        self._gone.set()

    def _live(self) -> None:
        pause = _FIRST_LOOK
        while not self._gone.is_set():
            began = time.monotonic()
            try:
                with _connect(self._dsn, self._settings) as conn:
                    self._watch(conn)
            except psycopg.Error as error:
                logger.info("waiting for ticks: %s", " ".join(str(error).split()))
            except Exception:
                logger.exception("waiting for ticks failed")
            self.trusted = False
            if time.monotonic() - began > _AGAIN:
                pause = _FIRST_LOOK
            # Nobody may sleep through a lost connection: whoever waits looks for itself.
            self._wake(None)
            self._gone.wait(pause)
            pause = min(pause * 2, _AGAIN)

    def _watch(self, conn: psycopg.Connection[Any]) -> None:
        listening = self._listen(conn)
        self._seen = self._newest(conn)
        self._wake(None)
        doubtful: float | None = None  # since when a tick is known that was not announced
        pause = _FIRST_LOOK
        while not self._gone.is_set():
            settled = self.trusted and doubtful is None
            announced = _notified(conn, _SAFETY if settled else pause, self._gone) if listening else False
            if not listening:
                self._gone.wait(pause)
            if announced:
                self.trusted, doubtful = True, None
            news = self._look(conn)
            if announced or not news:
                pause = min(pause * 2, self._settings.poll_interval)
            else:
                pause, doubtful = _FIRST_LOOK, doubtful or time.monotonic()
            if doubtful is not None and time.monotonic() - doubtful > _LATE:
                if self.trusted:
                    logger.warning("notifications of the broker do not arrive any more: polling instead")
                self.trusted, doubtful = False, None

    def _listen(self, conn: psycopg.Connection[Any]) -> bool:
        if not self._settings.listen:
            return False
        try:
            conn.execute("listen mqpg")
        except psycopg.Error as error:
            if conn.closed:
                raise
            logger.info("cannot listen, polling instead: %s", " ".join(str(error).split()))
            return False
        return True

    def _newest(self, conn: psycopg.Connection[Any]) -> tuple[int, int]:
        row = conn.execute(_NEWEST).fetchone()
        return row if row else (0, 0)

    def _look(self, conn: psycopg.Connection[Any]) -> bool:
        """Wake whom the ticks since the last look concern; whether there were any."""
        newest, seen = self._newest(conn), self._seen
        if newest == seen:
            return False
        self._seen = newest
        if seen is None or not 0 <= newest[0] - seen[0] <= _MANY or len(self._interests) == 1:
            self._wake(None)
        else:
            self._wake({row[0] for row in conn.execute(_TOUCHED, seen)})
        return seen is None or newest[0] != seen[0]

    def _wake(self, topics: set[str] | None) -> None:
        """Wake whoever waits for one of the topics; None: everybody."""
        with self._lock:
            names = list(self._interests) if topics is None else topics
            woken = [interest for name in names for interest in self._interests.get(name, ())]
        for interest in woken:
            with suppress(RuntimeError):  # its event loop is closed
                interest.wake()


def _connect(dsn: str, settings: Settings) -> psycopg.Connection[Any]:
    options = _dial.options(dsn, settings)
    # Statements may run in different sessions behind a pooler.
    options["prepare_threshold"] = None
    if "application_name" in options:
        options["application_name"] += " ticks"
    return psycopg.connect(dsn, **options)


def _notified(conn: psycopg.Connection[Any], seconds: float, gone: threading.Event) -> bool:
    give_up = time.monotonic() + seconds
    while not gone.is_set() and (left := give_up - time.monotonic()) > 0:
        for _ in conn.notifies(timeout=min(left, _SLICE), stop_after=1):
            return True
    return False


_shared: dict[tuple[int, str, bool], TickWatch] = {}
_shared_lock = threading.Lock()


def share(dsn: str, settings: Settings) -> TickWatch:
    """This process's watcher of a broker; give it back with `release`. A forked child has its own."""
    with _shared_lock:
        watch = _shared.setdefault((os.getpid(), dsn, settings.listen), TickWatch(dsn, settings))
        watch.users += 1
        return watch


def release(watch: TickWatch) -> None:
    """Its last user closes it."""
    with _shared_lock:
        watch.users -= 1
        if watch.users == 0:
            watch.close()
            for key in [key for key, found in _shared.items() if found is watch]:
                del _shared[key]
