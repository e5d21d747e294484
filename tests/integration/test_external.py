"""Consumers with effects anywhere (C3) have leases, acknowledge after the effect, and are fenced."""

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import mqpg
from mqpg import errors
from tests.fixtures.databases import OwnServer
from tests.support.consuming import drain, ids_of, is_acknowledged, running, send, sent_batch
from tests.support.waiting import eventually

pytestmark = pytest.mark.shared_database


@pytest.fixture
def topic(mq: mqpg.Client) -> str:
    mq.create_topic("orders", queues=1)
    mq.subscribe("g", "orders", retry_delay="10 ms", max_attempts=3)
    return "orders"


def claims(db: psycopg.Connection[Any]) -> int:
    row = db.execute("select sum(claims) from mqpg.subscription_lag where queue_id >= 0").fetchone()
    return int(row[0]) if row else -1


@pytest.mark.parametrize(("ack", "before"), [("each", [0, 1, 2]), ("delivery", [0, 0, 0])])
def test_the_acknowledgement_comes_after_the_effect(
    mq: mqpg.Client, topic: str, db: psycopg.Connection[Any], ack: Any, before: list[int]
) -> None:
    """Of each message, or once a delivery."""
    committed = []

    @mqpg.consumer(topic, group="g", effect="external", ack=ack)
    def mail(message: mqpg.Message) -> None:
        row = db.execute("select committed from mqpg.subscription_lag where queue_id = 0").fetchone()
        committed.append(row and row[0])

    send(mq, range(3))
    assert mail.step(mq) == 3
    assert committed == before
    assert mail.step(mq) == 0
    assert claims(db) == 0


def test_a_failure_goes_to_retry_with_its_delay_and_then_to_the_dead_letters(mq: mqpg.Client, topic: str) -> None:
    seen: list[tuple[int, int]] = []

    @mqpg.consumer(topic, group="g", effect="external")
    def mail(message: mqpg.Message) -> None:
        seen.append((message.payload["id"], message.attempt))
        if message.payload["id"] == 1:
            raise mqpg.Retry("the server is busy", delay=timedelta(milliseconds=20))
        if message.payload["id"] == 2:
            raise mqpg.Reject("no such address")

    send(mq, range(4))
    drain(mail, mq)
    assert seen == [(0, 1), (1, 1), (2, 1), (3, 1), (1, 2), (1, 3)]
    dead = {letter.payload["id"]: (letter.attempts, letter.reason) for letter in mq.dead_letters("g", topic)}
    assert dead == {1: (3, "the server is busy"), 2: (1, "no such address")}


def test_a_batch_fails_as_a_whole(mq: mqpg.Client, topic: str) -> None:
    calls: list[list[int]] = []

    @mqpg.consumer(topic, group="g", effect="external", batch=True)
    def mail(messages: list[mqpg.Message]) -> None:
        calls.append(ids_of(messages))
        if len(calls) == 1:
            raise ValueError("once")

    send(mq, range(3))
    drain(mail, mq)
    assert calls[0] == [0, 1, 2]
    assert sorted(number for call in calls[1:] for number in call) == [0, 1, 2]


def test_at_most_once(mq: mqpg.Client, topic: str, db: psycopg.Connection[Any]) -> None:
    """With QoS 0 a message is acknowledged before the handler is called, whatever the handler does."""
    seen = []

    @mqpg.consumer(topic, group="g", effect="external", ack="receive")
    def count(message: mqpg.Message) -> None:
        assert claims(db) == 0
        seen.append(message.payload["id"])
        raise ValueError("lost")

    send(mq, range(3))
    drain(count, mq)
    assert seen == [0, 1, 2]
    assert mq.dead_letters("g", topic) == []


