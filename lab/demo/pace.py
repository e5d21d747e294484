"""An upper limit of the rate of work that the threads of a process share."""

from __future__ import annotations

import threading
import time

__all__ = ["Pace"]


class Pace:
    """Hands out starting times.

    Args:
        rate: The largest number of starts per second; None means no limit.
    """

    def __init__(self, rate: float | None) -> None:
        self._gap = 1.0 / rate if rate else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self, stop: threading.Event) -> bool:
        """Block until the caller may start; False where `stop` was set meanwhile."""
        if not self._gap:
            return not stop.is_set()
        with self._lock:
            start = max(self._next, time.monotonic())
            self._next = start + self._gap
        return not stop.wait(max(0.0, start - time.monotonic()))
