"""A consumer that gets nothing says in its log what somebody has to change, and otherwise nothing."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
import pytest

import mqpg
from mqpg._async.consumer import no_delivery as async_no_delivery
from mqpg._sync.consumer import no_delivery as sync_no_delivery
from tests.support.waiting import eventually

pytestmark = pytest.mark.shared_database

_SHORT = 0.4

Consuming = Callable[..., AbstractContextManager[list[Any]]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for library in ("_sync", "_async"):
        monkeypatch.setattr(f"mqpg.{library}.consumer.no_delivery._PATIENCE", _SHORT)
        monkeypatch.setattr(f"mqpg.{library}.consumer.no_delivery._SHORTEST", 1.1)
    caplog.set_level(logging.WARNING, "mqpg")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each look of a consumer found, in the order of the looks."""
    made: list[Any] = []
    look, look_async = sync_no_delivery.NoDelivery._lasting, async_no_delivery.NoDelivery._lasting

    def noting(self: Any, *given: Any) -> Any:
        made.append(found := look(self, *given))
        return found

    async def noting_async(self: Any, *given: Any) -> Any:
        made.append(found := await look_async(self, *given))
        return found

    monkeypatch.setattr(sync_no_delivery.NoDelivery, "_lasting", noting)
    monkeypatch.setattr(async_no_delivery.NoDelivery, "_lasting", noting_async)
    return made


@pytest.fixture
def consuming(dsn: str) -> Consuming:
    """Run a consumer of the group `billing` meanwhile; gives the payloads that it has handled."""

    def run(handled: list[Any], stop: threading.Event, **options: Any) -> None:
        @mqpg.consumer("orders", group="billing", effect="external", **options)
        def bill(message: mqpg.Message) -> None:
            handled.append(message.payload)

        with mqpg.connect(dsn) as mq:
            bill.run(mq, stop)

    return in_thread(run)


@pytest.fixture
def consuming_async(dsn: str) -> Consuming:
    """The same with the asynchronous library."""

    async def main(handled: list[Any], stop: threading.Event, **options: Any) -> None:
        @mqpg.consumer("orders", group="billing", effect="external", **options)
        async def bill(message: mqpg.Message) -> None:
            handled.append(message.payload)

        async with await mqpg.connect_async(dsn) as amq:
            ended = asyncio.Event()
            running = asyncio.create_task(bill.run(amq, ended))
            await asyncio.to_thread(stop.wait)
            ended.set()
            await running

    return in_thread(lambda *given, **options: asyncio.run(main(*given, **options)))


def in_thread(run: Callable[..., None]) -> Consuming:
    @contextmanager
    def consuming(**options: Any) -> Iterator[list[Any]]:
        handled: list[Any] = []
        stop = threading.Event()
        thread = threading.Thread(target=run, args=(handled, stop), kwargs=options)
        thread.start()
        try:
            yield handled
        finally:
            stop.set()
            thread.join(30)

    return consuming


@pytest.fixture(params=["consuming", "consuming_async"])
def each_consuming(request: pytest.FixtureRequest) -> Consuming:
    made: Consuming = request.getfixturevalue(request.param)
    return made


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "nothing is delivered" in one.getMessage()]


def send(mq: mqpg.Client, payload: object) -> None:
    mq.send("orders", payload)
    mq.append()


