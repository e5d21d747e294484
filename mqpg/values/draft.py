"""A message as its producer describes it, before a broker has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mqpg.values.arguments import encode
from mqpg.values.errors import InvalidArgument
from mqpg.values.messages import Interval

__all__ = ["Draft", "drafts_of"]


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
        """Columns of a table that keeps it, as text. Raises InvalidArgument for a payload that is not JSON."""
        payload, delay = encode(self.payload), self.delay
        if payload is None:
            raise InvalidArgument("payload must not be None")
        if isinstance(delay, timedelta):
            delay = delay.total_seconds()
        return {
            "topic": self.topic,
            "payload": payload,
            "message_key": self.key,
            "tag": self.tag,
            "headers": encode(self.headers, "headers"),
            "delay": delay if delay is None or isinstance(delay, str) else f"{delay!r} s",
        }


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
