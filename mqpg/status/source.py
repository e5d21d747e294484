"""A broker to be watched: connected when it is first asked, and again after every loss."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import psycopg
from psycopg.rows import dict_row

import mqpg
from mqpg.connection.lockers import reading
from mqpg.embedded.locate import resolve

__all__ = ["Source"]

# A reader does not wait long for a server that is away, because it asks again soon.
_SETTINGS = {"retry_timeout": 0, "pool_timeout": 5, "connect_timeout": 5, "call_timeout": 20, "listen": False}

_READS = "set transaction read only; set local statement_timeout = '15s'"


class Source:
    """The client of one broker, which may not answer yet. Threads may share it.

    pg_stat_activity shows `name`. It opens at most so many `connections`.
    """

    def __init__(self, dsn: str | None, name: str, connections: int = 2) -> None:
        self.dsn = resolve(dsn)
        self._settings = {**_SETTINGS, "application_name": name, "pool_max_size": connections}
        self._lock = threading.Lock()
        self._client: mqpg.Client | None = None

    def client(self) -> mqpg.Client:
        """Return the client, connected. All callers share it, and `close` closes it."""
        with self._lock:
            if self._client is None:
                self._client = mqpg.connect(self.dsn, **self._settings)
            return self._client

    def rows(self, query: str, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Run a query that only reads. The server ends it after 15 seconds."""
        with self.reading() as conn, conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query.encode(), values).fetchall()

    def reading(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        """Open a transaction that only reads, for calls of the client. The server ends it after 15 seconds."""
        return reading(self.client().transaction, _READS)

    def close(self) -> None:
        """Close all connections. The source connects again when it is asked."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()
