# Generated from mqpg/_async/client/subscriptions.py by tools/async_to_sync.py: change that file.
"""Subscriptions: which group reads which topic, how, and from where."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mqpg._sync.client.connection import BaseClient
from mqpg._sync.client.execute import Caller
from mqpg.connection.statements import function
from mqpg.values.arguments import position
from mqpg.values.choices import Mode, OnFailure
from mqpg.values.messages import Interval

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
_UNSUBSCRIBE = function("unsubscribe", "consumer_group text, topic text, consumer text", long=True)
_SEEK = function("seek", "consumer_group text, topic text, target text, queue_id int, consumer text")
_UNPIN = function("unpin", "consumer_group text, topic text, queue_id int, consumer text")
_READY = function("ready", "consumer_group text, after_tick bigint", columns="topic, tick", reads=True)


class Subscriptions(BaseClient):
    """Calls about subscriptions."""

    def subscribe(
        self,
        consumer_group: str,
        topic: str,
        mode: Mode = "exclusive",
        start: str | datetime = "earliest",
        filter: str | None = None,
        tags: Sequence[str] | None = None,
        max_attempts: int = 16,
        retry_delay: Interval = 10.0,
        on_failure: OnFailure = "skip",
        *,
        conn: Caller | None = None,
    ) -> None:
        """Subscribe a consumer group to a topic.

        A second call with the same arguments changes nothing.

        Args:
            consumer_group: The group's name, of the same form as a topic's.
            topic: The topic's name.
            mode: "exclusive" (one consumer a queue at a time, order kept), "shared" (many consumers
                a queue), "pinned" (a queue stays with one consumer name) or "broadcast" (each
                consumer name receives everything).
            start: "earliest", "latest", or a time with its zone: the first message that became
                visible then or later.
            filter: A jsonpath predicate on the payload; $headers, $key and $tag are there too.
                None: all messages.
            tags: Only messages with one of these tags. A message must match both filter and tags.
                None: any tag.
            max_attempts: How many deliveries a message has before it becomes a dead letter, 1 to
                10000.
            retry_delay: The pause before the second attempt, 10 seconds by default. It doubles with
                each further one, up to the setting `retry_delay_cap`.
            on_failure: "skip" (a failed message goes to the retry lane and the queue continues),
                "block_key" or "block_queue" (the messages of its key, or of its queue, wait for
                it).
            conn: The caller's transaction (psycopg or SQLAlchemy connection, or Session). None: the
                call commits at once.

        Raises:
            UnknownTopic: There is no such topic.
            InvalidName: The group's name is not allowed.
            InvalidArgument: An argument is out of range, or two do not go together.
            InvalidFilter: The filter is no jsonpath, or uses another variable.
            AlreadyDefined: The group is subscribed with other arguments; `alter_subscription`
                changes them.
            WrongTopicKind: The topic is a relay topic, which needs mode "exclusive" or "pinned" and
                no filter.
            IdsUsedUp: The broker has given out all ids of subscriptions.
        """
        begins = position(start, "start", offset=False)
        values = _SUBSCRIBE.values(
            consumer_group, topic, mode, begins, filter, tags, max_attempts, retry_delay, on_failure
        )
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
        on_failure: OnFailure | None = None,
        mode: Mode | None = None,
        conn: Caller | None = None,
    ) -> None:
        """Change a subscription. An argument that is None leaves its setting unchanged.

        Messages that were handed out before, or wait in the retry lane, were chosen by the old
        settings.

        Args:
            consumer_group: The group's name.
            topic: The topic's name.
            max_attempts: How many deliveries a message has, 1 to 10000.
            retry_delay: The pause before the second attempt.
            filter: A jsonpath predicate; "true" removes the filter.
            tags: The tags to choose; an empty list removes the choice.
            on_failure: "skip", "block_key" or "block_queue".
            mode: "exclusive" or "shared"; the other modes cannot be changed.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownSubscription: The group is not subscribed to the topic.
            InvalidArgument: A setting is out of range, or two do not go together.
            InvalidFilter: The filter is no jsonpath, or uses another variable.
        """
        values = _ALTER.values(consumer_group, topic, max_attempts, retry_delay, filter, tags, on_failure, mode)
        self._rows(_ALTER, values, conn, repeat=True)

    def unsubscribe(
        self, consumer_group: str, topic: str, consumer: str | None = None, *, conn: Caller | None = None
    ) -> None:
        """End a subscription. Its positions, retries and dead letters are deleted.

        Args:
            consumer_group: The group's name.
            topic: The topic's name.
            consumer: End only this member of a broadcast group. None: the whole subscription.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownSubscription: The group is not subscribed, or has no such member.
            InvalidArgument: `consumer` is given and the group is not a broadcast group.
        """
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
        """Move a group to another place in a topic. Open receipts become stale.

        Args:
            consumer_group: The group's name.
            topic: The topic's name.
            target: "earliest", "latest", a time with its zone (the first message that became
                visible then or later), or an offset.
            queue_id: Move only this queue; -1 is the retry lane. None: all queues of the topic, but
                not the retry lane. An offset as target needs it.
            consumer: Move only this member of a broadcast group. None: the whole group.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownSubscription: The group is not subscribed to the topic.
            OffsetOutOfRange: The offset is beyond the queue's next one.
            InvalidArgument: The target is no position or a time without a zone, or `queue_id` is
                missing or out of range.
            LockTimeout: A queue was in use for longer than the setting `lock_timeout`.
        """
        values = _SEEK.values(consumer_group, topic, position(target, "target", offset=True), queue_id, consumer)
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
        """End a consumer's ownership of pinned queues, so that another one may receive from them.

        Call it only when the owner's local database is known to hold everything that the owner
        applied (protocol C2).

        Args:
            consumer_group: The group's name.
            topic: The topic's name.
            queue_id: Only this queue. None: all queues.
            consumer: Only the queues of this consumer. None: of every consumer.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownSubscription: The group is not subscribed to the topic.
            InvalidArgument: The subscription's mode is not "pinned", or an argument is out of
                range.
        """
        self._rows(_UNPIN, _UNPIN.values(consumer_group, topic, queue_id, consumer), conn, repeat=True)

    def ready(self, consumer_group: str, after_tick: int = 0, *, conn: Caller | None = None) -> list[tuple[str, int]]:
        """List the topics of a group that received messages after a tick.

        It is for programs that read many topics by hand. Consumers and `receive(wait=…)` do not
        need it.

        Args:
            consumer_group: The group's name.
            after_tick: The greatest tick that an earlier call returned, 0 at first.
            conn: The caller's transaction. None: the call commits at once.

        Returns:
            Pairs of topic and its newest tick.

        Raises:
            UnknownSubscription: The group has no subscription.
        """
        rows = self._rows(_READY, _READY.values(consumer_group, after_tick), conn, repeat=True)
        return [(row[0], row[1]) for row in rows]
