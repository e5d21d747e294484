"""Spans of OpenTelemetry, collected in memory by its SDK, and the trace context on its way through the broker."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from sqlalchemy import create_engine

import mqpg
from mqpg import errors, protocols
from tests.support.consuming import drain, sent
from tests.support.waiting import eventually

pytestmark = pytest.mark.shared_database


class Spans:
    """What was exported."""

    def __init__(self, exporter: InMemorySpanExporter, provider: TracerProvider) -> None:
        self._exporter, self.provider = exporter, provider

    def named(self, name: str) -> list[ReadableSpan]:
        """Spans of one name, in the order in which they ended."""
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def text(self) -> str:
        return "".join(span.to_json() for span in self._exporter.get_finished_spans())


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    """OpenTelemetry as a program configures it, for this test alone."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    yield Spans(exporter, provider)
    provider.shutdown()


@pytest.fixture
def topic(mq: mqpg.Client, orders: str) -> str:
    mq.subscribe("billing", orders, retry_delay="10 ms")
    return orders


def consumer(handle: Any = lambda message: None, **options: Any) -> Any:
    return mqpg.consumer("orders", group="billing", **({"effect": "external"} | options))(handle)


def context(span: ReadableSpan) -> trace.SpanContext:
    found = span.get_span_context()
    assert found is not None
    return found


def is_child(span: ReadableSpan, of: ReadableSpan) -> bool:
    return (
        span.parent is not None
        and span.parent.span_id == context(of).span_id
        and (context(span).trace_id == context(of).trace_id)
    )


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_message_and_its_handler_are_one_trace(mq: mqpg.Client, topic: str, spans: Spans) -> None:
    mq.create_topic("mails", queues=1)

    def handle(message: mqpg.Message) -> None:
        assert message.raw == '{"id":7}'
        mq.send("mails", message.payload)

    with trace.get_tracer("shop").start_as_current_span("checkout"):
        message_id = mq.send(topic, {"id": 7}, key="7", headers={"mine": [1]})
    drain(consumer(handle), mq)
    sent, received, processed = spans.one("send orders"), spans.one("receive orders"), spans.one("process orders")
    assert is_child(sent, spans.one("checkout"))
    assert is_child(processed, sent)
    assert is_child(spans.one("send mails"), processed)
    assert linked(received) == [context(sent).span_id]
    assert [span.kind for span in (sent, received, processed)] == [
        SpanKind.PRODUCER,
        SpanKind.CONSUMER,
        SpanKind.CONSUMER,
    ]
    common = {"messaging.system": "mqpg", "messaging.destination.name": "orders"}
    assert attributes(sent) == common | {
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.message.id": str(message_id),
    }
    queue = attributes(received)["messaging.destination.partition.id"]
    assert attributes(received) == common | {
        "messaging.operation.name": "receive",
        "messaging.operation.type": "receive",
        "messaging.consumer.group.name": "billing",
        "messaging.batch.message_count": 1,
        "messaging.destination.partition.id": queue,
    }
    assert attributes(processed) == common | {
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.consumer.group.name": "billing",
        "messaging.message.id": str(message_id),
        "messaging.destination.partition.id": queue,
        "mqpg.attempt": 1,
    }
    assert received.start_time is not None
    assert received.end_time is not None
    assert processed.start_time is not None
    assert received.start_time <= received.end_time <= processed.start_time


def test_headers_get_the_context_and_keep_what_they_had(mq: mqpg.Client, topic: str, spans: Spans) -> None:
    raw = '{"id": 1.50}'
    mq.send(topic, mqpg.Json(raw), headers={"mine": [1]}, key="k")
    mq.send(topic, 2, headers=mqpg.Json('{"mine": 2}'), key="k")
    sent(mq, topic, 3, headers=[3], key="k")
    first, second, third = mq.receive("billing", topic)
    assert first.raw == raw
    assert sorted(first.headers) == ["mine", "traceparent"]
    assert first.headers["mine"] == [1]
    assert (second.headers, third.headers) == ({"mine": 2}, [3])


