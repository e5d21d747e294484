# Generated from mqpg/_async/client/topics.py by tools/async_to_sync.py: change that file.
"""Topics: creating, changing, pausing, purging and dropping them."""

from __future__ import annotations

from mqpg._sync.client.connection import BaseClient
from mqpg._sync.client.execute import Caller, scalar
from mqpg.connection.statements import function
from mqpg.values.choices import OnExpired, TopicKind
from mqpg.values.messages import Interval

__all__ = ["Topics"]

_CREATE = function("create_topic", "topic text, queues int, retention interval, kind text")
_TOPIC = (
    "topic text, retention interval, max_payload int, message_ttl interval, on_expired text, lose_after interval, "
    "lose_over bigint, checksums boolean, queues int, max_bytes bigint"
)
_ALTER = function("alter_topic", _TOPIC)
_DROP = function("drop_topic", "topic text, force boolean", long=True)
_PURGE = function("purge_topic", "topic text", long=True)
_PAUSE = function("pause", "topic text, consumer_group text")
_RESUME = function("resume", "topic text, consumer_group text")

_WEEK = 7 * 86400.0


class Topics(BaseClient):
    """Calls about topics."""

    def create_topic(
        self,
        topic: str,
        queues: int = 8,
        retention: Interval = _WEEK,
        kind: TopicKind = "normal",
        *,
        conn: Caller | None = None,
    ) -> None:
        """Create a topic. A second call with the same arguments changes nothing.

        Args:
            topic: Its name: 1 to 127 letters, digits, "_", "." or "-", beginning with a letter or
                digit.
            queues: How many ordered queues it has, 1 to 1000. Messages with the same key share a
                queue. `alter_topic` can add queues.
            retention: How long messages stay readable; a week by default, at least a minute.
            kind: "relay" for a topic whose half messages travel to the consumers undecided
                (protocol T4).
            conn: The caller's transaction (psycopg or SQLAlchemy connection, or Session). None: the
                call commits at once.

        Raises:
            InvalidName: The name is not allowed.
            InvalidArgument: An argument is out of range.
            AlreadyDefined: The topic exists with other arguments; `alter_topic` changes it.
        """
        self._rows(_CREATE, _CREATE.values(topic, queues, retention, kind), conn, repeat=True)

    def alter_topic(
        self,
        topic: str,
        *,
        retention: Interval | None = None,
        max_payload: int | None = None,
        message_ttl: Interval | None = None,
        on_expired: OnExpired | None = None,
        lose_after: Interval | None = None,
        lose_over: int | None = None,
        checksums: bool | None = None,
        queues: int | None = None,
        max_bytes: int | None = None,
        conn: Caller | None = None,
    ) -> None:
        """Change a topic's settings. An argument that is None leaves its setting unchanged.

        Args:
            topic: The topic's name.
            retention: How long messages stay readable, at least a minute.
            max_payload: The largest payload in bytes, 1 to 268435456.
            message_ttl: A message that no consumer of a group received within this time expires for
                that group. 0 removes the limit.
            on_expired: Whether an expired message counts as consumed ("skip") or becomes a dead
                letter.
            lose_after: How long after its segment was closed a message that a group has not read
                may be dropped. 0 removes the policy.
            lose_over: How many bytes of unread messages a group may keep from being dropped. 0
                removes the policy.
            checksums: Whether each new record batch gets a checksum, which the audit compares with
                its bodies.
            queues: More queues: a multiple of the present number, at most 1000. A group reads an added
                queue after the older messages of its keys.
            max_bytes: With about so many bytes of its messages stored, sends raise NoSpace until
                retention has dropped some. The keeper measures every two seconds. 0 removes the
                limit.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            UnknownTopic: There is no such topic.
            InvalidArgument: A setting is out of range.
            LockTimeout: Queues are to be added, and another transaction is changing the topic.
        """
        values = _ALTER.values(
            topic,
            retention,
            max_payload,
            message_ttl,
            on_expired,
            lose_after,
            lose_over,
            checksums,
            queues,
            max_bytes,
        )
        self._rows(_ALTER, values, conn, repeat=True)

    def drop_topic(self, topic: str, force: bool = False, *, conn: Caller | None = None) -> None:
        """Drop a topic with its subscriptions.

        Args:
            topic: The topic's name. A topic created later under the same name starts at offset 0.
            force: Drop it even where messages are undelivered, delayed or undecided, or where
                messages are in a topic that no group reads.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            UnknownTopic: There is no such topic.
            TopicInUse: Something is undelivered, delayed, undecided or read by no group, and
                `force` is False.
        """
        self._rows(_DROP, {"topic": topic, "force": force}, conn)

    def purge_topic(self, topic: str, *, conn: Caller | None = None) -> int:
        """Skip all messages in a topic's queues and retry lanes, for all its subscriptions.

        Args:
            topic: The topic's name.
            conn: The caller's transaction. None: the call commits at once.

        Returns:
            How many deliveries were skipped.

        Raises:
            UnknownTopic: There is no such topic.
            LockTimeout: A queue was in use for longer than the setting `lock_timeout`.
        """
        return int(scalar(self._rows(_PURGE, {"topic": topic}, conn)))

    def pause(self, topic: str, consumer_group: str | None = None, *, conn: Caller | None = None) -> None:
        """Stop the delivery of a topic. Sends continue.

        Args:
            topic: The topic's name.
            consumer_group: Stop delivery to this group only. None: to every group.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownSubscription: The group is not subscribed to the topic.
        """
        self._rows(_PAUSE, {"topic": topic, "consumer_group": consumer_group}, conn, repeat=True)

    def resume(self, topic: str, consumer_group: str | None = None, *, conn: Caller | None = None) -> None:
        """Continue the delivery that `pause` with the same arguments stopped.

        Args:
            topic: The topic's name.
            consumer_group: The group that was paused. None: the topic was paused for every group.
            conn: The caller's transaction. None: the call commits at once.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownSubscription: The group is not subscribed to the topic.
        """
        self._rows(_RESUME, {"topic": topic, "consumer_group": consumer_group}, conn, repeat=True)
