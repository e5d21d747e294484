"""Finding messages: by key, by id, among the dead letters."""

from __future__ import annotations

from collections.abc import Sequence

from mqpg._async.caller import Caller
from mqpg._async.core import Core
from mqpg._sql import function, statement
from mqpg.message import DeadLetter, FoundMessage, TraceEvent, decode

__all__ = ["Finding"]

_FIND_BY_KEY = function(
    "find_by_key",
    "topic text, key text",
    columns="message_id, queue_id, queue_offset, state, born_at, cast(payload as text)",
)
_TRACE = function("trace", "message_id bigint", columns="at, event, cast(detail as text)")
_DEAD_LETTERS = function(
    "dead_letters",
    "consumer_group text, topic text, max_messages int",
    columns="message_id, queue_id, key, cast(payload as text), attempts, reason, died_at",
)
_DEAD_AMONG = statement("""
    select d.message_id
    from mqpg.dead_letter d
    join mqpg.subscription s using (subscription_id)
    join mqpg.topic t using (topic_id)
    where s.consumer_group = cast(%(consumer_group)s as text) and t.name = cast(%(topic)s as text)
        and d.message_id = any(cast(%(message_ids)s as bigint[]))
""")


class Finding(Core):
    """Questions about messages; pure reads."""

    async def find_by_key(self, topic: str, key: str, *, conn: Caller | None = None) -> list[FoundMessage]:
        """All messages with this key, undecided, delayed and not yet appended ones too."""
        rows = await self._rows(_FIND_BY_KEY, {"topic": topic, "key": key}, conn, repeat=True)
        return [
            FoundMessage(message_id, queue_id, queue_offset, state, born_at, decode(payload))
            for message_id, queue_id, queue_offset, state, born_at, payload in rows
        ]

    async def trace(self, message_id: int, *, conn: Caller | None = None) -> list[TraceEvent]:
        """What happened to a message, oldest first."""
        rows = await self._rows(_TRACE, {"message_id": message_id}, conn, repeat=True)
        return [TraceEvent(at, event, decode(detail)) for at, event, detail in rows]

    async def dead_letters(
        self, consumer_group: str, topic: str, max_messages: int = 100, *, conn: Caller | None = None
    ) -> list[DeadLetter]:
        """Messages whose attempts are used up. Raises UnknownSubscription."""
        values = {"consumer_group": consumer_group, "topic": topic, "max_messages": max_messages}
        rows = await self._rows(_DEAD_LETTERS, values, conn, repeat=True)
        return [
            DeadLetter(message_id, queue_id, key, decode(payload), attempts, reason, died_at)
            for message_id, queue_id, key, payload, attempts, reason, died_at in rows
        ]

    async def _dead_among(self, consumer_group: str, topic: str, message_ids: Sequence[int]) -> set[int]:
        values = {"consumer_group": consumer_group, "topic": topic, "message_ids": list(message_ids)}
        return {row[0] for row in await self._rows(_DEAD_AMONG, values, repeat=True)}