def test_a_context_of_the_callers_is_kept(mq: mqpg.Client, topic: str, spans: Spans) -> None:
    theirs = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
    mq.send(topic, 1, headers=theirs)
    found: list[Any] = []
    drain(consumer(lambda message: found.append(message.headers)), mq)
    assert found == [theirs]
    assert linked(spans.one("send orders")) == [int("b" * 16, 16)]
    assert context(spans.one("process orders")).trace_id == int("a" * 32, 16)


@pytest.mark.parametrize("local", ["here", "sqlite"])
def test_half_message_and_commit(
    mq: mqpg.Client, topic: str, spans: Spans, tmp_path: Any, local: str, dsn: str
) -> None:
    url = f"sqlite:///{tmp_path / 'shop.db'}" if local == "sqlite" else dsn
    with mqpg.TransactionalProducer(mq, group="shop", ledger=url) as producer:
        producer.create_ledger()
        with trace.get_tracer("shop").start_as_current_span("checkout"), producer.transaction(topic, {"id": 1}) as tx:
            handle = tx.handle
        with pytest.raises(ZeroDivisionError), producer.transaction(topic, {"id": 2}):
            raise ZeroDivisionError
    drain(consumer(), mq)
    prepared, undone = spans.named("prepare orders")
    committed, processed = spans.one("commit"), spans.one("process orders")
    assert is_child(processed, prepared)
    assert is_child(committed, spans.one("checkout"))
    assert {span.kind for span in (prepared, committed)} == {SpanKind.PRODUCER}
    ids = [attributes(span)["messaging.message.id"] for span in (prepared, committed, processed)]
    assert len(set(ids)) == 1
    rolled_back = spans.one("rollback")
    assert attributes(rolled_back)["messaging.message.id"] == attributes(undone)["messaging.message.id"]
    assert handle not in spans.text()


def test_batches_of_halves(mq: mqpg.Client, topic: str, spans: Spans) -> None:
    handles = mq.prepare_batch(topic, [1, 2, 3], "shop")
    mq.commit_batch(handles[:2])
    mq.rollback_batch(handles[2:])
    drain(consumer(), mq)
    assert all(is_child(span, spans.one("prepare orders")) for span in spans.named("process orders"))
    counts = [
        attributes(spans.one(name))["messaging.batch.message_count"]
        for name in ("prepare orders", "commit", "rollback")
    ]
    assert counts == [3, 2, 1]


@pytest.mark.parametrize("how", ["send", "half"])
def test_a_delayed_message(mq: mqpg.Client, topic: str, spans: Spans, how: str) -> None:
    if how == "send":
        mq.send(topic, 1, delay=0.2)
    else:
        mq.commit(mq.prepare(topic, 1, "shop", delay=0.2))
    bill = consumer()
    eventually(lambda: (mq.append(), bill.step(mq))[1] == 1)
    assert is_child(spans.one("process orders"), spans.one("send orders" if how == "send" else "prepare orders"))


@pytest.mark.parametrize("effect", ["external", "here"])
def test_a_retried_message(mq: mqpg.Client, topic: str, spans: Spans, effect: str) -> None:
    def handle(message: mqpg.Message) -> None:
        if message.attempt == 1:
            raise mqpg.Retry("not yet")

    mq.send(topic, 1)
    drain(consumer(handle, **({} if effect == "external" else {"effect": None})), mq)
    failed, *_, done = spans.named("process orders")
    assert is_child(failed, spans.one("send orders"))
    assert is_child(done, spans.one("send orders"))
    assert attributes(done)["mqpg.attempt"] == 2
    assert failed.status.status_code is StatusCode.ERROR
    assert attributes(failed)["error.type"] == "mqpg.handlers.outcomes.Retry"
    assert done.status.status_code is StatusCode.UNSET


