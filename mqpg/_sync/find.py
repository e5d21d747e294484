# Generated from mqpg/_async/find.py by tools/async_to_sync.py: change that file.
"""Finding messages: by key, by id."""

from __future__ import annotations

from collections.abc import Sequence

from mqpg._sql import function, statement
from mqpg._sync.caller import Caller
from mqpg._sync.core import Core
from mqpg.message import FoundMessage, TraceEvent, decode

__all__ = ["Finding"]

_FIND_BY_KEY = function(
    "find_by_key",
    "topic text, key text",
    columns="message_id, queue_id, queue_offset, state, born_at, cast(payload as text)",
)
_TRACE = function("trace", "message_id bigint", columns="at, event, cast(detail as text)")
_DEAD_AMONG = statement("""
    select d.message_id
    from mqpg.dead_letter d
    join mqpg.subscription s using (subscription_id)
    join mqpg.topic t using (topic_id)
    where s.consumer_group = cast(%(consumer_group)s as text) and t.name = cast(%(topic)s as text)
        and d.message_id = any(cast(%(message_ids)s as bigint[]))
""")
# Offsets that a consumer with a database of its own has to apply: those that its subscription chooses and was not
# moved over on purpose.
_WANTED = statement("""
    select o.queue_offset
    from mqpg.subscription s
    join mqpg.topic t using (topic_id)
    cross join lateral (select case when s.filter is not null or s.tags is not null then (mqpg._chosen(
        s, cast(%(queue_id)s as int), cast(%(from_offset)s as bigint), cast(%(to_offset)s as bigint))).offsets end
    ) as c (offsets)
    cross join lateral generate_series(
        cast(%(from_offset)s as bigint), cast(%(to_offset)s as bigint) - 1) as o (queue_offset)
    where s.consumer_group = cast(%(consumer_group)s as text) and t.name = cast(%(topic)s as text) and s.member = ''
        and (c.offsets is null or o.queue_offset = any(c.offsets))
        and not exists (
            select from mqpg.jump j
            where j.subscription_id = s.subscription_id and j.queue_id = cast(%(queue_id)s as int) and not j.back
                and o.queue_offset >= j.from_offset and o.queue_offset < j.to_offset)
    order by 1
""")


class Finding(Core):
    """Questions about messages; pure reads."""

    def find_by_key(self, topic: str, key: str, *, conn: Caller | None = None) -> list[FoundMessage]:
        """All messages with this key, undecided, delayed and not yet appended ones too."""
        rows = self._rows(_FIND_BY_KEY, {"topic": topic, "key": key}, conn, repeat=True)
        return [
            FoundMessage(message_id, queue_id, queue_offset, state, born_at, decode(payload))
            for message_id, queue_id, queue_offset, state, born_at, payload in rows
        ]

    def trace(self, message_id: int, *, conn: Caller | None = None) -> list[TraceEvent]:
        """What happened to a message, oldest first."""
        rows = self._rows(_TRACE, {"message_id": message_id}, conn, repeat=True)
        return [TraceEvent(at, event, decode(detail)) for at, event, detail in rows]

    def _dead_among(self, consumer_group: str, topic: str, message_ids: Sequence[int]) -> set[int]:
        values = {"consumer_group": consumer_group, "topic": topic, "message_ids": list(message_ids)}
        return {row[0] for row in self._rows(_DEAD_AMONG, values, repeat=True)}

    def _wanted(self, consumer_group: str, topic: str, queue_id: int, from_offset: int, to_offset: int) -> list[int]:
        values = {
            "consumer_group": consumer_group,
            "topic": topic,
            "queue_id": queue_id,
            "from_offset": from_offset,
            "to_offset": to_offset,
        }
        return [row[0] for row in self._rows(_WANTED, values, repeat=True)]
