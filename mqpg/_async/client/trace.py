"""Finding messages by key, and the history of one message."""

from __future__ import annotations

from mqpg._async.client.connection import BaseClient
from mqpg._async.client.execute import Caller
from mqpg.connection.statements import function
from mqpg.values.messages import FoundMessage, TraceEvent

__all__ = ["Trace"]

_FIND_BY_KEY = function(
    "find_by_key",
    "topic text, key text",
    columns="message_id, queue_id, queue_offset, state, born_at, cast(payload as text)",
    reads=True,
)
_TRACE = function("trace", "message_id bigint", columns="at, event, cast(detail as text)", reads=True)


class Trace(BaseClient):
    """Questions about messages. They only read."""

    async def find_by_key(self, topic: str, key: str, *, conn: Caller | None = None) -> list[FoundMessage]:
        """Find all stored messages with a key, undecided and delayed ones included.

        Args:
            topic: The topic's name.
            key: The messages' key.
            conn: The caller's transaction (psycopg or SQLAlchemy connection, or Session). None: the
                call commits at once.

        Returns:
            The messages, oldest first.

        Raises:
            UnknownTopic: There is no such topic.
            InvalidArgument: `key` is None.
        """
        rows = await self._rows(_FIND_BY_KEY, {"topic": topic, "key": key}, conn, repeat=True)
        return [FoundMessage(*row) for row in rows]

    async def trace(self, message_id: int, *, conn: Caller | None = None) -> list[TraceEvent]:
        """List what happened to a message.

        Args:
            message_id: The message's id.
            conn: The caller's transaction. None: the call commits at once.

        Returns:
            The events, oldest first; an empty list where nothing is known about the id.

        Raises:
            InvalidArgument: `message_id` is None.
        """
        rows = await self._rows(_TRACE, {"message_id": message_id}, conn, repeat=True)
        return [TraceEvent(*row) for row in rows]
