"""The connections of a client's pool, which keep the cursor of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar, cast

import psycopg
from psycopg.rows import tuple_row

from mqpg.connection.time_limit import AsyncLimitedConnection, LimitedConnection

__all__ = ["AsyncBrokerConnection", "BrokerConnection"]

C = TypeVar("C")

# A cursor holds the last result in memory. That of a larger one is not kept.
_MOST_ROWS = 100


class _KeptCursor(Generic[C]):
    """What connections of both libraries do with the cursor, which waits for nothing."""

    _kept: C | None = None

    def take_cursor(self) -> C:
        """Return a cursor of tuples, whatever row factory the connection has."""
        cursor, self._kept = self._kept, None
        return cursor or cast(Any, self).cursor(row_factory=tuple_row)

    def keep_cursor(self, cursor: C, rows: Sequence[Any]) -> None:
        """Keep a cursor for the next call.

        Args:
            cursor: The cursor, after a call that succeeded.
            rows: What it returned.
        """
        if len(rows) <= _MOST_ROWS:
            self._kept = cursor


class BrokerConnection(_KeptCursor[psycopg.Cursor[Sequence[Any]]], LimitedConnection):
    """A connection of the synchronous library."""


class AsyncBrokerConnection(_KeptCursor[psycopg.AsyncCursor[Sequence[Any]]], AsyncLimitedConnection):
    """A connection of the asynchronous library."""
