"""Headers of requests and replies."""

from __future__ import annotations

from mqpg.message import Message

__all__ = ["CORRELATION_ID", "REPLY_TO", "correlation_id", "is_request", "reply_topic"]

REPLY_TO = "mqpg-reply-to"
CORRELATION_ID = "mqpg-correlation-id"


def is_request(message: Message) -> bool:
    """Whether somebody waits for a reply to it."""
    return reply_topic(message) is not None and correlation_id(message) is not None


def reply_topic(message: Message) -> str | None:
    """Where replies to it go."""
    return _text(message, REPLY_TO)


def correlation_id(message: Message) -> str | None:
    """What ties a reply to its request."""
    return _text(message, CORRELATION_ID)


def _text(message: Message, name: str) -> str | None:
    value = message.headers.get(name) if isinstance(message.headers, dict) else None
    return value if isinstance(value, str) else None
