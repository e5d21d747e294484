"""Check-backs by one SQL function (protocol T3)."""

from __future__ import annotations

import logging
import threading
from typing import Any

from .call_timeout import CALL_TIMEOUT
from .session import Connection, stay_connected

__all__ = ["FunctionChecker"]

logger = logging.getLogger(__name__)

_LIMIT = "select set_config('statement_timeout', %s, false)"
_COMPENSATE = "select mqpg._compensate(1, 'function', %s)"


class FunctionChecker(threading.Thread):
    """Decides the overdue half messages of the producer groups that name one SQL function.

    It is a thread with a connection of its own to the broker, so a function that does not return delays its
    own groups only. It pauses for `interval` seconds while nothing is overdue. A call that takes more than
    `timeout` seconds is cancelled, which counts as a check without a result.
    """

    def __init__(self, dsn: str, name: str, interval: float, timeout: float) -> None:
        super().__init__(name=f"mqpg-function-{name}", daemon=True)
        self.stop = threading.Event()
        self.detail: dict[str, Any] = {"checked": 0}
        self._dsn, self._function, self._interval, self._timeout = dsn, name, interval, timeout

    def run(self) -> None:
        """Check back until `stop` is set."""
        # The function is cut off by its own limit, long before its server counts as stopped.
        limit = max(CALL_TIMEOUT, 2 * self._timeout)
        stay_connected(self._dsn, f"compensator {self._function}", self._serve, self.stop, call_timeout=limit)

    def _serve(self, conn: Connection) -> None:
        conn.execute(_LIMIT, (f"{max(1, round(self._timeout * 1000))}ms",))
        while not self.stop.is_set():
            row = conn.execute(_COMPENSATE, (self._function,)).fetchone()
            if row and row[0]:
                self.detail["checked"] += 1
            else:
                self.stop.wait(self._interval)
