"""What the source asks a broker: the offsets of topics, ranges of messages as Arrow, positions of groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn
from pyarrow import csv

from mqpg.connection.text_session import text_session
from mqpg.values.translation import translate

__all__ = ["Broker", "Range", "TopicOffsets"]

_CHUNK = 4 << 20  # bytes of text that become one Arrow table
_STORED = {
    "offset": ("queue_offset", pa.int64()),
    "message_id": ("message_id", pa.int64()),
    "key": ("key", pa.string()),
    "tag": ("tag", pa.string()),
    "headers": ("headers", pa.string()),
    "payload": ("payload", pa.string()),
    "born_at": ("born_at", pa.timestamp("us", "UTC")),
    "appended_at": ("appended_at", pa.timestamp("us", "UTC")),
}
_BOUNDS = "select * from mqpg.topic_offsets(%s, %s, %s) order by queue_id"
_COPY = "copy (select {} from mqpg.fetch_range({}, {}, {}, {}, {})) to stdout (format csv)"


@dataclass(frozen=True)
class Range:
    """Messages of one queue: those at the offsets from `first` to `after` - 1."""

    topic: str
    identity: str
    queue: int
    first: int
    after: int


@dataclass(frozen=True)
class TopicOffsets:
    """The offsets of a topic's queues, see the SQL function topic_offsets()."""

    identity: str
    oldest: dict[int, int]
    next: dict[int, int]
    at: dict[int, int]
    committed: dict[int, int]


class Broker(AbstractContextManager["Broker"]):
    """A connection to the broker, until the block ends. Errors are those of mqpg."""

    def __init__(self, dsn: str) -> None:
        self._conn = text_session(dsn, "mqpg spark")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._conn.close()

    def transaction(self) -> AbstractContextManager[object]:
        """A transaction for the calls in the block."""
        return self._conn.transaction()

    def call(self, query: str, *values: object) -> list[dict[str, Any]]:
        """Run a statement in a transaction of its own."""
        try:
            return self._conn.execute(query.encode(), values).fetchall()
        except psycopg.Error as error:
            raise translate(error) from error

    def offsets(self, topic: str, at: datetime | None = None, group: str | None = None) -> TopicOffsets:
        """Look up the offsets of a topic."""
        rows = self.call(_BOUNDS, topic, at, group)
        columns = ("oldest_offset", "next_offset", "offset_at", "committed")
        return TopicOffsets(rows[0]["identity"], *({row["queue_id"]: row[c] for row in rows} for c in columns))

    def advance(self, group: str, topic: str, identity: str, offsets: Mapping[int, int]) -> None:
        """Let the position of a group follow."""
        self.call(
            "select mqpg.advance(%s, %s, %s::int[], %s::bigint[], %s)",
            group, topic, list(offsets), list(offsets.values()), identity,
        )  # fmt: skip

    def read(self, part: Range, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        """Read a range in one call, as tables of some MiB with the columns in this order."""
        stored = [name for name in columns if name in _STORED] or ["offset"]
        names = sql.SQL(", ").join(sql.Identifier(_STORED[name][0]) for name in stored)
        query = sql.SQL(_COPY).format(names, part.topic, part.queue, part.first, part.after, part.identity)
        constants = {"topic": pa.scalar(part.topic), "queue": pa.scalar(part.queue, pa.int32())}
        try:
            for text in _chunks(self._conn.pgconn, query.as_bytes(self._conn)):
                table = _parse(text, stored)
                every = {name: pa.repeat(value, len(table)) for name, value in constants.items()}
                yield pa.table({name: every[name] if name in every else table[name] for name in columns})
        except psycopg.Error as error:
            raise translate(error) from error


def _chunks(pgconn: PGconn, query: bytes) -> Iterator[bytearray]:
    """The rows of a COPY: whole ones, together about as much as one table should have.

    libpq is called directly: psycopg's Copy takes longer for a row than all the rest of reading it.
    """
    result = pgconn.exec_(query)
    if result.status == ExecStatus.COPY_OUT:
        text = bytearray()
        while (row := pgconn.get_copy_data(0))[0] > 0:
            text += row[1]
            if len(text) >= _CHUNK:
                yield text
                text = bytearray()
        if text:
            yield text
        result = pgconn.get_result() or result
        while pgconn.get_result():
            pass  # the connection is free again when there is no more
    if result.status != ExecStatus.COMMAND_OK:
        raise error_from_result(result)


def _parse(text: bytearray, names: list[str]) -> pa.Table:
    """Parse what COPY wrote: null is nothing, and an empty text is quoted."""
    return csv.read_csv(
        pa.BufferReader(text),
        csv.ReadOptions(column_names=names, block_size=len(text) + 1, use_threads=False),
        csv.ParseOptions(newlines_in_values=True),
        csv.ConvertOptions(
            column_types={name: _STORED[name][1] for name in names},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            check_utf8=False,
        ),
    )
