"""One database connection of a load client, close to libpq.

It uses prepared statements and binary results through psycopg's wrapper of libpq. As a consequence,
the client's own work is small, and the same for all sides. Rows are fetched whole, but decoded only
where the protocol needs it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from select import select
from typing import Final

from psycopg import pq

from mqpg.errors import ConnectionFailed

__all__ = ["Link", "Params", "bigint", "bigints", "int4", "int8"]

Params = Sequence[bytes]

_GOOD: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
_BINARY: Final = 1


class Link:
    """A connection in autocommit mode. Every parameter and every result column is binary.

    Args:
        dsn: The database, as a libpq DSN.
        name: The connection's `application_name`.

    Raises:
        ConnectionFailed: There is no connection.
    """

    def __init__(self, dsn: str, name: str = "mqpg-bench") -> None:
        self._conn = pq.PGconn.connect(dsn.encode())
        if self._conn.status != pq.ConnStatus.OK:
            raise ConnectionFailed(self._conn.error_message.decode(errors="replace").strip())
        self.execute(f"set application_name = '{name}'")
        self.execute("set synchronous_commit = on")

    def execute(self, sql: str) -> pq.abc.PGresult:
        """Run one or several statements without parameters. The result is text."""
        return self._checked(self._conn.exec_(sql.encode()))

    def prepare(self, name: str, sql: str) -> None:
        """Prepare `sql` (with $1, $2, …) under `name`."""
        self._checked(self._conn.prepare(name.encode(), sql.encode()))

    def run(self, name: bytes, params: Params = ()) -> pq.abc.PGresult:
        """Execute a prepared statement."""
        result = self._conn.exec_prepared(name, params, [_BINARY] * len(params), _BINARY)
        if result.status not in _GOOD:
            self._checked(result)
        return result

    def scalar(self, sql: str) -> str:
        """The first column of a query's first row as text.

        '' where it is null or there is no row.
        """
        result = self.execute(sql)
        value = result.get_value(0, 0) if result.ntuples else None
        return value.decode() if value is not None else ""

    def wait_for_notification(self, seconds: float) -> None:
        """Wait for a notification on a channel that the session listens to, at most so long."""
        if self._conn.notifies() is None:
            select([self._conn.socket], [], [], seconds)
            self._conn.consume_input()
        while self._conn.notifies() is not None:
            pass

    def close(self) -> None:
        """End the session."""
        self._conn.finish()

    def _checked(self, result: pq.abc.PGresult) -> pq.abc.PGresult:
        if result.status not in _GOOD:
            raise RuntimeError(result.error_message.decode(errors="replace").strip())
        return result


def int8(value: bytes | None) -> int:
    """Decode a bigint of a binary result."""
    return int(struct.unpack("!q", value or b"")[0])


def int4(value: bytes | None) -> int:
    """Decode an int of a binary result."""
    return int(struct.unpack("!i", value or b"")[0])


def bigint(value: int) -> bytes:
    """Encode a bigint as a binary parameter."""
    return struct.pack("!q", value)


def bigints(values: Sequence[bytes]) -> bytes:
    """Join bigints, in the binary form of a result, into one bigint[] parameter."""
    head = struct.pack("!iiIii", 1, 0, 20, len(values), 1)
    size = struct.pack("!i", 8)
    return head + b"".join(size + v for v in values)