def test_a_batch_links_to_its_producers(mq: mqpg.Client, topic: str, spans: Spans) -> None:
    mq.send_batch(topic, [1, 2], keys=["k", "k"], headers=[{"mine": 1}, None])
    mq.send(topic, 3, key="k")
    drain(consumer(lambda messages: None, batch=True), mq)
    both, third = spans.named("send orders")
    processed = spans.one("process orders")
    assert linked(processed) == [context(both).span_id, context(both).span_id, context(third).span_id]
    assert processed.parent is None
    assert attributes(processed)["messaging.batch.message_count"] == 3
    assert attributes(both)["messaging.batch.message_count"] == 2


def test_calls_that_travel_together_have_their_own_contexts(dsn: str, topic: str, spans: Spans) -> None:
    async def run() -> None:
        async with await mqpg.connect_async(dsn) as mq:
            await asyncio.gather(*(mq.send(topic, number) for number in range(20)))

    asyncio.run(run())
    with mqpg.connect(dsn) as mq:
        drain(consumer(), mq)
    sent = {attributes(span)["messaging.message.id"]: span for span in spans.named("send orders")}
    processed = spans.named("process orders")
    assert len(sent) == len(processed) == 20
    assert all(is_child(span, sent[attributes(span)["messaging.message.id"]]) for span in processed)


async def test_async(amq: mqpg.AsyncClient, mq: mqpg.Client, topic: str, spans: Spans) -> None:
    tried: list[int] = []

    async def handle(message: mqpg.Message) -> None:
        await asyncio.sleep(0)
        with trace.get_tracer("shop").start_as_current_span("bill"):
            tried.append(message.attempt)
        if message.attempt == 1:
            raise mqpg.Retry

    bill = consumer(handle, timeout=5)
    with trace.get_tracer("shop").start_as_current_span("checkout"):
        await amq.commit(await amq.prepare(topic, 1, "shop", delay=0.1))
    while len(tried) < 2:
        await amq.append()
        await bill.step(amq)
    prepared = spans.one("prepare orders")
    assert is_child(prepared, spans.one("checkout"))
    first, second = spans.named("process orders")
    assert all(is_child(span, prepared) for span in (first, second))
    assert [is_child(span, of) for span, of in zip(spans.named("bill"), (first, second), strict=True)] == [True, True]
    assert not trace.get_current_span().get_span_context().is_valid


def test_a_handler_in_a_thread_of_its_own(mq: mqpg.Client, topic: str, spans: Spans) -> None:
    def handle(message: mqpg.Message) -> None:
        trace.get_tracer("shop").start_span("bill").end()

    mq.send(topic, 1)
    drain(consumer(handle, timeout=5), mq)
    assert is_child(spans.one("bill"), spans.one("process orders"))


def test_an_outbox_keeps_the_context(mq: mqpg.Client, topic: str, spans: Spans, tmp_path: Any) -> None:
    """The message is stored in the caller's transaction, and another process sends it later."""
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with protocols.OutboxProducer(mq, group="shop", database=engine) as producer:
        producer.create_outbox()
        with trace.get_tracer("shop").start_as_current_span("checkout"), engine.begin() as conn:
            producer.send(topic, 1, conn=conn)
        assert producer.recover(older_than=timedelta(0)) == 1
    engine.dispose()
    drain(consumer(), mq)
    assert is_child(spans.one("process orders"), spans.one("checkout"))
    assert linked(spans.one("send orders")) == [context(spans.one("checkout")).span_id]


def test_a_relay_topic(mq: mqpg.Client, spans: Spans) -> None:
    mq.create_topic("relayed", queues=1, kind="relay")
    mq.create_producer_group("shop")
    mq.commit(mq.prepare("relayed", 1, "shop"))
    drain(mqpg.consumer("relayed", group="g")(lambda message: None), mq)
    assert is_child(spans.one("process relayed"), spans.one("prepare relayed"))


