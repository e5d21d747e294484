# Generated from mqpg/_async/admin.py by tools/async_to_sync.py: change that file.
"""Topics, groups, subscriptions, and the passes that workers run."""

from __future__ import annotations

from mqpg._sql import function, statement
from mqpg._sync.caller import Caller
from mqpg._sync.core import Core
from mqpg.message import Interval, interval

__all__ = ["Administering"]

_CREATE_TOPIC = function("create_topic", "topic text, queues int, retention interval, kind text")
_ALTER_TOPIC = function("alter_topic", "topic text, retention interval, max_payload int")
_DROP_TOPIC = function("drop_topic", "topic text, force boolean")
_GROUP = (
    "producer_group text, check_after interval, max_checks int, on_exhausted text, checker text, checker_target text"
)
_CREATE_GROUP = function("create_producer_group", _GROUP)
_ALTER_GROUP = function("alter_producer_group", _GROUP)
_DROP_GROUP = function("drop_producer_group", "producer_group text")
_SUBSCRIBE = function(
    "subscribe",
    "consumer_group text, topic text, mode text, start text, max_attempts int, retry_delay interval",
)
_ALTER_SUBSCRIPTION = function(
    "alter_subscription", "consumer_group text, topic text, max_attempts int, retry_delay interval"
)
_UNSUBSCRIBE = function("unsubscribe", "consumer_group text, topic text")
_MODE = statement("""
    select s.mode from mqpg.subscription s join mqpg.topic t using (topic_id)
    where s.consumer_group = cast(%(consumer_group)s as text) and t.name = cast(%(topic)s as text)
""")
_APPEND = function("append", "max_messages int")
_KEEP = function("keep", columns="*")

_WEEK = 7 * 86400.0


class Administering(Core):
    """Definitions. Creating something again with the same arguments changes nothing; with others: AlreadyDefined."""

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
        self._rows(_CREATE_TOPIC, values, conn, repeat=True)

    def alter_topic(
        self,
        topic: str,
        *,
        retention: Interval | None = None,
        max_payload: int | None = None,
        conn: Caller | None = None,
    ) -> None:
        """Change what is given. Raises UnknownTopic."""
        values = {"topic": topic, "retention": interval(retention), "max_payload": max_payload}
        self._rows(_ALTER_TOPIC, values, conn, repeat=True)

    def drop_topic(self, topic: str, force: bool = False, *, conn: Caller | None = None) -> None:
        """Drop a topic; without `force` raises TopicInUse while something is undelivered or undecided."""
        self._rows(_DROP_TOPIC, {"topic": topic, "force": force}, conn)

    def create_producer_group(
        self,
        producer_group: str,
        check_after: Interval = 60.0,
        max_checks: int = 15,
        on_exhausted: str = "park",
        checker: str = "due_checks",
        checker_target: str | None = None,
        *,
        conn: Caller | None = None,
    ) -> None:
        """Create a producer group: when its half messages are overdue, and who answers for them (T3)."""
        values = {
            "producer_group": producer_group,
            "check_after": interval(check_after),
            "max_checks": max_checks,
            "on_exhausted": on_exhausted,
            "checker": checker,
            "checker_target": checker_target,
        }
        self._rows(_CREATE_GROUP, values, conn, repeat=True)

    def alter_producer_group(
        self,
        producer_group: str,
        *,
        check_after: Interval | None = None,
        max_checks: int | None = None,
        on_exhausted: str | None = None,
        checker: str | None = None,
        checker_target: str | None = None,
        conn: Caller | None = None,
    ) -> None:
        """Change what is given. Raises UnknownProducerGroup."""
        values = {
            "producer_group": producer_group,
            "check_after": interval(check_after),
            "max_checks": max_checks,
            "on_exhausted": on_exhausted,
            "checker": checker,
            "checker_target": checker_target,
        }
        self._rows(_ALTER_GROUP, values, conn, repeat=True)

    def drop_producer_group(self, producer_group: str, *, conn: Caller | None = None) -> None:
        """Drop a producer group that has no undecided half messages."""
        self._rows(_DROP_GROUP, {"producer_group": producer_group}, conn)

    def subscribe(
        self,
        consumer_group: str,
        topic: str,
        mode: str = "exclusive",
        start: str = "earliest",
        max_attempts: int = 16,
        retry_delay: Interval = 10.0,
        *,
        conn: Caller | None = None,
    ) -> None:
        """Have a consumer group read a topic; mode is exclusive or pinned, start earliest or latest."""
        values = {
            "consumer_group": consumer_group,
            "topic": topic,
            "mode": mode,
            "start": start,
            "max_attempts": max_attempts,
            "retry_delay": interval(retry_delay),
        }
        self._rows(_SUBSCRIBE, values, conn, repeat=True)

    def alter_subscription(
        self,
        consumer_group: str,
        topic: str,
        *,
        max_attempts: int | None = None,
        retry_delay: Interval | None = None,
        conn: Caller | None = None,
    ) -> None:
        """Change what is given. Raises UnknownSubscription."""
        values = {
            "consumer_group": consumer_group,
            "topic": topic,
            "max_attempts": max_attempts,
            "retry_delay": interval(retry_delay),
        }
        self._rows(_ALTER_SUBSCRIPTION, values, conn, repeat=True)

    def unsubscribe(self, consumer_group: str, topic: str, *, conn: Caller | None = None) -> None:
        """End a subscription: its positions, retries and dead letters are gone."""
        self._rows(_UNSUBSCRIBE, {"consumer_group": consumer_group, "topic": topic}, conn)

    def _subscription_mode(self, consumer_group: str, topic: str) -> str | None:
        values = {"consumer_group": consumer_group, "topic": topic}
        mode = self._value(_MODE, values, repeat=True)
        return None if mode is None else str(mode)

    def append(self, max_messages: int | None = None, *, conn: Caller | None = None) -> int:
        """One pass of the appender; returns how many messages it made visible.

        With `conn`: the first statement of a READ COMMITTED transaction, else WrongTransaction.
        """
        return int(self._value(_APPEND, {"max_messages": max_messages}, conn, repeat=True))

    def keep(self, *, conn: Caller | None = None) -> list[tuple[object, ...]]:
        """One pass of the keeper over the segments; returns its report. `conn` as for `append`."""
        return [tuple(row) for row in self._rows(_KEEP, {}, conn, repeat=True)]
