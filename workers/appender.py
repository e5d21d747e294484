"""The appender: gives committed messages their offsets (protocol T2, step 6)."""

from __future__ import annotations

import logging
import threading
import time

import psycopg

from mqpg.values.errors import RestoredCluster
from mqpg.values.translation import translate

from .append_pace import AppendPace
from .session import Connection
from .worker import Options, Worker

__all__ = ["Appender"]

logger = logging.getLogger(__name__)

_CLOCK = """
select b.incarnation, pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0') from mqpg._broker() b
"""
_CHECK = 1.0  # seconds between two reads of the server's log position


class Appender(Worker):
    """Calls `mqpg.append` again and again.

    While there are messages to append the next call follows soon. While there are none, the pause grows to
    the longest one: `options.interval`, or 0.05 seconds if that is None.

    A base backup that was brought back looks like its original to `mqpg.append`. The process remembers how
    far the server's log was, and raises RestoredCluster for a server whose log is behind that.

    With `options.adopt_promoted` it makes a promoted server a broker again, and continues there.
    """

    role = "appender"
    lock_id = 1

    def __init__(self, options: Options, stop: threading.Event | None = None) -> None:
        super().__init__(options, stop)
        self._pace = AppendPace(most=options.interval or 0.05)
        # How many messages were appended, in how many seconds of work, and how long the last pass
        # took that moved something.
        self.detail |= {"messages": 0, "append_seconds": 0.0, "pass_seconds": 0.0}
        self._seen: tuple[int, int] = (0, 0)
        self._next_check = 0.0

    def end(self) -> None:
        """Read the log position first when there is a connection again."""
        self._next_check = 0.0

    def turn(self, conn: Connection) -> float:
        """Append once. There is no pause if the call reached its target size."""
        began = time.monotonic()
        try:
            moved = self._append(conn, began)
        except (psycopg.Error, RestoredCluster) as error:
            if not isinstance(translate(error), RestoredCluster) or not self._adopt(conn):
                raise
            return 0.0
        took = time.monotonic() - began
        self._count(moved, took)
        full = moved >= self.options.max_messages
        return 0.0 if full else self._pace.after(moved, took)

    def _count(self, moved: int, took: float) -> None:
        self.detail["messages"] += moved
        self.detail["append_seconds"] = round(self.detail["append_seconds"] + took, 6)
        if moved:
            self.detail["pass_seconds"] = round(took, 6)

    def _append(self, conn: Connection, now: float) -> int:
        if now >= self._next_check:
            self._require_later(conn)
            conn.execute("select mqpg._open_queues()")
            self._next_check = now + _CHECK
        row = conn.execute("select mqpg.append(%s)", (self.options.max_messages,)).fetchone()
        return int(row[0]) if row else 0

    def _adopt(self, conn: Connection) -> bool:
        if not self.options.adopt_promoted:
            return False
        row = conn.execute("select mqpg.adopt_promoted()").fetchone()
        done = row[0] if row else None
        if done is not None:
            logger.warning("the server was promoted and is a broker again", extra={"adopted": done})
        return done is not None

    def _require_later(self, conn: Connection) -> None:
        row = conn.execute(_CLOCK).fetchone()
        found = (int(row[0]), int(row[1])) if row else self._seen
        if found[0] <= self._seen[0] and found < self._seen:
            raise RestoredCluster(
                "this server is behind what the appender has seen of it, so a backup was brought back: "
                "stop all workers and run mqpg migrate adopt"
            )
        self._seen = found
