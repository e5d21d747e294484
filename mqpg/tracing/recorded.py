"""Spans and metrics of OpenTelemetry, after its semantic conventions for messaging systems.

The context of a producer travels in the headers of its message, in the fields of the propagator
that the program has configured: `traceparent` and `tracestate` by default. The payload never
changes. Only `mqpg.tracing` imports this module, once the program has imported OpenTelemetry.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextvars import Token
from functools import lru_cache
from types import TracebackType
from typing import Any, ClassVar

from opentelemetry import context as contexts
from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from mqpg.tracing.span import Span
from mqpg.values.errors import Undecodable
from mqpg.values.messages import Json, Message, decode

__all__ = ["ProcessSpan", "ProducerSpan", "ReceiveSpan", "SettleSpan", "add_context", "is_configured"]

logger = logging.getLogger("mqpg")

_MOST_LINKS = 128  # that the SDK keeps by default

_Attributes = dict[str, AttributeValue]


_SCHEMA = "https://opentelemetry.io/schemas/1.28.0"
# The attributes of metrics: those that have few values.
_MEASURED = (
    "messaging.system",
    "messaging.operation.name",
    "messaging.operation.type",
    "messaging.destination.name",
    "messaging.consumer.group.name",
)
_BOUNDARIES = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


def is_configured() -> bool:
    """Whether the program has set a tracer provider or a meter provider."""
    return (
        not isinstance(trace.get_tracer_provider(), (trace.ProxyTracerProvider, trace.NoOpTracerProvider))
        or _meter_provider() is not None
    )


def _meter_provider() -> metrics.MeterProvider | None:
    """The program's. None: it has set none, so there is the API's own."""
    found = metrics.get_meter_provider()
    return None if type(found).__module__.startswith("opentelemetry.metrics") else found


class _Instruments:
    """The metrics of the conventions, each with its unit."""

    def __init__(self, provider: metrics.MeterProvider) -> None:
        meter = provider.get_meter("mqpg", schema_url=_SCHEMA)
        self.durations = {
            name: meter.create_histogram(name, "s", about, explicit_bucket_boundaries_advisory=_BOUNDARIES)
            for name, about in {
                "messaging.client.operation.duration": "Duration of a call",
                "messaging.process.duration": "Duration of a handler's call",
            }.items()
        }
        self.counters = {
            name: meter.create_counter(name, "{message}", about)
            for name, about in {
                "messaging.client.sent.messages": "Messages that a producer attempted to send",
                "messaging.client.consumed.messages": "Messages that were delivered",
            }.items()
        }


_instruments = lru_cache(maxsize=1)(_Instruments)


def add_context(headers: Any) -> Any:
    """The headers with the current context.

    They stay as they are if they have a context already, or are no object that fields can be
    added to.
    """
    if headers is not None and (not isinstance(headers, Mapping) or _carried(headers)):
        return headers
    fields: dict[str, str] = {}
    try:
        propagate.inject(fields)
    except Exception:
        _log_failure("write the context")
        return headers
    return {**(headers or {}), **fields} if fields else headers


class _Recorded(Span):
    """What all spans do: they become the current one, and an error ends them as failed."""

    __slots__ = ("_attributes", "_began", "_span", "_token")

    _duration: ClassVar[str] = "messaging.client.operation.duration"
    _attributes: _Attributes
    _began: float
    _span: trace.Span | None
    _token: Token[Context] | None

    def _begin(self, span: trace.Span, attributes: _Attributes, context: Context | None = None) -> None:
        self._span, self._attributes, self._began = span, attributes, time.monotonic()
        self._token = contexts.attach(trace.set_span_in_context(span, context))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            contexts.detach(self._token)
        if self._span is None:
            return
        try:
            if isinstance(error, Exception):
                self._span.record_exception(error)
                self._span.set_status(Status(StatusCode.ERROR, str(error)))
                self._span.set_attribute("error.type", _error_type(error))
            self._span.end()
            self._measure(error)
        except Exception:
            # The call is made. A caller that saw it fail would make it again.
            _log_failure("end a span")

    def _measure(self, error: BaseException | None) -> None:
        provider = _meter_provider()
        if provider is None:
            return
        found = {name: self._attributes[name] for name in _MEASURED if name in self._attributes}
        if isinstance(error, Exception):
            found["error.type"] = _error_type(error)
        instruments = _instruments(provider)
        instruments.durations[self._duration].record(time.monotonic() - self._began, found)
        counter = self._counter()
        if counter is not None:
            count = self._attributes.get("messaging.batch.message_count", 1)
            assert isinstance(count, int)
            instruments.counters[counter].add(count, found)

    def _counter(self) -> str | None:
        """The metric that counts the messages. None: the call neither sends nor receives any."""
        return None


class ProducerSpan(_Recorded):
    """A call that sends, prepares or decides."""

    __slots__ = ("_count", "_handle", "_operation", "_topic")

    def __init__(self, operation: str, topic: str | None, count: int | None, handle: str | None) -> None:
        self._operation, self._topic, self._count, self._handle = operation, topic, count, handle

    def __enter__(self) -> Span:
        attributes = _attributes(self._operation, "send", self._topic, self._count)
        self._begin(_start(self._operation, self._topic, SpanKind.PRODUCER, attributes), attributes)
        if isinstance(self._handle, str):
            self.prepared(self._handle)
        return self

    def carry(self, headers: Any) -> Any:
        known = _context_of(headers)
        if known is not None:
            # It was stored before, as by an outbox, or the caller added it.
            assert self._span is not None
            try:
                self._span.add_link(known)
            except Exception:
                _log_failure("add a link")
            return headers
        return add_context(headers)

    def carry_all(self, headers: Sequence[Any] | None, count: int) -> Sequence[Any] | None:
        return [self.carry(one) for one in ([None] * count if headers is None else headers)]

    def _counter(self) -> str | None:
        return None if self._topic is None else "messaging.client.sent.messages"  # a decision has no topic

    def sent(self, message_id: int) -> None:
        assert self._span is not None
        try:
            self._span.set_attribute("messaging.message.id", str(message_id))
        except Exception:
            # The message is sent. A caller that saw the call fail would send it again.
            _log_failure("add an attribute")

    def prepared(self, handle: str) -> None:
        message_id = handle.split(".")[-2:-1]
        if message_id and message_id[0].isdecimal():
            self.sent(int(message_id[0]))


class SettleSpan(_Recorded):
    """A call that acknowledges messages or gives them back."""

    __slots__ = ("_count", "_operation", "_topic")

    def __init__(self, operation: str, topic: str | None, count: int | None) -> None:
        self._operation, self._topic, self._count = operation, topic, count

    def __enter__(self) -> Span:
        attributes = _attributes(self._operation, "settle", self._topic, self._count)
        self._begin(_start(self._operation, self._topic, SpanKind.CLIENT, attributes), attributes)
        return self


class ReceiveSpan(_Recorded):
    """A call of `receive`. It has a span only if messages came, or an error."""

    __slots__ = ("_group", "_since", "_topic")

    def __init__(self, group: str, topic: str) -> None:
        self._group, self._topic = group, topic
        self._span = self._token = None

    def __enter__(self) -> Span:
        self._since, self._began = time.time_ns(), time.monotonic()
        return self

    def received(self, messages: Sequence[Message]) -> None:
        if messages:
            self._start(messages)

    def _counter(self) -> str | None:
        return "messaging.client.consumed.messages"

    def _start(self, messages: Sequence[Message]) -> None:
        attributes = _attributes("receive", "receive", self._topic, len(messages), self._group)
        if messages:
            attributes["messaging.destination.partition.id"] = str(messages[0].queue_id)
        self._attributes = attributes
        self._span = _start(
            "receive", self._topic, SpanKind.CONSUMER, attributes, links=_links(messages), since=self._since
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and self._span is None:
            self._start(())
        super().__exit__(kind, error, traceback)


class ProcessSpan(_Recorded):
    """A handler's call, for one message or a batch."""

    __slots__ = ("_given", "_group")

    _duration = "messaging.process.duration"

    def __init__(self, group: str, given: Message | Sequence[Message]) -> None:
        self._group, self._given = group, given

    def __enter__(self) -> Span:
        given = self._given
        if not isinstance(given, Message):
            attributes = _attributes("process", "process", given[0].topic, len(given), self._group)
            self._begin(
                _start("process", given[0].topic, SpanKind.CONSUMER, attributes, links=_links(given)), attributes
            )
            return self
        attributes = _attributes("process", "process", given.topic, None, self._group)
        attributes["messaging.message.id"] = str(given.message_id)
        attributes["messaging.destination.partition.id"] = str(given.queue_id)
        attributes["mqpg.attempt"] = given.attempt
        context = _extract(_headers_of(given))
        self._begin(_start("process", given.topic, SpanKind.CONSUMER, attributes, context=context), attributes, context)
        return self


