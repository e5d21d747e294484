"""Dead letters of a subscription."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mqpg._async.caller import Caller
from mqpg._async.core import Core
from mqpg._async.produce import listed
from mqpg._sql import function
from mqpg.message import DeadLetter, decode

__all__ = ["Letters"]

_LIST = function(
    "dead_letters",
    "consumer_group text, topic text, max_messages int, after_id bigint, message_ids bigint[], filter jsonpath, "
    "after_consumer text",
    columns="message_id, queue_id, key, cast(payload as text), attempts, reason, died_at, cast(headers as text), tag, "
    "cast(history as text), consumer",
)
_CHOICE = "consumer_group text, topic text, message_ids bigint[], filter jsonpath, max_messages int"
_REDRIVE = function("redrive", _CHOICE)
_DISCARD = function("discard_dead_letters", _CHOICE)


class Letters(Core):
    """Calls about messages that were given up. They raise UnknownTopic, UnknownSubscription, InvalidFilter."""

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
        """The latest first; those of some ids or that a jsonpath chooses.

        `after_id` and, of a broadcast group, `after_consumer` go on behind a page: those of its last letter.
        """
        values = {
            "consumer_group": consumer_group,
            "topic": topic,
            "max_messages": max_messages,
            "after_id": after_id,
            "message_ids": listed(message_ids, "message_ids"),
            "filter": filter,
            "after_consumer": after_consumer,
        }
        return [_letter(tuple(row)) for row in await self._rows(_LIST, values, conn, repeat=True)]

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
        """Send dead letters, all or some, back to the subscription, attempts from 1; returns how many."""
        values = _choice(consumer_group, topic, message_ids, filter, max_messages)
        return int(await self._value(_REDRIVE, values, conn, repeat=message_ids is not None))

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
        """Take dead letters, all or some, away for good; returns how many."""
        values = _choice(consumer_group, topic, message_ids, filter, max_messages)
        return int(await self._value(_DISCARD, values, conn, repeat=message_ids is not None))


def _choice(
    consumer_group: str, topic: str, message_ids: Sequence[int] | None, filter: str | None, max_messages: int | None
) -> dict[str, object]:
    return {
        "consumer_group": consumer_group,
        "topic": topic,
        "message_ids": listed(message_ids, "message_ids"),
        "filter": filter,
        "max_messages": max_messages,
    }


def _letter(row: tuple[Any, ...]) -> DeadLetter:
    message_id, queue_id, key, payload, attempts, reason, died_at, headers, tag, history, consumer = row
    return DeadLetter(
        message_id=message_id,
        queue_id=queue_id,
        key=key,
        payload=decode(payload),
        attempts=attempts,
        reason=reason,
        died_at=died_at,
        headers=decode(headers),
        tag=tag,
        history=decode(history),
        consumer=consumer,
    )