@pytest.mark.parametrize(("library", "paused"), [("consuming", "topic_paused"), ("consuming_async", "group_paused")])
def test_a_pause(
    library: str,
    paused: str,
    mq: mqpg.Client,
    billing: str,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    consuming: Consuming = request.getfixturevalue(library)
    group = billing if paused == "group_paused" else None
    mq.pause("orders", group)
    send(mq, 1)
    command = "mqpg subscription resume billing orders" if group else "mqpg topic resume orders"
    with consuming() as handled:
        (line,) = eventually(lambda: lines(caplog))
        assert line == f"billing/orders: nothing is delivered ({paused}): run {command}"
        mq.resume("orders", group)
        eventually(lambda: handled)
    assert lines(caplog) == [line]


def test_a_filter_that_chooses_nothing(
    mq: mqpg.Client, each_consuming: Consuming, caplog: pytest.LogCaptureFixture
) -> None:
    mq.create_topic("orders", queues=1)
    mq.subscribe("billing", "orders", filter="$.totl > 100")
    with each_consuming() as handled:
        (line,) = eventually(lambda: send(mq, {"total": 200}) or lines(caplog), interval=0.1)
        assert line.startswith("billing/orders: nothing is delivered (filter_chooses_nothing): ")
        assert "mqpg subscription alter billing orders --filter FILTER" in line
        assert "The newest one has total" in line
        mq.alter_subscription("billing", "orders", filter="$.total > 100")
        send(mq, {"total": 300})
        eventually(lambda: handled)


def test_no_appender(mq: mqpg.Client, billing: str, consuming: Consuming, caplog: pytest.LogCaptureFixture) -> None:
    mq.send("orders", 1)
    with consuming():
        (line,) = eventually(lambda: lines(caplog))
    assert line == "billing/orders: nothing is delivered (appender_not_running): start mqpg worker"


def test_another_consumer_at_work_is_no_trouble(
    mq: mqpg.Client,
    billing: str,
    db: psycopg.Connection[Any],
    consuming: Consuming,
    caplog: pytest.LogCaptureFixture,
    looks: list[Any],
) -> None:
    """A handler may take long in its transaction. Nobody should be told to end its session."""
    send(mq, 1)
    with db.transaction():
        db.execute("select mqpg.receive('billing', 'orders')")
        with consuming():
            eventually(lambda: len(looks) >= 2)
    assert lines(caplog) == []


def test_the_same_is_logged_again_only_after_a_while(
    mq: mqpg.Client,
    billing: str,
    consuming: Consuming,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mqpg._sync.consumer.no_delivery._LONGEST", 1.5)
    mq.pause("orders")
    send(mq, 1)
    with consuming():
        eventually(lambda: len(lines(caplog)) == 2)
    first, second = (one.created for one in caplog.records if "nothing is delivered" in one.getMessage())
    assert second - first > 1


def test_a_quiet_topic(
    mq: mqpg.Client, billing: str, each_consuming: Consuming, caplog: pytest.LogCaptureFixture, looks: list[Any]
) -> None:
    """Paused or not: it is nobody's trouble before there are messages."""
    with each_consuming() as handled:
        send(mq, 1)
        eventually(lambda: handled)
        mq.pause("orders")
        looks.clear()
        eventually(lambda: looks)
        assert lines(caplog) == []
        send(mq, 2)
        assert "(topic_paused)" in eventually(lambda: lines(caplog))[0]


def test_what_ends_by_itself(
    mq: mqpg.Client, consuming: Consuming, caplog: pytest.LogCaptureFixture, looks: list[Any]
) -> None:
    """A failed message that blocks its queue is delivered again, and another consumer's lease ends."""
    mq.create_topic("orders", queues=2)
    mq.subscribe("billing", "orders", on_failure="block_queue")
    for key in map(str, range(10)):
        mq.send("orders", 1, key=key)
    mq.append()
    mq.nack(mq.receive("billing", "orders")[0], "does not fit", delay=600)
    assert mq.receive("billing", "orders", lease=600)
    with consuming() as handled:
        eventually(lambda: len(looks) >= 2)
    assert (handled, lines(caplog)) == ([], [])


def test_whoever_calls_append_is_an_appender(
    mq: mqpg.Client, billing: str, consuming: Consuming, caplog: pytest.LogCaptureFixture, looks: list[Any]
) -> None:
    """No worker reports, and at every moment some message waits to be appended."""
    mq.create_topic("busy", queues=1)
    with consuming():

        def work() -> bool:
            mq.append()
            mq.send("busy", 1)
            return len(looks) >= 2

        eventually(work, interval=0.02)
    assert lines(caplog) == []
