# Generated from mqpg/_async/topics.py by tools/async_to_sync.py: change that file.
"""Topics."""

from __future__ import annotations

from mqpg._sql import function, statement
from mqpg._sync.caller import Caller
from mqpg._sync.core import Core
from mqpg.errors import ConnectionFailed, PayloadTooLarge, UnknownTopic
from mqpg.message import Interval, interval

__all__ = ["Topics"]

_CREATE = function("create_topic", "topic text, queues int, retention interval, kind text")
_ALTER = function(
    "alter_topic",
    "topic text, retention interval, max_payload int, message_ttl interval, on_expired text, lose_after interval, "
    "lose_over bigint",
)
_DROP = function("drop_topic", "topic text, force boolean")
_PURGE = function("purge_topic", "topic text")
_PAUSE = function("pause", "topic text, consumer_group text")
_RESUME = function("resume", "topic text, consumer_group text")
_QUEUES = statement("select t.queues from mqpg.topic t where t.name = cast(%(topic)s as text)")
_LIMIT = statement("select t.max_payload from mqpg.topic t where t.name = cast(%(topic)s as text)")

_WEEK = 7 * 86400.0


class Topics(Core):
    """Creating a topic again with the same arguments changes nothing; with others: AlreadyDefined."""

    def create_topic(
        self,
        topic: str,
        queues: int = 8,
        retention: Interval = _WEEK,
        kind: str = "normal",
        *,
        conn: Caller | None = None,
    ) -> None:
        """Create a topic of `queues` ordered queues. Raises InvalidName, InvalidArgument, AlreadyDefined."""
        values = {"topic": topic, "queues": queues, "retention": interval(retention), "kind": kind}
        self._rows(_CREATE, values, conn, repeat=True)

    def alter_topic(
        self,
        topic: str,
        *,
        retention: Interval | None = None,
        max_payload: int | None = None,
        message_ttl: Interval | None = None,
        on_expired: str | None = None,
        lose_after: Interval | None = None,
        lose_over: int | None = None,
        conn: Caller | None = None,
    ) -> None:
        """Change what is given; a time or number of 0 takes a limit or policy away. Raises UnknownTopic.

        message_ttl: what nobody of a group got within that time expires for it (on_expired: skip or dead_letter).
        lose_after, lose_over: what groups that do not read may lose, by age or by bytes.
        """
        values = {
            "topic": topic,
            "retention": interval(retention),
            "max_payload": max_payload,
            "message_ttl": interval(message_ttl),
            "on_expired": on_expired,
            "lose_after": interval(lose_after),
            "lose_over": lose_over,
        }
        self._rows(_ALTER, values, conn, repeat=True)

    def drop_topic(self, topic: str, force: bool = False, *, conn: Caller | None = None) -> None:
        """Drop a topic; without `force` raises TopicInUse while something is undelivered or undecided."""
        self._rows(_DROP, {"topic": topic, "force": force}, conn)

    def purge_topic(self, topic: str, *, conn: Caller | None = None) -> int:
        """Count all that the topic's queues hold as consumed; returns how many deliveries that leaves out."""
        return int(self._value(_PURGE, {"topic": topic}, conn))

    def pause(self, topic: str, consumer_group: str | None = None, *, conn: Caller | None = None) -> None:
        """Stop delivery, to everybody or to one group; sends go on. Raises UnknownTopic, UnknownSubscription."""
        self._rows(_PAUSE, {"topic": topic, "consumer_group": consumer_group}, conn, repeat=True)

    def resume(self, topic: str, consumer_group: str | None = None, *, conn: Caller | None = None) -> None:
        """Go on with what the same call of `pause` stopped."""
        self._rows(_RESUME, {"topic": topic, "consumer_group": consumer_group}, conn, repeat=True)

    def _require_fits(self, topic: str, payload: str) -> None:
        """Raise PayloadTooLarge where the broker would. Asked once for a topic, and again for what would not fit.

        While the broker is away everything fits: it says so itself when it is told.
        """
        size = len(payload.encode())
        if size <= self._limits.get(topic, 0):
            return
        try:
            limit = self._value(_LIMIT, {"topic": topic}, repeat=False)
        except ConnectionFailed:
            return
        if limit is None:
            return
        self._limits[topic] = int(limit)
        if size > limit:
            raise PayloadTooLarge(f"payload has {size} bytes; topic {topic!r} allows {limit}")

    def _queues(self, topic: str) -> int:
        return int(self._value(_QUEUES, {"topic": topic}, repeat=True) or 0)

    def _queues_or_raise(self, topic: str) -> int:
        queues = self._queues(topic)
        if not queues:
            raise UnknownTopic(f"topic {topic!r} does not exist")
        return queues
