"""The connections of a client's pool, and the cursors that its statements run on."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from psycopg.rows import tuple_row

from mqpg.connection.arrays import TextListDumper
from mqpg.connection.time_limit import AsyncLimitedConnection, LimitedConnection

__all__ = ["AsyncBrokerConnection", "BrokerConnection", "open_cursor"]


def open_cursor(conn: Any) -> Any:
    """Open a cursor of tuples on a connection of psycopg, whatever row factory that has."""
    cursor = conn.cursor(row_factory=tuple_row)
    cursor.adapters.register_dumper(list, TextListDumper)
    return cursor


class _SharedCursor:
    @cached_property
    def calls(self) -> Any:
        """The cursor of all calls on this connection. A new one would have to look at the types of values again."""
        return open_cursor(self)


class BrokerConnection(_SharedCursor, LimitedConnection):
    """A connection of the synchronous library."""


class AsyncBrokerConnection(_SharedCursor, AsyncLimitedConnection):
    """A connection of the asynchronous library."""