def test_the_lease_is_extended_while_the_handler_works(mq: mqpg.Client, topic: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @mqpg.consumer(topic, group="g", effect="external", lease=4)
    def slow(message: mqpg.Message) -> None:
        begun.set()
        go_on.wait(45)

    send(mq, [1])
    with running(slow, mq):
        assert begun.wait(45)
        time.sleep(5)
        assert mq.receive("g", topic) == []
        go_on.set()
        eventually(lambda: is_acknowledged(mq, "g"))
    assert mq.receive("g", topic) == []


def test_a_lost_claim_ends_the_delivery(mq: mqpg.Client, topic: str, db: psycopg.Connection[Any]) -> None:
    """A consumer that lost its claim must not continue with messages that another consumer has now."""
    handled = []

    @mqpg.consumer(topic, group="g", effect="external")
    def mail(message: mqpg.Message) -> None:
        handled.append(message.payload["id"])
        if message.payload["id"] == 1:
            mq.seek("g", topic, "earliest")

    send(mq, range(4))
    assert mail.step(mq) == 4
    assert handled == [0, 1]


@pytest.mark.chaos
def test_a_restart_of_the_server_costs_no_claim(own_server: OwnServer) -> None:
    """The heartbeat continues through the restart, and the ack arrives after it."""
    with mqpg.connect(own_server.dsn, retry_timeout=15) as mq:
        mq.create_topic("orders", queues=1)
        begun, go_on, attempts = threading.Event(), threading.Event(), []

        @mqpg.consumer("orders", group="g", effect="external", lease=8)
        def slow(message: mqpg.Message) -> None:
            attempts.append(message.attempt)
            begun.set()
            go_on.wait(60)

        assert slow.step(mq) == 0
        send(mq, [1])
        with running(slow, mq):
            assert begun.wait(45)
            own_server.crash()
            time.sleep(9)
            assert mq.receive("g", "orders") == []
            go_on.set()
            eventually(lambda: is_acknowledged(mq, "g"))
        assert attempts == [1]


def test_stop_gives_back_what_was_not_begun(mq: mqpg.Client, topic: str) -> None:
    handled: list[int] = []
    begun, go_on = threading.Event(), threading.Event()

    @mqpg.consumer(topic, group="g", effect="external")
    def mail(message: mqpg.Message) -> None:
        begun.set()
        go_on.wait(45)
        handled.append(message.payload["id"])

    send(mq, range(5))
    with running(mail, mq) as stop:
        assert begun.wait(45)
        stop.set()
        go_on.set()
    assert handled == [0]
    rest = mq.receive("g", topic)
    assert (ids_of(rest), {message.attempt for message in rest}) == ([1, 2, 3, 4], {1})


def test_many_at_once_in_mode_shared(mq: mqpg.Client) -> None:
    """Eight workers read one queue.

    As many claims are in flight, and no message takes effect twice.
    """
    mq.create_topic("orders", queues=1)
    together, seen = threading.Barrier(8), []

    @mqpg.consumer("orders", group="g", mode="shared", effect="external", max_messages=1, concurrency=8)
    def slow(message: mqpg.Message) -> None:
        if message.payload["id"] < 8:
            together.wait(45)
        seen.append(message.payload["id"])

    assert slow.step(mq) == 0
    send(mq, range(24), key=None)
    with running(slow, mq):
        eventually(lambda: len(seen) >= 24)
    assert sorted(seen) == list(range(24))


def test_exclusive_workers_keep_the_order_of_a_key(mq: mqpg.Client) -> None:
    mq.create_topic("orders", queues=4)
    seen: dict[str, list[int]] = {}

    @mqpg.consumer("orders", group="g", effect="external", max_messages=3, concurrency=4)
    def note(message: mqpg.Message) -> None:
        seen.setdefault(str(message.key), []).append(message.payload["id"])

    assert note.step(mq) == 0
    sent_batch(mq, "orders", [{"id": n} for n in range(60)], keys=[f"k{n % 6}" for n in range(60)])
    with running(note, mq):
        eventually(lambda: sum(map(len, seen.values())) >= 60)
    assert all(numbers == sorted(set(numbers)) for numbers in seen.values())


@pytest.mark.parametrize(
    ("on_failure", "seen"), [("skip", [0, 1, 2, 3, 4]), ("block_key", [0, 1, 3]), ("block_queue", [0, 1])]
)
@pytest.mark.parametrize("ack", ["each", "delivery"])
def test_what_must_not_overtake_a_failed_message_waits(
    mq: mqpg.Client, on_failure: Any, seen: list[int], ack: Any
) -> None:
    mq.create_topic("orders", queues=1)
    handled: list[int] = []

    @mqpg.consumer("orders", group="g", effect="external", ack=ack, on_failure=on_failure, retry_delay="200 ms")
    def note(message: mqpg.Message) -> None:
        handled.append(message.payload["id"])
        if message.payload["id"] == 1 and message.attempt == 1:
            raise ValueError("later")

    assert note.step(mq) == 0
    keys = ["a", "b", "b", "c", "b"]
    sent_batch(mq, "orders", [{"id": n} for n in range(5)], keys=keys)
    assert note.step(mq) == 5
    assert handled == seen
    eventually(lambda: (mq.append(), note.step(mq), len(handled) >= 6)[2])
    drain(note, mq)
    assert sorted(handled) == [0, 1, 1, 2, 3, 4]
    of_b = [number for number in handled if keys[number] == "b"]
    assert of_b == ([1, 2, 4, 1] if on_failure == "skip" else [1, 1, 2, 4])


async def test_asynchronous(amq: mqpg.AsyncClient) -> None:
    import asyncio

    await amq.create_topic("orders", queues=1)
    together, seen = asyncio.Barrier(4), []

    @mqpg.consumer("orders", group="g", mode="shared", effect="external", max_messages=1, concurrency=4, lease=4)
    async def slow(message: mqpg.Message) -> None:
        async with asyncio.timeout(45):
            await together.wait()
        await asyncio.sleep(5)
        seen.append((message.payload, message.attempt))

    assert isinstance(slow, mqpg.AsyncConsumer)
    assert await slow.step(amq) == 0
    await amq.send_batch("orders", list(range(4)))
    await amq.append()
    stop = asyncio.Event()
    run = asyncio.create_task(slow.run(amq, stop))
    async with asyncio.timeout(60):
        while len(seen) < 4:
            await asyncio.sleep(0.02)
    stop.set()
    await run
    assert sorted(seen) == [(n, 1) for n in range(4)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"effect": "elsewhere"}, "effect must be one of 'broker', 'database', 'external'"),
        ({"effect": "external", "database": "sqlite://"}, "do not go together"),
        ({"effect": "database"}, "do not go together"),
        ({"ack": "receive"}, "needs effect='external', not 'broker'"),
        ({"ack": "never"}, "ack must be one of"),
        ({"effect": "external", "journal": True}, "need a transaction"),
        ({"effect": "external", "session": True}, "need a transaction"),
        ({"mode": "queue"}, "mode must be one of"),
        ({"mode": "exclusive", "database": "sqlite://"}, "mode must be 'pinned' where database is given"),
        ({"on_failure": "retry"}, "on_failure must be one of 'skip', 'block_key', 'block_queue', not 'retry'"),
        ({"on_failure": None}, "on_failure must be one of"),
        ({"concurrency": 0}, "concurrency must be a whole number, 1 or more, not 0"),
        ({"concurrency": "2"}, "concurrency must be a whole number, 1 or more, not '2'"),
        ({"timeout": 0}, "timeout must be a number of seconds or a timedelta, more than 0, not 0"),
        ({"timeout": "abc"}, "timeout must be a number of seconds or a timedelta, more than 0, not 'abc'"),
        ({"timeout": timedelta(seconds=-1)}, "timeout must be"),
        ({"retry_delay": []}, "retry_delay must be a timedelta, a number of seconds, or text"),
        ({"lease": object()}, "lease must be a timedelta, a number of seconds, or text such as '30 s', not"),
        ({"max_messages": 10001}, "max_messages must be a whole number from 1 to 10000, not 10001"),
        ({"max_attempts": 1.5}, "max_attempts must be a whole number from 1 to 10000, not 1.5"),
        ({"queues": 3}, "queues must be a list, not 3"),
        ({"queues": [0, "1"]}, r"queues\[1\] must be a whole number, -1 or more, not '1'"),
        ({"tags": "urgent"}, "tags must be a list, not 'urgent'"),
        ({"tags": [1]}, r"tags\[0\] must be text, not 1"),
        ({"consumer": 7}, "consumer must be text, not 7"),
        ({"filter": 7}, "filter must be text, not 7"),
        ({"middleware": 7}, "middleware must be a list, not 7"),
        ({"middleware": [7]}, r"middleware\[0\] must be callable, not 7"),
        ({"start": "2026-12-01"}, "start must be 'earliest', 'latest' or a time with its offset from UTC"),
    ],
)
def test_wrong_options_are_refused_where_they_are_written(options: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=said):
        mqpg.consumer("orders", group="g", **options)


