# Generated from mqpg/_async/produce.py by tools/async_to_sync.py: change that file.
"""Sending: plain, delayed, deduplicated, in batches (protocol T1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from mqpg._sql import function
from mqpg._sync.caller import Caller
from mqpg._sync.core import Core
from mqpg.errors import InvalidArgument
from mqpg.message import Interval, encode, encode_all, interval

__all__ = ["Producing"]

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


class Producing(Core):
    """Calls of a producer."""

    def send(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        tag: str | None = None,
        headers: Any = None,
        delay: Interval | None = None,
        dedup_id: str | None = None,
        deliver_at: datetime | None = None,
        conn: Caller | None = None,
    ) -> int:
        """Send one message, its payload any object that JSON can hold; returns the message id.

        With `conn` it belongs to the caller's transaction: sent if and when that commits (T1). Without,
        and without a dedup_id, it is never repeated: a connection lost meanwhile raises OutcomeUnknown.
        Raises UnknownTopic, InvalidArgument, PayloadTooLarge, ConnectionFailed.
        """
        values = {
            "topic": topic,
            "payload": encode(payload),
            "key": key,
            "tag": tag,
            "headers": encode(headers),
            "delay": interval(delay),
            "dedup_id": dedup_id,
            "deliver_at": deliver_at,
        }
        return int(self._value(_SEND, values, conn, repeat=dedup_id is not None))

    def send_batch(
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
        """Send many messages at once, all or none; returns their ids in argument order. See `send`."""
        values = {
            "topic": topic,
            "payloads": encode_all(payloads),
            "keys": listed(keys, "keys"),
            "tags": listed(tags, "tags"),
            "headers": encode_all(headers),
            "delay": interval(delay),
            "dedup_ids": listed(dedup_ids, "dedup_ids"),
        }
        repeat = dedup_ids is not None and None not in dedup_ids
        return [row[0] for row in self._rows(_SEND_BATCH, values, conn, repeat=repeat)]

    def recall(self, message_id: int, *, conn: Caller | None = None) -> bool:
        """Take back a delayed message; False when it is too late. Raises InvalidArgument for an unknown id."""
        return bool(self._value(_RECALL, {"message_id": message_id}, conn))


def listed(values: Sequence[Any] | None, name: str) -> list[Any] | None:
    """Of an argument called `name`. Raises InvalidArgument."""
    if values is None:
        return None
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidArgument(f"{name} must be a list, not {values!r}")
    return list(values)
