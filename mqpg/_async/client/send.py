"""Sending: plain, delayed, deduplicated, in batches (protocol T1)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mqpg._async.client.batching import Batched, Batching, Values, column
from mqpg._async.client.execute import Caller, scalar
from mqpg.connection.statements import function
from mqpg.tracing import producing
from mqpg.values.arguments import encode, encode_all, interval, listed, moment
from mqpg.values.messages import Interval

__all__ = ["Send"]

_SEND = function(
    "send",
    "topic text, payload text, key text, tag text, headers jsonb, "
    "delay interval, dedup_id text, deliver_at timestamptz",
)
_SEND_BATCH = function(
    "send_batch",
    "topic text, payloads text[], keys text[], tags text[], headers jsonb[], delay interval, dedup_ids text[]",
    columns="*",
)
_RECALL = function("recall", "message_id bigint")


def _collect(batch: Sequence[Values]) -> Values:
    return {
        "topic": batch[0]["topic"],
        "payloads": [values["payload"] for values in batch],
        "keys": column(batch, "key"),
        "tags": column(batch, "tag"),
        "headers": column(batch, "headers"),
    }


_BATCHED_SEND = Batched(
    single=_SEND,
    together=function(
        "send_batch", "topic text, payloads text[], keys text[], tags text[], headers jsonb[]", columns="*"
    ),
    collect=_collect,
    repeat=False,
)


class Send(Batching):
    """Calls of a producer whose business tables are in the broker's database."""

    async def send(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        tag: str | None = None,
        headers: Any = None,
        delay: Interval | None = None,
        dedup_id: str | None = None,
        deliver_at: datetime | str | None = None,
        conn: Caller | None = None,
    ) -> int:
        """Send one message (protocol T1).

        With `conn` the message belongs to the caller's transaction: it is sent if and when that
        transaction commits. Without `conn` and without a `dedup_id` the call is never repeated, so
        a connection that is lost meanwhile raises OutcomeUnknown. Without `conn`, `delay`,
        `deliver_at` and `dedup_id`, calls that are made at the same time are one statement (see the
        setting `batching`).

        Args:
            topic: The topic's name.
            payload: Any object that JSON can hold, or mqpg.Json with text that is sent byte for
                byte. Not None.
            key: Messages with the same key go to the same queue and keep their order. None: any
                queue.
            tag: A word that subscriptions may choose messages by, up to 512 bytes. None: no tag.
            headers: Any object that JSON can hold, delivered beside the payload. None: no headers.
            delay: How long after the commit the message becomes visible: seconds, a timedelta or
                text such as "5 min". None: at once.
            dedup_id: A second message with this id is not stored while the setting `dedup_window`
                (an hour) lasts; the call then returns the first message's id. 1 to 512 bytes. None:
                no deduplication.
            deliver_at: The time at which the message becomes visible, instead of `delay`: a
                datetime with its zone, or text such as "2026-12-01 10:00+01:00". None: as `delay`
                says.
            conn: A psycopg or SQLAlchemy connection, or a Session, whose transaction the call
                joins. None: the call commits at once, on a connection of the client's pool.

        Returns:
            The message id.

        Raises:
            UnknownTopic: There is no such topic.
            InvalidArgument: An argument is out of range, or the payload is not JSON.
            PayloadTooLarge: Payload or headers are larger than the topic allows.
            OutcomeUnknown: The connection was lost, and the message may or may not have been sent.
            ConnectionFailed: No connection could be made. Nothing was sent.
        """
        with producing("send", topic) as span:
            values: dict[str, Any] = {
                "topic": topic,
                "payload": encode(payload),
                "key": key,
                "tag": tag,
                "headers": encode(span.carry(headers), "headers"),
                "delay": interval(delay),
                "dedup_id": dedup_id,
                "deliver_at": moment(deliver_at, "deliver_at"),
            }
            if conn is None and dedup_id is None and delay is None and deliver_at is None:
                size = len(values["payload"] or "")
                message_id = int(await self._batched(_BATCHED_SEND, (topic,), values, size))
            else:
                message_id = int(scalar(await self._rows(_SEND, values, conn, repeat=dedup_id is not None)))
            span.sent(message_id)
            return message_id

    async def send_batch(
        self,
        topic: str,
        payloads: Sequence[Any],
        *,
        keys: Sequence[str | None] | None = None,
        tags: Sequence[str | None] | None = None,
        headers: Sequence[Any] | None = None,
        delay: Interval | None = None,
        dedup_ids: Sequence[str | None] | None = None,
        conn: Caller | None = None,
    ) -> list[int]:
        """Send many messages of one topic, all or none (protocol T1).

        Args:
            topic: The topic's name.
            payloads: The payloads, as in `send`. An empty list sends nothing.
            keys: One key or None for each payload. None: no message has a key.
            tags: One tag or None for each payload. None: no message has a tag.
            headers: One object or None for each payload. None: no message has headers.
            delay: How long after the commit the messages become visible. None: at once.
            dedup_ids: One dedup id or None for each payload, as in `send`. None: no deduplication.
            conn: The caller's transaction, as in `send`. None: the call commits at once.

        Returns:
            The message ids in the order of `payloads`.

        Raises:
            UnknownTopic: There is no such topic.
            InvalidArgument: The lists differ in length, or one element is invalid; nothing was
                sent.
            PayloadTooLarge: A payload, or headers, are larger than the topic allows; nothing was sent.
            OutcomeUnknown: The connection was lost, and the messages may or may not have been sent.
            ConnectionFailed: No connection could be made. Nothing was sent.
        """
        bodies = encode_all(payloads)
        count = len(bodies or ())
        with producing("send", topic, count=count) as span:
            carried = encode_all(span.carry_all(listed(headers, "headers"), count), "headers")
            values = _SEND_BATCH.values(topic, bodies, keys, tags, carried, delay, dedup_ids)
            repeat = dedup_ids is not None and None not in dedup_ids
            return [row[0] for row in await self._rows(_SEND_BATCH, values, conn, repeat=repeat)]

    async def recall(self, message_id: int, *, conn: Caller | None = None) -> bool:
        """Take back a delayed message before it is due.

        Args:
            message_id: The id that `send` returned.
            conn: The caller's transaction, as in `send`. None: the call commits at once.

        Returns:
            True if the message will not be delivered, also when it was recalled before. False
            where it is too late.

        Raises:
            InvalidArgument: The id names no delayed message.
            OutcomeUnknown: The connection was lost. It is safe to call again.
        """
        return bool(scalar(await self._rows(_RECALL, {"message_id": message_id}, conn)))
