# Generated from mqpg/_async/subscriptions.py by tools/async_to_sync.py: change that file.
"""Subscriptions: who reads what, how, and from where."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mqpg._sql import function, statement
from mqpg._sync.caller import Caller
from mqpg._sync.core import Core
from mqpg._sync.produce import listed
from mqpg.errors import UnknownSubscription
from mqpg.message import Interval, interval

__all__ = ["Subscriptions"]

_SUBSCRIBE = function(
    "subscribe",
    "consumer_group text, topic text, mode text, start text, filter jsonpath, tags text[], max_attempts int, "
    "retry_delay interval, on_failure text",
)
_ALTER = function(
    "alter_subscription",
    "consumer_group text, topic text, max_attempts int, retry_delay interval, filter jsonpath, tags text[], "
    "on_failure text, mode text",
)
_UNSUBSCRIBE = function("unsubscribe", "consumer_group text, topic text, consumer text")
_SEEK = function("seek", "consumer_group text, topic text, target text, queue_id int, consumer text")
_UNPIN = function("unpin", "consumer_group text, topic text, queue_id int, consumer text")
_READY = function("ready", "consumer_group text, after_tick bigint", columns="topic, tick")
_MODE = statement("""
    select s.mode from mqpg.subscription s join mqpg.topic t using (topic_id)
    where s.consumer_group = cast(%(consumer_group)s as text) and t.name = cast(%(topic)s as text) and s.member = ''
""")
_ON_FAILURE = statement("""
    select s.on_failure from mqpg.subscription s join mqpg.topic t using (topic_id)
    where s.consumer_group = cast(%(consumer_group)s as text) and t.name = cast(%(topic)s as text) and s.member = ''
""")


class Subscriptions(Core):
    """Subscribing again with the same arguments changes nothing; with others: AlreadyDefined."""

    def subscribe(
        self,
        consumer_group: str,
        topic: str,
        mode: str = "exclusive",
        start: str | datetime = "earliest",
        filter: str | None = None,
        tags: Sequence[str] | None = None,
        max_attempts: int = 16,
        retry_delay: Interval = 10.0,
        on_failure: str = "skip",
        *,
        conn: Caller | None = None,
    ) -> None:
        """Have a consumer group read a topic.

        mode: exclusive, shared, pinned or broadcast; start: earliest, latest or a time; filter: a jsonpath
        predicate on the payload ($headers, $key and $tag are there too), and-ed with tags; on_failure: skip,
        block_key or block_queue. Raises UnknownTopic, InvalidArgument, InvalidFilter, AlreadyDefined.
        """
        values = {
            "consumer_group": consumer_group,
            "topic": topic,
            "mode": mode,
            "start": _point(start),
            "filter": filter,
            "tags": listed(tags, "tags"),
            "max_attempts": max_attempts,
            "retry_delay": interval(retry_delay),
            "on_failure": on_failure,
        }
        self._rows(_SUBSCRIBE, values, conn, repeat=True)

    def alter_subscription(
        self,
        consumer_group: str,
        topic: str,
        *,
        max_attempts: int | None = None,
        retry_delay: Interval | None = None,
        filter: str | None = None,
        tags: Sequence[str] | None = None,
        on_failure: str | None = None,
        mode: str | None = None,
        conn: Caller | None = None,
    ) -> None:
        """Change what is given; the filter "true" and the tags [] take them away. Raises UnknownSubscription."""
        values = {
            "consumer_group": consumer_group,
            "topic": topic,
            "max_attempts": max_attempts,
            "retry_delay": interval(retry_delay),
            "filter": filter,
            "tags": listed(tags, "tags"),
            "on_failure": on_failure,
            "mode": mode,
        }
        self._rows(_ALTER, values, conn, repeat=True)

    def unsubscribe(
        self, consumer_group: str, topic: str, consumer: str | None = None, *, conn: Caller | None = None
    ) -> None:
        """End a subscription, or one member of a broadcast group: positions, retries and dead letters are gone."""
        self._rows(_UNSUBSCRIBE, {"consumer_group": consumer_group, "topic": topic, "consumer": consumer}, conn)

    def seek(
        self,
        consumer_group: str,
        topic: str,
        target: str | int | datetime,
        queue_id: int | None = None,
        *,
        consumer: str | None = None,
        conn: Caller | None = None,
    ) -> None:
        """Move a group to "earliest", "latest", a time, or an offset, which needs queue_id; receipts become stale.

        `consumer` names one member of a broadcast group. Raises OffsetOutOfRange, InvalidArgument.
        """
        values = {
            "consumer_group": consumer_group,
            "topic": topic,
            "target": _point(target),
            "queue_id": queue_id,
            "consumer": consumer,
        }
        self._rows(_SEEK, values, conn, repeat=True)

    def unpin(
        self,
        consumer_group: str,
        topic: str,
        queue_id: int | None = None,
        consumer: str | None = None,
        *,
        conn: Caller | None = None,
    ) -> None:
        """Give up queues of a pinned subscription: one or all, of one member or of all."""
        values = {"consumer_group": consumer_group, "topic": topic, "queue_id": queue_id, "consumer": consumer}
        self._rows(_UNPIN, values, conn, repeat=True)

    def ready(self, consumer_group: str, after_tick: int = 0, *, conn: Caller | None = None) -> list[tuple[str, int]]:
        """Topics of a group that got something after a tick, each with its newest one.

        For programs that read many topics by hand: consumers and `receive(wait=)` need it not. Raises
        UnknownSubscription where the group has none.
        """
        values = {"consumer_group": consumer_group, "after_tick": after_tick}
        return [(row[0], row[1]) for row in self._rows(_READY, values, conn, repeat=True)]

    def _subscription_mode(self, consumer_group: str, topic: str) -> str | None:
        values = {"consumer_group": consumer_group, "topic": topic}
        mode = self._value(_MODE, values, repeat=True)
        return None if mode is None else str(mode)

    def _subscription_or_raise(self, consumer_group: str, topic: str) -> str:
        mode = self._subscription_mode(consumer_group, topic)
        if mode is None:
            raise UnknownSubscription(f"consumer group {consumer_group!r} is not subscribed to topic {topic!r}")
        return mode

    def _on_failure(self, consumer_group: str, topic: str, conn: Caller | None = None) -> str:
        values = {"consumer_group": consumer_group, "topic": topic}
        return str(self._value(_ON_FAILURE, values, conn, repeat=True) or "skip")


def _point(target: str | int | datetime) -> str:
    return target.isoformat() if isinstance(target, datetime) else str(target)
