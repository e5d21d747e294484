"""The appender: gives committed messages their place in the consume queues (protocol T2, step 6)."""

from __future__ import annotations

import threading
import time

from mqpg.workers.session import Connection
from mqpg.workers.worker import Options, Worker

__all__ = ["Appender", "Pace"]


_MANY = 100  # messages of one pass from which on its fixed cost (half a millisecond) is worth sharing


class Pace:
    """Pauses between passes, in seconds: while there is work twice as long as a pass took, behind a pass of a hundred
    messages eight times, at most `busy`, since passes back to back take the processor from producers and consumers;
    then growing from `least` to `most`.
    """

    def __init__(self, least: float = 0.001, most: float = 0.05, growth: float = 1.5, busy: float = 0.05) -> None:
        self._least, self._most, self._growth, self._busy = least, max(least, most), growth, busy
        self._next = least

    def after(self, moved: int, took: float = 0.0) -> float:
        """The pause after a pass that moved so many messages in `took` seconds."""
        if moved:
            self._next = self._least
            return min(self._busy, (8 if moved >= _MANY else 2) * took)
        pause, self._next = self._next, min(self._most, self._next * self._growth)
        return pause


class Appender(Worker):
    """Calls `mqpg.append`, soon again while there is work, at the latest after `interval` (50 ms) when idle."""

    role = "appender"
    lock_id = 1

    def __init__(self, options: Options, stop: threading.Event | None = None) -> None:
        super().__init__(options, stop)
        self._pace = Pace(most=options.interval or 0.05)
        self.detail["messages"] = 0

    def turn(self, conn: Connection) -> float:
        began = time.monotonic()
        row = conn.execute("select mqpg.append(%s)", (self.options.max_messages,)).fetchone()
        moved = int(row[0]) if row else 0
        self.detail["messages"] += moved
        full = moved >= self.options.max_messages
        return 0.0 if full else self._pace.after(moved, time.monotonic() - began)