def _start(
    operation: str,
    topic: str | None,
    kind: SpanKind,
    attributes: _Attributes,
    *,
    context: Context | None = None,
    links: Sequence[trace.Link] = (),
    since: int | None = None,
) -> trace.Span:
    # Asked for each time, because programs set their provider after they imported mqpg.
    tracer = trace.get_tracer("mqpg", schema_url=_SCHEMA)
    name = operation if topic is None else f"{operation} {topic}"
    try:
        return tracer.start_span(name, context, kind, attributes, links, since)
    except Exception:
        _log_failure("start a span")
        return trace.INVALID_SPAN


def _error_type(error: Exception) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _log_failure(what: str) -> None:
    """Note that a part of OpenTelemetry which the program has configured is broken."""
    logger.warning("tracing cannot %s", what, exc_info=True)


def _attributes(name: str, kind: str, topic: str | None, count: int | None, group: str | None = None) -> _Attributes:
    found: _Attributes = {
        "messaging.system": "mqpg",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }
    if topic is not None:
        found["messaging.destination.name"] = str(topic)
    if count is not None:
        found["messaging.batch.message_count"] = count
    if group is not None:
        found["messaging.consumer.group.name"] = str(group)
    return found


def _links(messages: Iterable[Message]) -> list[trace.Link]:
    """A link to the producer of each message that has a context, to the first ones of many."""
    found: list[trace.Link] = []
    for message in messages:
        context = _context_of(_headers_of(message))
        if context is not None:
            found.append(trace.Link(context, {"messaging.message.id": str(message.message_id)}))
            if len(found) == _MOST_LINKS:
                break
    return found


def _headers_of(message: Message) -> Any:
    try:
        return message.headers
    except Undecodable:
        return None


def _context_of(headers: Any) -> trace.SpanContext | None:
    """The span that these headers name."""
    try:
        known = decode(headers.raw, "headers") if isinstance(headers, Json) else headers
    except Undecodable:
        return None
    if not isinstance(known, Mapping) or not _carried(known):
        return None
    found = trace.get_current_span(_extract(known, Context())).get_span_context()
    return found if found.is_valid else None


def _carried(headers: Mapping[Any, Any]) -> bool:
    """Whether the headers have a field of the propagator."""
    return any(name in headers for name in propagate.get_global_textmap().fields)


def _extract(headers: Any, context: Context | None = None) -> Context:
    """The context of the headers, in the given or the current one."""
    known = headers if isinstance(headers, Mapping) else {}
    fields = {name: value for name, value in known.items() if isinstance(value, str)}
    try:
        return propagate.extract(fields, context)
    except Exception:
        _log_failure("read the context of a message")
        return contexts.get_current() if context is None else context
