"""Makes calls and handlers spans of OpenTelemetry, and measures them, if the program has configured it.

OpenTelemetry is never imported here: a program that configured it has done that. In all others each
of these functions returns a span that does nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from mqpg.tracing.span import Span
from mqpg.values.messages import Message

__all__ = ["add_context", "processing", "producing", "receiving", "settling"]

_spans: ModuleType | None = None
_OFF = Span()


def _configured() -> ModuleType | None:
    """The module that makes spans. None: the program has not configured OpenTelemetry."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    global _spans
    if _spans is None:
        from mqpg.tracing import recorded

        _spans = recorded
    return _spans if _spans.is_configured() else None


def producing(operation: str, topic: str | None = None, *, count: int | None = None, handle: str | None = None) -> Span:
    """The span of a call that sends, prepares or decides.

    `count` is the number of messages of a batch, and `handle` the half message that is decided.
    """
    spans = _configured()
    return _OFF if spans is None else spans.ProducerSpan(operation, topic, count, handle)


def receiving(group: str, topic: str) -> Span:
    """The span of a call of `receive`, which links to the messages' producers."""
    spans = _configured()
    return _OFF if spans is None else spans.ReceiveSpan(group, topic)


def settling(operation: str, topic: str | None = None, *, count: int | None = None) -> Span:
    """The span of a call that acknowledges or returns `count` messages, or what a receipt stands for."""
    spans = _configured()
    return _OFF if spans is None else spans.SettleSpan(operation, topic, count)


def processing(group: str, given: Message | Sequence[Message]) -> Span:
    """The span of a handler's call.

    It is a child of the message's producer. That of a batch links to all producers.
    """
    spans = _configured()
    return _OFF if spans is None else spans.ProcessSpan(group, given)


def add_context(headers: Any) -> Any:
    """The headers of a message that is stored to be sent later, with the current context."""
    spans = _configured()
    return headers if spans is None else spans.add_context(headers)
