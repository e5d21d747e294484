"""One database connection of a load client, close to libpq, and the documents that clients send.

It uses prepared statements and binary results through psycopg's wrapper of libpq. As a consequence,
the client's own work is small, and the same for all sides. Rows are fetched whole, but decoded only
if the protocol needs it. Arrays are encoded before the clock starts.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from select import select
from typing import Final

from psycopg import pq

from mqpg.errors import ConnectionFailed

__all__ = ["INT8_OID", "JSONB_OID", "JSON_OID", "TEXT_OID", "Link", "array", "bodies", "connected", "int4", "int8"]

INT8_OID, TEXT_OID, JSON_OID, JSONB_OID = 20, 25, 114, 3802

_GOOD: Final = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
_BINARY: Final = 1
_AIRPORTS = ("EWR", "JFK", "LGA", "ORD", "ATL", "LAX", "BOS", "MIA", "SFO", "DEN")
_CARRIERS = ("UA", "AA", "B6", "DL", "EV", "MQ", "US", "9E", "WN", "VX")


class Link:
    """A connection in autocommit mode. Every parameter and every result column is binary."""

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

    def run(self, name: bytes, params: Sequence[bytes] = ()) -> pq.abc.PGresult:
        """Execute a prepared statement."""
        result = self._conn.exec_prepared(name, params, [_BINARY] * len(params), _BINARY)
        if result.status not in _GOOD:
            self._checked(result)
        return result

    def scalar(self, sql: str) -> str:
        """The first column of a query's first row as text; '' if it is null or there is no row."""
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


@contextmanager
def connected(dsn: str, name: str = "mqpg-bench") -> Iterator[Link]:
    """A connection until the block ends."""
    link = Link(dsn, name)
    try:
        yield link
    finally:
        link.close()


def int8(value: bytes | None) -> int:
    """Decode a bigint of a binary result."""
    return int(struct.unpack("!q", value or b"")[0])


def int4(value: bytes | None) -> int:
    """Decode an int of a binary result."""
    return int(struct.unpack("!i", value or b"")[0])


def array(elements: Sequence[bytes], element_oid: int) -> bytes:
    """Join values in their binary forms into one array parameter without nulls."""
    head = struct.pack("!iiIii", 1, 0, element_oid, len(elements), 1)
    return head + b"".join(struct.pack("!i", len(e)) + e for e in elements)


def bodies(index: int, count: int = 2_000) -> list[bytes]:
    """The JSON documents, of 227 bytes on average, that client `index` sends again and again."""
    rng = random.Random(index + 1)
    return [_document(rng).encode() for _ in range(count)]


def _document(rng: random.Random) -> str:
    origin, destination = rng.sample(_AIRPORTS, 2)
    return json.dumps(
        {
            "flight_id": rng.randrange(10**9),
            "carrier": rng.choice(_CARRIERS),
            "flight": rng.randrange(1, 6000),
            "tail_number": f"N{rng.randrange(100, 999)}{rng.choice(_CARRIERS)}",
            "origin": origin,
            "destination": destination,
            "departed_at": f"2013-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
            f"T{rng.randrange(24):02d}:{rng.randrange(60):02d}:00-05:00",
            "delay_minutes": rng.randrange(-20, 300),
            "distance": rng.randrange(80, 4983),
            "reference": f"{rng.getrandbits(24):06x}",
        }
    )
