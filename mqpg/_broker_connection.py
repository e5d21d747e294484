"""The connections of a client's pool, which keep the cursor of its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

    def rows(self, query: bytes, values: Mapping[str, Any]) -> list[Sequence[Any]]:
        """Execute a query of mqpg.

        Args:
            query: The query, with parameters written as `%(name)s`.
            values: The values of the parameters.

        Returns:
            All rows, as tuples whatever row factory the connection has.
        """
        cursor, self._kept = self._kept, None
        if cursor is None or self.closed:
            cursor = self.cursor(row_factory=tuple_row)
        rows = cursor.execute(query, values).fetchall()
        if len(rows) <= _MOST_ROWS:
            self._kept = cursor
        return rows


class AsyncBrokerConnection(AsyncLimitedConnection):
    """A connection of the asynchronous library."""

    _kept: psycopg.AsyncCursor[Sequence[Any]] | None = None

    async def rows(self, query: bytes, values: Mapping[str, Any]) -> list[Sequence[Any]]:
        """Execute a query of mqpg.

        Args:
            query: The query, with parameters written as `%(name)s`.
            values: The values of the parameters.

        Returns:
            All rows, as tuples whatever row factory the connection has.
        """
        cursor, self._kept = self._kept, None
        if cursor is None or self.closed:
            cursor = self.cursor(row_factory=tuple_row)
        await cursor.execute(query, values)
        rows = await cursor.fetchall()
        if len(rows) <= _MOST_ROWS:
            self._kept = cursor
        return rows
