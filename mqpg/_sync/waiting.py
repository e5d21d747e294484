# Generated from mqpg/_async/waiting.py by tools/async_to_sync.py: change that file.
"""Waiting for something to receive: woken by the appender's NOTIFY, else by the clock."""

from __future__ import annotations

import logging
import time

import psycopg

from mqpg import _dial
from mqpg._sync._io import Event, PgConnection, wait_for
from mqpg._sync.core import Core

__all__ = ["Wake"]

logger = logging.getLogger("mqpg")

_SLICE = 0.25  # how soon a stop is noticed
_LONGEST = 1.0  # lapsed leases of others announce themselves to nobody
_AGAIN = 5.0  # between two tries to listen
_FLOOR = 0.02  # between two looks, however often the appender calls


class Wake:
    """An own connection that listens, apart from the pool."""

    def __init__(self, mq: Core) -> None:
        self._mq = mq
        self._conn: PgConnection | None = None
        self._retry_at = 0.0
        self._idle = 0

    def busy(self) -> None:
        """Something was there: the next pause is a short one."""
        self._idle = 0

    def wait(self, stop: Event) -> None:
        """Return when there may be something new, at the latest after a second, or when `stop` is set."""
        if wait_for(stop, _FLOOR):
            return
        conn = self._listening()
        if conn is None:
            self._idle += 1
            wait_for(stop, min(0.05 * self._idle, _SLICE))
            return
        give_up = time.monotonic() + _LONGEST
        try:
            while time.monotonic() < give_up and not stop.is_set():
                for _ in conn.notifies(timeout=_SLICE, stop_after=1):
                    return
        except psycopg.Error as error:
            logger.info("listening ended: %s", " ".join(str(error).split()))
            self.close()

    def close(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()

    def _listening(self) -> PgConnection | None:
        if self._conn is None and time.monotonic() >= self._retry_at:
            self._retry_at = time.monotonic() + _AGAIN
            try:
                conn = PgConnection.connect(self._mq.dsn, **_dial.options(self._mq.dsn, self._mq.settings))
                conn.execute("listen mqpg")
                self._conn = conn
            except psycopg.Error as error:
                logger.info("cannot listen, looking now and then instead: %s", " ".join(str(error).split()))
        return self._conn
