"""A message as its producer describes it, before a broker has it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mqpg.values.arguments import interval, label_of, stored_json, text_of
from mqpg.values.errors import InvalidArgument, shown
from mqpg.values.messages import Interval

__all__ = ["Draft", "drafts_of"]

_ZERO = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # not behind a backslash that is one itself


@dataclass(frozen=True, slots=True)
class Draft:
    """Topic, payload and options of one message."""

    topic: str
    payload: Any
    key: str | None = None
    tag: str | None = None
    headers: Any = None
    delay: Interval | None = None

    def options(self) -> dict[str, Any]:
        """Keyword arguments of `send` and `prepare`."""
        return {"key": self.key, "tag": self.tag, "headers": self.headers, "delay": self.delay}

    def columns(self) -> dict[str, Any]:
        """Columns of a table that keeps it, as text.

        Raises InvalidArgument for what no broker would take, because the row is sent when nobody can be asked.
        """
        payload, headers = stored_json(self.payload, "payload"), stored_json(self.headers, "headers")
        if payload is None:
            raise InvalidArgument("payload must not be None")
        if headers is not None and _ZERO.search(headers):
            raise InvalidArgument("headers must not have the character U+0000")
        return {
            "topic": text_of(self.topic, "topic"),
            "payload": payload,
            "message_key": label_of(self.key, "key"),
            "tag": label_of(self.tag, "tag"),
            "headers": headers,
            "delay": _delay_text(self.delay),
        }


def _delay_text(delay: Interval | None) -> str | None:
    span = interval(delay, "delay")
    if isinstance(span, timedelta) or (span is not delay and span is not None and span.startswith("-")):
        raise InvalidArgument(f"delay must not be negative, nor longer than the topic's retention: {shown(delay)}")
    return span


def drafts_of(
    topic: str,
    payloads: Sequence[Any],
    keys: Sequence[str | None] | None,
    tags: Sequence[str | None] | None,
    headers: Sequence[Any] | None,
    delay: Interval | None,
) -> list[Draft]:
    """One draft for each message of a batch, whose arrays have one length or are None."""
    nothing: list[None] = [None] * len(payloads)
    rows = zip(payloads, keys or nothing, tags or nothing, headers or nothing, strict=True)
    return [Draft(topic, payload, key, tag, header, delay) for payload, key, tag, header in rows]
