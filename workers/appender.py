"""The appender: gives committed messages their place in the consume queues (protocol T2, step 6)."""

from __future__ import annotations

import threading

from mqpg.workers.session import Connection
from mqpg.workers.worker import Options, Worker

__all__ = ["Appender", "Pace"]


class Pace:
    """Pauses between passes: none while there is work, then growing from `least` to `most` seconds."""

    def __init__(self, least: float = 0.001, most: float = 0.05, growth: float = 1.5) -> None:
        self._least, self._most, self._growth = least, max(least, most), growth
        self._next = least

    def after(self, moved: int) -> float:
        """The pause after a pass that moved so many messages."""
        if moved:
            self._next = self._least
            return 0.0
        pause, self._next = self._next, min(self._most, self._next * self._growth)
        return pause


class Appender(Worker):
    """Calls `mqpg.append`, at once again while there is work, at the latest after `interval` (50 ms) when idle."""

    role = "appender"
    lock_id = 1

    def __init__(self, options: Options, stop: threading.Event | None = None) -> None:
        super().__init__(options, stop)
        self._pace = Pace(most=options.interval or 0.05)
        self.detail["messages"] = 0

    def turn(self, conn: Connection) -> float:
        row = conn.execute("select mqpg.append(%s)", (self.options.max_messages,)).fetchone()
        moved = int(row[0]) if row else 0
        self.detail["messages"] += moved
        return self._pace.after(moved)
