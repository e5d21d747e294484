"""What a handler gets, what runs around it, and what happens when it never returns."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import mqpg
from mqpg import errors
from tests.support.business import INSERT
from tests.support.consuming import drain, ids_of, running, send, sent, sent_batch
from tests.support.waiting import eventually

pytestmark = pytest.mark.shared_database


class Base(DeclarativeBase):
    """The user's tables."""


class Business(Base):
    """The effects."""

    __tablename__ = "business"
    row: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[int]


@pytest.fixture
def topic(mq: mqpg.Client, db: psycopg.Connection[Any]) -> str:
    mq.create_topic("orders", queues=1)
    db.execute("create table business (row serial primary key, id int)")
    return "orders"


@pytest.fixture
def engine(local_url: str) -> Engine:
    engine = create_engine(local_url)
    Base.metadata.create_all(engine)
    engine.dispose()
    return engine


def here(db: psycopg.Connection[Any]) -> list[int]:
    return [row[0] for row in db.execute("select id from business order by row")]


def there(url: str) -> list[int]:
    engine = create_engine(url)
    with engine.connect() as conn:
        found = list(conn.execute(text("select id from business order by row")).scalars())
    engine.dispose()
    return found


def test_a_session_by_annotation(mq: mqpg.Client, topic: str, db: psycopg.Connection[Any]) -> None:
    """In C1 through SQLAlchemy a failure undoes what the session flushed, and even what it
    committed.
    """

    @mqpg.consumer(topic, group="g", journal=True, retry_delay="10 ms")
    def bill(message: mqpg.Message, session: Session) -> None:
        session.add(Business(id=message.payload["id"]))
        session.commit()
        session.add(Business(id=message.payload["id"] + 100))
        if message.payload["id"] == 1 and message.attempt < 3:
            session.flush()
            raise ValueError("later")

    send(mq, range(3))
    drain(bill, mq)
    bill.close()
    assert here(db) == [0, 100, 2, 102, 1, 101]
    assert db.execute("select count(*) from mqpg_applied").fetchone() == (3,)


def test_a_session_by_option_in_a_database_of_its_own(
    mq: mqpg.Client, topic: str, engine: Engine, local_url: str
) -> None:
    @mqpg.consumer(topic, group="g", database=local_url, consumer="one", session=True, batch=True)
    def bill(messages: Sequence[mqpg.Message], session: Any) -> None:
        session.add_all(Business(id=number) for number in ids_of(messages))

    send(mq, range(3))
    drain(bill, mq)
    bill.close()
    assert there(local_url) == [0, 1, 2]


async def test_an_asynchronous_session(amq: mqpg.AsyncClient, topic: str, db: psycopg.Connection[Any]) -> None:
    @mqpg.consumer(topic, group="g")
    async def bill(message: mqpg.Message, session: AsyncSession) -> None:
        session.add(Business(id=message.payload["id"]))
        if message.payload["id"] == 1:
            raise mqpg.Reject("no")

    assert isinstance(bill, mqpg.AsyncConsumer)
    assert await bill.step(amq) == 0
    await amq.send_batch(topic, [{"id": n} for n in range(3)])
    await amq.append()
    assert await bill.step(amq) == 3
    await bill.close()
    assert here(db) == [0, 2]
    assert [letter.reason for letter in await amq.dead_letters("g", topic)] == ["no"]


def test_middleware(mq: mqpg.Client, topic: str) -> None:
    log: list[str] = []

    def named(name: str) -> Callable[[mqpg.Message, Callable[[], Any]], Any]:
        def middleware(message: mqpg.Message, proceed: Callable[[], Any]) -> Any:
            log.append(f"{name} before {message.payload['id']}")
            try:
                return proceed()
            finally:
                log.append(f"{name} after")

        return middleware

    def skip_two(message: mqpg.Message, proceed: Callable[[], Any]) -> Any:
        return None if message.payload["id"] == 2 else proceed()

    @mqpg.consumer(topic, group="g", effect="external", middleware=[named("outer"), named("inner"), skip_two])
    def note(message: mqpg.Message) -> None:
        log.append(f"handler {message.payload['id']}")

    send(mq, [1, 2])
    assert note.step(mq) == 2
    assert log == [
        "outer before 1", "inner before 1", "handler 1", "inner after", "outer after",
        "outer before 2", "inner before 2", "inner after", "outer after",
    ]  # fmt: skip


