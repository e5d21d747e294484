"""The messages of a topic as a table of Arrow."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from mqpg._async.client.connection import BaseClient
from mqpg._async.client.execute import Caller
from mqpg.connection.statements import function
from mqpg.values.errors import ConfigurationError, InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Arrow"]

_OFFSETS = function(
    "topic_offsets",
    "topic text, at timestamptz",
    columns="queue_id, identity, oldest_offset, next_offset, offset_at",
    reads=True,
)
_RANGE = function(
    "fetch_range",
    "topic text, queue_id int, from_offset bigint, to_offset bigint, identity text",
    columns="queue_offset, message_id, key, tag, cast(headers as text), cast(payload as text), born_at, appended_at",
    reads=True,
)
_CHUNK = 10_000  # messages in one call


class Arrow(BaseClient):
    """Calls of a program that analyses messages."""

    async def to_arrow(self, topic: str, *, since: datetime | None = None, conn: Caller | None = None) -> pa.Table:
        """Read all messages of a topic that are there, without a claim. It needs the package pyarrow.

        The columns are topic, queue, offset, message_id, key, tag, headers, payload, born_at (when
        it was sent) and appended_at (when it became visible). Headers and payload are JSON as text.
        The table's `to_pandas()` makes a DataFrame. What is appended meanwhile is left out.

        Args:
            topic: The topic's name.
            since: Only messages that became visible then or later, with its time zone. None: from
                the oldest message that is kept.
            conn: The caller's transaction. None: each call commits at once.

        Returns:
            The table, queue by queue, in offset order. It has to fit into memory.

        Raises:
            ConfigurationError: pyarrow is not installed.
            InvalidArgument: `since` is no datetime, or has no time zone.
            UnknownTopic: There is no such topic, or it was dropped meanwhile.
            OffsetOutOfRange: Retention dropped messages meanwhile. Call it again.
            MissingBody: A message's body is gone from the log.
        """
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ConfigurationError("to_arrow needs the package pyarrow: pip install pyarrow") from error
        if since is not None and getattr(since, "tzinfo", None) is None:
            raise InvalidArgument(f"since must be a datetime with a time zone, not {since!r}")
        schema, tables = _schema(pa), []
        queues = await self._rows(_OFFSETS, _OFFSETS.values(topic, since), conn, repeat=True)
        for queue, identity, oldest, after, at in sorted(queues, key=lambda row: int(row[0])):
            first = oldest if since is None else at
            for start in range(first, after, _CHUNK):
                values = _RANGE.values(topic, queue, start, min(start + _CHUNK, after), identity)
                rows = await self._rows(_RANGE, values, conn, repeat=True)
                columns = [[topic] * len(rows), [queue] * len(rows), *zip(*rows, strict=True)]
                tables.append(pa.table(columns, schema))
        return pa.concat_tables(tables) if tables else schema.empty_table()


def _schema(pa: Any) -> Any:
    moment = pa.timestamp("us", "UTC")
    texts = dict.fromkeys(("key", "tag", "headers", "payload"), pa.string())
    numbers = {"queue": pa.int32(), "offset": pa.int64(), "message_id": pa.int64()}
    return pa.schema({"topic": pa.string(), **numbers, **texts, "born_at": moment, "appended_at": moment})
