"""The connections of a client's pool, which keep the cursor of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from mqpg._time_limit import AsyncLimitedConnection, LimitedConnection

__all__ = ["AsyncBrokerConnection", "BrokerConnection"]

# A cursor holds the last result in memory. That of a larger one is not kept.
_MOST_ROWS = 100


class BrokerConnection(LimitedConnection):
    """A connection of the synchronous library."""

    _kept: psycopg.Cursor[Sequence[Any]] | None = None

    def take_cursor(self) -> psycopg.Cursor[Sequence[Any]]:
        """Return a cursor of tuples, whatever row factory the connection has."""
        cursor, self._kept = self._kept, None
        return cursor or self.cursor(row_factory=tuple_row)

    def keep_cursor(self, cursor: psycopg.Cursor[Sequence[Any]], rows: Sequence[Any]) -> None:
        """Keep a cursor for the next call.

        Args:
            cursor: The cursor, after a call that succeeded.
            rows: What it returned.
        """
        if len(rows) <= _MOST_ROWS:
            self._kept = cursor


class AsyncBrokerConnection(AsyncLimitedConnection):
    """A connection of the asynchronous library."""

    _kept: psycopg.AsyncCursor[Sequence[Any]] | None = None

    def take_cursor(self) -> psycopg.AsyncCursor[Sequence[Any]]:
        """Return a cursor of tuples, whatever row factory the connection has."""
        cursor, self._kept = self._kept, None
        return cursor or self.cursor(row_factory=tuple_row)

    def keep_cursor(self, cursor: psycopg.AsyncCursor[Sequence[Any]], rows: Sequence[Any]) -> None:
        """Keep a cursor for the next call.

        Args:
            cursor: The cursor, after a call that succeeded.
            rows: What it returned.
        """
        if len(rows) <= _MOST_ROWS:
            self._kept = cursor