def test_calls_in_a_transaction(mq: mqpg.Client, topic: str, spans: Spans) -> None:
    with mq.transaction() as conn:
        mq.send(topic, 1, conn=conn)
    mq.append()
    with mq.transaction() as conn:
        (message,) = mq.receive("billing", topic, conn=conn)
    assert linked(spans.one("receive orders")) == [context(spans.one("send orders")).span_id]
    assert str(message.receipt) not in spans.text()


def test_a_failed_send_and_an_empty_receive(mq: mqpg.Client, topic: str, spans: Spans) -> None:
    assert not mq.receive("billing", topic)
    assert spans.named("receive orders") == []
    with pytest.raises(mqpg.errors.UnknownTopic):
        mq.send("nowhere", 1)
    with pytest.raises(mqpg.errors.UnknownSubscription):
        mq.receive("nobody", topic)
    with pytest.raises(mqpg.errors.InvalidArgument):
        mq.commit(None)  # type: ignore[arg-type]
    for name in ("send nowhere", "receive orders", "commit"):
        assert spans.one(name).status.status_code is StatusCode.ERROR
    assert attributes(spans.one("send nowhere"))["error.type"] == "mqpg.values.errors.UnknownTopic"


HOSTILE = (
    {"traceparent": ""},
    {"traceparent": 7},
    {"traceparent": ["x"]},
    {"traceparent": None, "baggage": "%%%=\u0001,=;=,"},
    {"traceparent": f"00-{'0' * 32}-{'0' * 16}-01"},
    {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "," * 5000, "baggage": "x=" + "y" * 10000},
    {"traceparent": {"a": "b"}, "tracestate": 1e300},
    "traceparent",
    7,
    ["traceparent"],
)


@pytest.mark.parametrize("batch", [False, True])
def test_any_headers_reach_the_handler(
    mq: mqpg.Client, topic: str, db: psycopg.Connection[Any], spans: Spans, batch: bool
) -> None:
    """Whatever another sender wrote there, also numbers that Python does not decode."""
    texts = [json.dumps(headers) for headers in HOSTILE] + [f'{{"n": {"9" * 5000}, "traceparent": "x"}}']
    for text in texts:
        db.execute("select mqpg.send(%s, '1', headers => %s::jsonb)", (topic, text))
    handled: list[int] = []

    def handle(given: Any) -> None:
        handled.extend(message.message_id for message in (given if batch else [given]))

    drain(consumer(handle, batch=batch), mq)
    assert len(handled) == len(texts)
    for headers in HOSTILE:
        mq.send(topic, 1, headers=headers)


def test_without_a_provider_nothing_changes(mq: mqpg.Client, topic: str) -> None:
    """The API is imported here, but nobody has configured it."""
    sent(mq, topic, 1)
    (message,) = mq.receive("billing", topic)
    assert message.raw_headers is None


def points(reader: InMemoryMetricReader, name: str) -> dict[tuple[Any, Any], HistogramDataPoint | NumberDataPoint]:
    """Return (operation, error) -> point of a metric."""
    data = reader.get_metrics_data()
    found = data.resource_metrics[0].scope_metrics[0].metrics if data is not None else []
    return {
        (attributes["messaging.operation.name"], attributes.get("error.type")): point
        for metric in found
        if metric.name == name
        for point in metric.data.data_points
        if isinstance(point, (HistogramDataPoint, NumberDataPoint))
        and (attributes := point.attributes or {})["messaging.system"] == "mqpg"
    }


