"""The appender: gives committed messages their place in the consume queues (protocol T2, step 6)."""

from __future__ import annotations

import threading
import time

from mqpg._append_pace import AppendPace

from .session import Connection
from .worker import Options, Worker

__all__ = ["Appender"]


class Appender(Worker):
    """Calls `mqpg.append`, soon again while there is work, at the latest after `interval` (50 ms) when idle."""

    role = "appender"
    lock_id = 1

    def __init__(self, options: Options, stop: threading.Event | None = None) -> None:
        super().__init__(options, stop)
        self._pace = AppendPace(most=options.interval or 0.05)
        self.detail["messages"] = 0

    def turn(self, conn: Connection) -> float:
        began = time.monotonic()
        row = conn.execute("select mqpg.append(%s)", (self.options.max_messages,)).fetchone()
        moved = int(row[0]) if row else 0
        self.detail["messages"] += moved
        full = moved >= self.options.max_messages
        return 0.0 if full else self._pace.after(moved, time.monotonic() - began)