def test_retry_and_reject_undo_the_effect(mq: mqpg.Client, topic: str, engine: Engine, local_url: str) -> None:
    @mqpg.consumer(topic, group="g", database=local_url, consumer="one")
    def bill(message: mqpg.Message, conn: Any) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})
        if message.payload["id"] == 1 and message.attempt == 1:
            raise mqpg.Retry("not yet", delay=0.02)
        if message.payload["id"] == 2:
            raise mqpg.Reject("never")

    send(mq, range(4))
    drain(bill, mq)
    assert there(local_url) == [0, 3, 1]
    (dead,) = mq.dead_letters("g", topic)
    assert (dead.payload, dead.attempts, dead.reason) == ({"id": 2}, 1, "never")
    bill.close()


def test_a_handler_that_waits_for_the_database_is_interrupted(
    mq: mqpg.Client, topic: str, db: psycopg.Connection[Any]
) -> None:
    """The handler's statement is cancelled, so its thread returns and the transaction continues."""

    @mqpg.consumer(topic, group="g", timeout=2, max_attempts=2, retry_delay="10 ms")
    def bill(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        conn.execute("insert into business (id) values (%s)", [message.payload["id"]])
        if message.payload["id"] == 1:
            conn.execute("select pg_sleep(60)")

    send(mq, range(3))
    began = time.monotonic()
    drain(bill, mq)
    assert time.monotonic() - began < 45
    assert here(db) == [0, 2]
    (dead,) = mq.dead_letters("g", topic)
    assert (dead.attempts, dead.reason) == (2, "HandlerTimeout: not finished within 2 s")


@pytest.mark.parametrize("kind", ["message", "batch", "external"])
def test_a_handler_that_never_returns_is_left_alone(
    mq: mqpg.Client, topic: str, db: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A thread cannot be ended.

    It loses its connection, its message is nacked, and the others continue. A batch is searched for the
    culprit, and no claim is held for ever.
    """
    monkeypatch.setattr("mqpg._sync._acompat._GRACE", 0.1)
    for_ever, seen = threading.Event(), []

    def act(given: Any, conn: Any = None) -> None:
        ids = ids_of(given if kind == "batch" else [given])
        if 1 in ids:
            for_ever.wait(60)
        if conn is None:
            seen.extend(ids)
        else:
            conn.cursor().executemany("insert into business (id) values (%s)", [[one] for one in ids])

    kinds: dict[str, dict[str, Any]] = {"message": {}, "batch": {"batch": True}, "external": {"effect": "external"}}
    handle = (lambda message: act(message)) if kind == "external" else act
    consumer = mqpg.consumer(topic, group="g", timeout=2, max_attempts=2, retry_delay="10 ms", **kinds[kind])(handle)
    send(mq, range(3))
    drain(consumer, mq)
    assert here(db) + seen == [0, 2]
    assert [(letter.payload, letter.attempts, letter.reason) for letter in mq.dead_letters("g", topic)] == [
        ({"id": 1}, 2, "HandlerTimeout: not finished within 2 s")
    ]
    for_ever.set()
    time.sleep(0.1)
    assert here(db) == ([] if kind == "external" else [0, 2])


def test_a_handler_with_its_own_database_that_never_returns(
    mq: mqpg.Client, topic: str, engine: Engine, local_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqpg._sync._acompat._GRACE", 0.1)
    for_ever = threading.Event()

    @mqpg.consumer(topic, group="g", database=local_url, consumer="one", timeout=2, max_attempts=2, retry_delay=0.01)
    def bill(message: mqpg.Message, conn: Any) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})
        if message.payload["id"] == 1:
            for_ever.wait(60)

    send(mq, range(3))
    drain(bill, mq)
    for_ever.set()
    assert there(local_url) == [0, 2]
    assert [letter.attempts for letter in mq.dead_letters("g", topic)] == [2]
    bill.close()


def test_too_many_stuck_threads_end_the_process(mq: mqpg.Client, topic: str) -> None:
    for_ever = threading.Event()

    @mqpg.consumer(topic, group="g", effect="external", timeout=0.02, max_messages=1)
    def mail(message: mqpg.Message) -> None:
        for_ever.wait(60)

    send(mq, range(10))
    with pytest.raises(errors.HandlerStuck, match="8 calls of the handler"):
        mail.run(mq, threading.Event())
    for_ever.set()


def test_calls_that_return_late_are_not_stuck(mq: mqpg.Client, topic: str) -> None:
    stop, go_on, ended = threading.Event(), threading.Event(), threading.Semaphore(0)

    @mqpg.consumer(topic, group="g", effect="external", timeout=0.02, max_messages=1, max_attempts=1)
    def mail(message: mqpg.Message) -> None:
        if message.payload["id"] == 9:
            stop.set()
            return
        go_on.wait(45)
        ended.release()

    send(mq, range(9))
    for _ in range(9):
        go_on.clear()
        mail.step(mq)
        go_on.set()
        assert ended.acquire(timeout=45)
    send(mq, [9])
    mail.run(mq, stop)
    assert {letter.payload["id"] for letter in mq.dead_letters("g", topic)} >= set(range(9))


@pytest.mark.parametrize("timeout", [float("inf"), timedelta.max])
def test_the_longest_time_limit(mq: mqpg.Client, topic: str, db: psycopg.Connection[Any], timeout: Any) -> None:
    @mqpg.consumer(topic, group="g", timeout=timeout)
    def bill(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        conn.execute("insert into business (id) values (%s)", [message.payload["id"]])

    send(mq, [1])
    drain(bill, mq)
    assert here(db) == [1]


@pytest.mark.parametrize("returns", [True, False], ids=["returns", "goes on"])
def test_a_signal_ends_a_call_in_its_thread(
    mq: mqpg.Client, topic: str, db: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, returns: bool
) -> None:
    """With a time limit the handler has a thread. What a signal raises comes in the consumer's own."""
    monkeypatch.setattr("mqpg._sync._acompat._GRACE", 45 if returns else 0.1)
    go_on = threading.Event()

    def raise_it(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, raise_it)

    @mqpg.consumer(topic, group="g", timeout=60, retry_delay=0, max_attempts=2)
    def bill(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        if message.attempt == 1:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            go_on.wait(0.5 if returns else 60)
        conn.execute("insert into business (id) values (%s)", [message.payload["id"]])

    try:
        assert bill.step(mq) == 0
        send(mq, [1])
        with pytest.raises(KeyboardInterrupt):
            bill.step(mq)
        go_on.set()
        drain(bill, mq)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert here(db) == [1]


@pytest.mark.parametrize("kind", ["broker", "database", "external"])
async def test_an_asynchronous_handler_is_cancelled(
    amq: mqpg.AsyncClient, topic: str, tmp_path: Any, kind: str
) -> None:
    cancelled: list[int] = []
    options: dict[str, Any] = {"broker": {}, "external": {"effect": "external"}}.get(kind, {})
    if kind == "database":
        options = {"database": f"sqlite:///{tmp_path}/local.db", "consumer": "one"}

    async def handle(message: mqpg.Message, conn: Any = None) -> None:
        if message.payload["id"] == 1:
            try:
                if kind == "broker":
                    await conn.execute("select pg_sleep(60)")
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(message.attempt)
                raise

    consumer = mqpg.consumer(topic, group="g", timeout=2, max_attempts=2, retry_delay="10 ms", **options)(handle)
    assert isinstance(consumer, mqpg.AsyncConsumer)
    assert await consumer.step(amq) == 0
    await amq.send_batch(topic, [{"id": n} for n in range(3)], keys=["k"] * 3)
    async with asyncio.timeout(30):
        while not await amq.dead_letters("g", topic):
            await amq.append()
            await consumer.step(amq)
    (dead,) = await amq.dead_letters("g", topic)
    assert (dead.payload, dead.attempts, dead.reason) == (
        {"id": 1}, 2, "HandlerTimeout: not finished within 2 s",
    )  # fmt: skip
    assert set(cancelled) == {1, 2}
    await consumer.close()


def test_time_limits_of_the_handlers_own_are_its_failures(mq: mqpg.Client, topic: str) -> None:
    @mqpg.consumer(topic, group="g", effect="external", timeout=10, max_attempts=1)
    def mail(message: mqpg.Message) -> None:
        raise TimeoutError("smtp")

    send(mq, [1])
    drain(mail, mq)
    assert [letter.reason for letter in mq.dead_letters("g", topic)] == ["TimeoutError: smtp"]


def test_concurrency_needs_connections(dsn: str, mq: mqpg.Client, topic: str) -> None:
    consumer = mqpg.consumer(topic, group="g", concurrency=3)(lambda message, conn: None)
    wanted = pytest.raises(errors.ConfigurationError, match=r"connect\(pool_max_size=3\)")
    with mqpg.connect(dsn, pool_max_size=2) as small, wanted:
        consumer.run(small, threading.Event())


def test_several_rounds_at_a_time_here(mq: mqpg.Client, db: psycopg.Connection[Any]) -> None:
    mq.create_topic("orders", queues=4)
    db.execute("create table business (row serial primary key, id int)")
    together = threading.Barrier(4)

    @mqpg.consumer("orders", group="g", concurrency=4, max_messages=5)
    def bill(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        if message.queue_offset == 0:
            together.wait(20)
        conn.execute("insert into business (id) values (%s)", [message.payload["id"]])

    assert bill.step(mq) == 0
    sent_batch(mq, "orders", [{"id": n} for n in range(80)], keys=[f"k{n % 16}" for n in range(80)])
    with running(bill, mq):
        eventually(lambda: len(here(db)) >= 80)
    assert sorted(here(db)) == list(range(80))


def test_several_rounds_at_a_time_share_out_the_pinned_queues(
    mq: mqpg.Client, db: psycopg.Connection[Any], engine: Engine, local_url: str
) -> None:
    """Members of one name take over from each other, and workers of one process must not."""
    mq.create_topic("orders", queues=4)
    failing = {7, 8}

    @mqpg.consumer("orders", group="g", database=local_url, consumer="one", concurrency=3, max_messages=4,
                   retry_delay="10 ms", journal=True)  # fmt: skip
    def bill(message: mqpg.Message, conn: Any) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})
        if message.payload["id"] in failing and message.attempt == 1:
            raise ValueError("once")

    assert bill.step(mq) == 0
    sent_batch(mq, "orders", [{"id": n} for n in range(60)], keys=[f"k{n % 16}" for n in range(60)])
    with running(bill, mq):
        eventually(lambda: (mq.append(), len(there(local_url)) >= 60)[1], 40)
    assert sorted(there(local_url)) == list(range(60))
    bill.close()
    attempts = db.execute("select count(*) from mqpg.cursor where action = 't'").fetchone()
    assert attempts == (0,)


def test_the_log_shows_the_traceback_of_the_handler_alone(
    mq: mqpg.Client, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    def price(message: mqpg.Message) -> None:
        raise ValueError("amount is not a number")

    @mqpg.consumer(topic, group="g")
    def handle(message: mqpg.Message) -> None:
        price(message)

    mq.subscribe("g", topic)
    sent(mq, topic, 1)
    with caplog.at_level("WARNING", logger="mqpg"):
        handle.step(mq)
    (record,) = [one for one in caplog.records if one.exc_info]
    assert record.exc_info is not None
    assert [frame.name for frame in traceback.extract_tb(record.exc_info[2])] == ["handle", "price"]
