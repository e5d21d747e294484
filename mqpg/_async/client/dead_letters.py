"""The dead letters of a subscription: listing, redriving and discarding them."""

from __future__ import annotations

from collections.abc import Sequence

from mqpg._async.client.connection import BaseClient
from mqpg._async.client.execute import Caller, scalar
from mqpg.connection.statements import function
from mqpg.values.messages import DeadLetter

__all__ = ["DeadLetters"]

_LIST = function(
    "dead_letters",
    "consumer_group text, topic text, max_messages int, after_id bigint, message_ids bigint[], filter jsonpath, "
    "after_consumer text",
    columns="message_id, queue_id, key, cast(payload as text), attempts, reason, died_at, cast(headers as text), tag, "
    "cast(history as text), consumer",
    reads=True,
)
_CHOICE = "consumer_group text, topic text, message_ids bigint[], filter jsonpath, max_messages int"
_REDRIVE = function("redrive", _CHOICE, long=True)
_DISCARD = function("discard_dead_letters", _CHOICE, long=True)


class DeadLetters(BaseClient):
    """Calls about messages whose attempts are used up, or that a handler rejected."""

    async def dead_letters(
        self,
        consumer_group: str,
        topic: str,
        max_messages: int = 100,
        after_id: int | None = None,
        message_ids: Sequence[int] | None = None,
        filter: str | None = None,
        after_consumer: str | None = None,
        *,
        conn: Caller | None = None,
    ) -> list[DeadLetter]:
        """List dead letters, the latest first.

        Args:
            consumer_group: The group's name.
            topic: The topic's name.
            max_messages: How many to list at most, 1 to 100000.
            after_id: Continue behind this message, the last one of the page before. None: from the
                latest.
            message_ids: Only these messages. None: all.
            filter: Only messages that this jsonpath predicate chooses. None: all.
            after_consumer: In a broadcast group the consumer of the last letter of the page before.
                None: from the latest.
            conn: The caller's transaction (psycopg or SQLAlchemy connection, or Session). None: the
                call commits at once.

        Returns:
            The dead letters with reason, attempts and history.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownSubscription: The group is not subscribed to the topic.
            InvalidFilter: The filter uses a variable that it is not given.
            InvalidArgument: `after_id` names no dead letter of the group.
        """
        values = _LIST.values(consumer_group, topic, max_messages, after_id, message_ids, filter, after_consumer)
        return [DeadLetter(*row) for row in await self._rows(_LIST, values, conn, repeat=True)]

    async def redrive(
        self,
        consumer_group: str,
        topic: str,
        message_ids: Sequence[int] | None = None,
        filter: str | None = None,
        max_messages: int | None = None,
        *,
        conn: Caller | None = None,
    ) -> int:
        """Send dead letters back to the subscription in which they died.

        Their attempts count from 1 again.

        Args:
            consumer_group: The group's name.
            topic: The topic's name.
            message_ids: Only these messages. None: all.
            filter: Only messages that this jsonpath predicate chooses. None: all.
            max_messages: How many at most, the oldest first. None: all.
            conn: The caller's transaction. None: the call commits at once.

        Returns:
            How many were sent back.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownSubscription: The group is not subscribed to the topic.
            InvalidFilter: The filter uses a variable that it is not given.
        """
        values = _REDRIVE.values(consumer_group, topic, message_ids, filter, max_messages)
        return int(scalar(await self._rows(_REDRIVE, values, conn, repeat=message_ids is not None)))

    async def discard_dead_letters(
        self,
        consumer_group: str,
        topic: str,
        message_ids: Sequence[int] | None = None,
        filter: str | None = None,
        max_messages: int | None = None,
        *,
        conn: Caller | None = None,
    ) -> int:
        """Delete dead letters.

        Args:
            consumer_group: The group's name.
            topic: The topic's name.
            message_ids: Only these messages. None: all.
            filter: Only messages that this jsonpath predicate chooses. None: all.
            max_messages: How many at most, the oldest first. None: all.
            conn: The caller's transaction. None: the call commits at once.

        Returns:
            How many were deleted.

        Raises:
            UnknownTopic: There is no such topic.
            UnknownSubscription: The group is not subscribed to the topic.
            InvalidFilter: The filter uses a variable that it is not given.
        """
        values = _DISCARD.values(consumer_group, topic, message_ids, filter, max_messages)
        return int(scalar(await self._rows(_DISCARD, values, conn, repeat=message_ids is not None)))
