"""The appender: gives committed messages their offsets (protocol T2, step 6)."""

from __future__ import annotations

import threading
import time

from mqpg._append_pace import AppendPace

from .session import Connection
from .worker import Options, Worker

__all__ = ["Appender"]


class Appender(Worker):
    """Calls `mqpg.append` again and again.

    While there are messages to append the next call follows soon. While there are none, the pause
    grows to the longest one.

    Args:
        options: What the process was started with. `interval` is the longest pause in seconds; None
            means 0.05.
        stop: An event that ends the worker when it is set. None: a new one.
    """

    role = "appender"
    lock_id = 1

    def __init__(self, options: Options, stop: threading.Event | None = None) -> None:
        super().__init__(options, stop)
        self._pace = AppendPace(most=options.interval or 0.05)
        self.detail["messages"] = 0

    def turn(self, conn: Connection) -> float:
        """Append once.

        Args:
            conn: The connection that leads.

        Returns:
            How many seconds to pause; 0 where the call reached its target size.
        """
        began = time.monotonic()
        row = conn.execute("select mqpg.append(%s)", (self.options.max_messages,)).fetchone()
        moved = int(row[0]) if row else 0
        self.detail["messages"] += moved
        full = moved >= self.options.max_messages
        return 0.0 if full else self._pace.after(moved, time.monotonic() - began)