def test_the_metrics_of_the_conventions(mq: mqpg.Client, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They need no tracer."""
    reader = InMemoryMetricReader()
    monkeypatch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", MeterProvider([reader]))
    mq.send(topic, 1)
    mq.send_batch(topic, [2, 3])
    handled: list[mqpg.Message] = []

    def handle(message: mqpg.Message) -> None:
        handled.append(message)
        if message.payload == 3 and message.attempt == 1:
            raise ValueError

    drain(consumer(handle), mq)
    with pytest.raises(errors.UnknownTopic):
        mq.send("nothing", 1)
    unknown = "mqpg.values.errors.UnknownTopic"
    sent = points(reader, "messaging.client.sent.messages")
    assert {key: point.value for key, point in sent.items() if isinstance(point, NumberDataPoint)} == {
        ("send", None): 3,
        ("send", unknown): 1,
    }
    (consumed,) = points(reader, "messaging.client.consumed.messages").values()
    assert isinstance(consumed, NumberDataPoint)
    assert consumed.value == len(handled) >= 4
    assert (consumed.attributes or {})["messaging.consumer.group.name"] == "billing"
    processed = points(reader, "messaging.process.duration")
    counts = {key: point.count for key, point in processed.items() if isinstance(point, HistogramDataPoint)}
    assert counts == {("process", None): len(handled) - 1, ("process", "builtins.ValueError"): 1}
    calls = points(reader, "messaging.client.operation.duration")
    assert set(calls) >= {("send", None), ("send", unknown), ("receive", None), ("ack", None), ("nack", None)}
    assert all(isinstance(point, HistogramDataPoint) and 0 < point.sum < 60 for point in calls.values())


def test_acknowledgements_are_spans(mq: mqpg.Client, topic: str, spans: Spans) -> None:
    for payload in (1, 2, 3):
        mq.send(topic, payload, key="one")
    mq.append()
    first, *others = mq.receive("billing", topic)
    mq.ack(first)
    mq.nack(others[0], "later")
    mq.ack_delivery(str(first.receipt))
    acked = spans.one("ack orders")
    assert acked.kind == SpanKind.CLIENT
    assert attributes(acked)["messaging.operation.type"] == "settle"
    assert attributes(acked)["messaging.batch.message_count"] == 1
    assert [attributes(spans.one(name))["messaging.operation.name"] for name in ("nack", "ack")] == ["nack", "ack"]


UNTOUCHED = """
import sys, mqpg
with mqpg.connect({dsn!r}) as mq:
    mq.create_topic("t"); mq.subscribe("g", "t"); mq.send("t", 1); mq.append()
    mqpg.consumer("t", group="g")(lambda message: None).step(mq)
print([name for name in sys.modules if name.startswith(("opentelemetry", "mqpg.tracing.recorded"))])
"""


def test_mqpg_never_imports_opentelemetry_itself(dsn: str) -> None:
    done = subprocess.run([sys.executable, "-c", UNTOUCHED.format(dsn=dsn)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


class _Raising(SpanProcessor):
    """Raises in one of its methods, as no processor of the SDK does."""

    def __init__(self, method: str) -> None:
        self._method = method

    def _raise(self, method: str) -> None:
        if method == self._method:
            raise RuntimeError("the processor is broken")

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self._raise("on_start")

    def on_end(self, span: ReadableSpan) -> None:
        self._raise("on_end")


@pytest.mark.parametrize("method", ["on_start", "on_end"])
def test_a_broken_processor_neither_fails_a_call_nor_a_handler(
    mq: mqpg.Client, topic: str, spans: Spans, method: str
) -> None:
    """A send that was made and raises would be repeated, and its message doubled."""
    spans.provider.add_span_processor(_Raising(method))
    mq.send(topic, 1)
    handled: list[int] = []
    drain(consumer(lambda message: handled.append(message.attempt)), mq)
    assert handled == [1]
    with pytest.raises(errors.UnknownTopic):
        mq.send("nothing", 1)


def test_a_broken_propagator_neither_fails_a_call_nor_a_handler(
    mq: mqpg.Client, topic: str, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(TraceContextTextMapPropagator):
        def extract(self, *given: Any, **named: Any) -> Context:
            raise ValueError("it cannot read this")

        def inject(self, *given: Any, **named: Any) -> None:
            raise ValueError("it cannot write this")

    monkeypatch.setattr(propagate, "_HTTP_TEXT_FORMAT", Broken())
    mq.send(topic, 1)
    mq.send(topic, 2, headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
    handled: list[int] = []
    drain(consumer(lambda message: handled.append(message.payload)), mq)
    assert sorted(handled) == [1, 2]