def test_names_that_are_no_text() -> None:
    with pytest.raises(errors.ConfigurationError, match="topic must be text, not 7"):
        mqpg.consumer(7, group="g")  # type: ignore[arg-type]
    with pytest.raises(errors.ConfigurationError, match="group must be text, not None"):
        mqpg.consumer("orders", group=None)  # type: ignore[arg-type]


def test_a_handler_that_cannot_be_called() -> None:
    with pytest.raises(errors.ConfigurationError, match="must take the message alone"):
        mqpg.consumer("orders", group="g", effect="external")(lambda message, conn: None)
    with pytest.raises(errors.ConfigurationError, match="must take a message"):
        mqpg.consumer("orders", group="g")(lambda: None)


def test_a_missing_subscription_is_refused_where_none_may_be_made(mq: mqpg.Client) -> None:
    mq.create_topic("orders")
    consumer = mqpg.consumer("orders", group="g", effect="external", subscribe=False)(lambda message: None)
    with pytest.raises(errors.UnknownSubscription, match="mqpg subscription add g orders"):
        consumer.step(mq)


@pytest.mark.parametrize("ack", ["each", "delivery"])
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_ends_the_process_counts_an_attempt(
    mq: mqpg.Client, topic: str, ack: Any, error: type[BaseException]
) -> None:
    """The messages before it are done, and those behind it come again at once."""
    seen: list[int] = []

    @mqpg.consumer(topic, group="g", effect="external", ack=ack, lease=3600)
    def mail(message: mqpg.Message) -> None:
        seen.append(message.payload["id"])
        if message.payload["id"] == 1:
            raise error

    send(mq, range(3))
    for _ in range(3):
        with pytest.raises(error):
            drain(mail, mq)
    drain(mail, mq)
    assert sorted(seen) == [0, 1, 1, 1, 2]
    assert [letter.payload["id"] for letter in mq.dead_letters("g", topic)] == [1]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit])
async def test_a_cancellation_inside_of_a_handler_is_its_failure(
    amq: mqpg.AsyncClient, mq: mqpg.Client, topic: str, error: type[BaseException], batch: bool
) -> None:
    seen: list[int] = []
    stop = asyncio.Event()

    @mqpg.consumer(topic, group="g", effect="external", batch=batch, max_messages=1, retry_delay=0)
    async def mail(given: Any) -> None:
        (message,) = given if batch else [given]
        seen.append(message.payload["id"])
        if message.payload["id"] == 1:
            raise error
        if message.payload["id"] == 2:
            stop.set()

    send(mq, range(3))
    await mail.run(amq, stop)
    assert seen[:2] == [0, 1]
    for _ in range(100):
        mq.append()
        await mail.step(amq)
        if await amq.dead_letters("g", topic):
            break
        await asyncio.sleep(0.05)
    assert [letter.payload["id"] for letter in mq.dead_letters("g", topic)] == [1]
