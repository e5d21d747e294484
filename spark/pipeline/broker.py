"""What the source asks a broker: the offsets of topics, ranges of messages as Arrow, positions of groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn
from pyarrow import csv

from mqpg.connection.text_session import text_session
from mqpg.values.translation import translate

from .payloads import parse_objects

__all__ = ["Broker", "Range", "TopicOffsets"]

_CHUNK = 8 << 20  # bytes of text that become one Arrow table
_LABELS = pa.schema({"key": pa.list_(pa.string()), "tag": pa.list_(pa.string())})
# What the rows of a COPY have. Each is a run of messages, and no JSON contains the character between theirs.
_RUN = {
    "queue_offset": pa.int64(),
    "message_id": pa.int64(),
    "n": pa.int32(),
    "born_at": pa.timestamp("us", "UTC"),
    "appended_at": pa.timestamp("us", "UTC"),
}
_TEXTS = {
    "labels": """json_build_object(
        'key', coalesce(keys, array_fill(null::text, array[n])),
        'tag', coalesce(tags, array_fill(null::text, array[n]))
    )""",
    "headers": r"array_to_string(coalesce(headers, array_fill(null::jsonb, array[n])), E'\x1e', '')",
    "payload": r"array_to_string(payloads, E'\x1e')",
}
_SEPARATOR = "\x1e"
_BOUNDS = """select o.*, b.incarnation, s.surviving from mqpg.topic_offsets(%s, %s, %s) o cross join mqpg._broker() b
    join mqpg._surviving_offsets(%s, %s) s using (queue_id) order by o.queue_id"""
# Characters that are rare, so that values need no quotes.
_COPY = r"""copy (select {} from mqpg.fetch_batches({}, {}, {}, {}, {}))
    to stdout (format csv, delimiter E'\x1d', quote E'\x1f')"""


@dataclass(frozen=True)
class Range:
    """Messages of one queue: those at the offsets from `first` to `after` - 1, of that incarnation (None: of any)."""

    topic: str
    identity: str
    queue: int
    first: int
    after: int
    incarnation: int | None = None


@dataclass(frozen=True)
class TopicOffsets:
    """The offsets of a topic's queues, see the SQL functions topic_offsets() and _surviving_offsets()."""

    identity: str
    incarnation: int
    oldest: dict[int, int]
    next: dict[int, int]
    at: dict[int, int]
    committed: dict[int, int]
    surviving: dict[int, int | None]


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

    def incarnation(self) -> int:
        """Look up how many lives the broker has had."""
        return int(self.call("select incarnation from mqpg._broker()")[0]["incarnation"])

    def offsets(
        self, topic: str, at: datetime | None = None, group: str | None = None, since: int | None = None
    ) -> TopicOffsets:
        """Look up the offsets of a topic, and which of those of the incarnation `since` still mean the same."""
        rows = self.call(_BOUNDS, topic, at, group, topic, since)
        columns = ("oldest_offset", "next_offset", "offset_at", "committed", "surviving")
        by_queue = ({row["queue_id"]: row[c] for row in rows} for c in columns)
        return TopicOffsets(rows[0]["identity"], rows[0]["incarnation"], *by_queue)

    def advance(self, group: str, topic: str, identity: str, offsets: Mapping[int, int]) -> None:
        """Let the position of a group follow."""
        self.call(
            "select mqpg.advance(%s, %s, %s::int[], %s::bigint[], %s)",
            group, topic, list(offsets), list(offsets.values()), identity,
        )  # fmt: skip

    def read(self, part: Range, columns: tuple[str, ...]) -> Iterator[pa.Table]:
        """Read a range in one call, as tables of some MiB with the columns in this order."""
        texts = [name for name in _TEXTS if name in columns or (name == "labels" and {"key", "tag"} & set(columns))]
        names = sql.SQL(", ").join(
            [*(sql.Identifier(name) for name in _RUN), *(sql.SQL(_TEXTS[name]) for name in texts)]
        )
        query = sql.SQL(_COPY).format(names, part.topic, part.queue, part.first, part.after, part.identity)
        try:
            for text in _chunks(self._conn.pgconn, query.as_bytes(self._conn)):
                yield _expand(_parse(text, texts), part, columns)
        except psycopg.Error as error:
            raise translate(error) from error


def _chunks(pgconn: PGconn, query: bytes) -> Iterator[bytes]:
    """The rows of a COPY: whole ones, together about as much as one table should have.

    libpq is called directly: psycopg's Copy takes longer for a row than all the rest of reading it.
    """
    result = pgconn.exec_(query)
    if result.status == ExecStatus.COPY_OUT:
        rows, size = [], 0
        while (row := pgconn.get_copy_data(0))[0] > 0:
            rows.append(row[1])
            size += row[0]
            if size >= _CHUNK:
                yield b"".join(rows)
                rows, size = [], 0
        if rows:
            yield b"".join(rows)
        result = pgconn.get_result() or result
        while pgconn.get_result():
            pass  # the connection is free again when there is no more
    if result.status != ExecStatus.COMMAND_OK:
        raise error_from_result(result)


def _parse(text: bytes, texts: list[str]) -> pa.Table:
    """Parse what COPY wrote."""
    types = _RUN | dict.fromkeys(texts, pa.string())
    return csv.read_csv(
        pa.BufferReader(text),
        csv.ReadOptions(column_names=list(types), block_size=len(text) + 1, use_threads=False),
        csv.ParseOptions(delimiter="\x1d", quote_char="\x1f", newlines_in_values=True),
        csv.ConvertOptions(column_types=types, null_values=[""], check_utf8=False),
    )


def _expand(runs: pa.Table, part: Range, columns: tuple[str, ...]) -> pa.Table:
    """Make a row of each message."""
    lengths = runs["n"].to_numpy()
    total = int(lengths.sum())
    run = np.repeat(np.arange(len(lengths)), lengths)
    within = np.arange(total) - np.repeat(lengths.cumsum() - lengths, lengths)
    made: dict[str, Any] = {
        "topic": pa.repeat(part.topic, total),
        "queue": pa.repeat(pa.scalar(part.queue, pa.int32()), total),
    }
    for name, stored in (("offset", "queue_offset"), ("message_id", "message_id")):
        made[name] = pa.array(runs[stored].to_numpy()[run] + within)
    for name in ("born_at", "appended_at"):
        made[name] = runs[name].take(pa.array(run))
    for name in ("headers", "payload"):
        if name in columns:
            made[name] = pc.list_flatten(pc.split_pattern(runs[name], _SEPARATOR))
    if "headers" in columns:
        made["headers"] = pc.if_else(pc.equal(made["headers"], ""), None, made["headers"])
    if "labels" in runs.column_names:
        labels = parse_objects(runs["labels"], _LABELS)
        made |= {name: pc.list_flatten(labels[name]) for name in _LABELS.names}
    return pa.table({name: made[name] for name in columns})
