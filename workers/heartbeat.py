"""Heartbeats: one row in mqpg.worker for each start of a worker process."""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from mqpg.schema.compatibility import read, require_compatible
from mqpg.schema.source import packaged

from .session import Connection

__all__ = ["Heartbeat"]

logger = logging.getLogger(__name__)

_BEAT = """
select mqpg._heartbeat(
    %(worker_id)s::text, %(role)s::text, %(host)s::text, %(pid)s::int, %(state)s::text, %(detail)s::jsonb)
"""


class Heartbeat:
    """Reports every `interval` seconds that this process is alive, and what it has done: `detail`.

    `failing` says what its iterations have failed with, one after another. None: they work.
    """

    def __init__(
        self, role: str, interval: float, detail: dict[str, Any], failing: Callable[[], object] = lambda: None
    ) -> None:
        self._identity = {
            "worker_id": f"{role}-{uuid.uuid4().hex[:12]}",
            "role": role,
            "host": socket.gethostname(),
            "pid": os.getpid(),
        }
        self._interval, self._detail, self._failing = interval, detail, failing
        self._state, self._next = "", 0.0

    def due_in(self) -> float:
        """The seconds until the next heartbeat; 0 if it is due now."""
        return max(0.0, self._next - time.monotonic())

    def beat_soon(self) -> None:
        """Make the next heartbeat due now, because what it reports has changed."""
        self._next = 0.0

    def beat(self, conn: Connection, state: str) -> None:
        """Write the row if it is due or the state (active, standby, stopped) has changed.

        Raises SchemaTooNew if a migration has made the schema too new for this release.
        """
        if state == self._state and self.due_in() > 0:
            return
        if state != "stopped":
            # A running worker learns here of a migration that it cannot work with.
            require_compatible(read(conn), packaged())
        # What the clock says here, only for `mqpg status`, which compares it with the server's.
        detail = Jsonb({**self._detail, "failing": self._failing(), "clock": time.time()})
        try:
            conn.execute(_BEAT, {**self._identity, "state": state, "detail": detail})
        except psycopg.Error as error:
            # Work does not depend on its report. A connection that is lost fails the work as well.
            if conn.closed:
                raise
            logger.warning("no heartbeat", extra={"error": error})
        self._state, self._next = state, time.monotonic() + self._interval
