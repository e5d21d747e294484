"""Handlers that return before their work is done: it is waited for, or the attempt has failed."""

from __future__ import annotations

import asyncio
import functools
import itertools
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

import mqpg
from mqpg import errors
from mqpg.testing import drain

pytestmark = pytest.mark.shared_database

WHERE = ["broker", "database", "external", "shared", "received"]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as found:
        yield found


@pytest.fixture
def make(mq: mqpg.Client, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Make a consumer whose effect is somewhere: it has one message, and one attempt for it."""
    mq.create_topic("work", queues=1)
    mq.send("work", {"id": 1})
    mq.append()

    consumers: list[Any] = []

    def made(handler: Callable[..., Any], where: str, **options: Any) -> Any:
        if where == "database":
            options["database"] = f"sqlite:///{tmp_path / 'own.db'}"
        elif where == "shared":
            options["mode"] = "shared"
        elif where != "broker":
            options |= {"effect": "external", "ack": "receive" if where == "received" else "each"}
        consumers.append(mqpg.consumer("work", group="g", max_attempts=1, consumer="one", **options)(handler))
        return consumers[-1]

    yield made
    for consumer in consumers:
        if isinstance(consumer, mqpg.Consumer):
            consumer.close()
        else:
            asyncio.run(consumer.close())


def letters(mq: mqpg.Client) -> list[str]:
    return [str(letter.reason) for letter in mq.dead_letters("g", "work")]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("batch", [False, True])
def test_a_returned_future_is_waited_for(
    mq: mqpg.Client, make: Callable[..., Any], pool: ThreadPoolExecutor, where: str, batch: bool
) -> None:
    done: list[int] = []

    def work() -> None:
        time.sleep(0.1)
        done.append(1)

    consumer = make(lambda message: pool.submit(work), where, batch=batch, timeout=30 if batch else None)
    assert consumer.step(mq) == 1
    assert done == [1]
    assert letters(mq) == []


@pytest.mark.parametrize("where", WHERE[:-1])
def test_a_future_that_fails_fails_the_message(
    mq: mqpg.Client, make: Callable[..., Any], pool: ThreadPoolExecutor, where: str
) -> None:
    make(lambda message: pool.submit(lambda: 1 / 0), where).step(mq)
    assert letters(mq) == ["ZeroDivisionError: division by zero"]


def test_a_cancelled_future_fails_the_message(mq: mqpg.Client, make: Callable[..., Any]) -> None:
    def cancelled(message: mqpg.Message) -> Future[None]:
        future: Future[None] = Future()
        future.cancel()
        return future

    make(cancelled, "external").step(mq)
    assert letters(mq) == ["CancelledError:"]


async def _inner(message: mqpg.Message) -> None:
    raise AssertionError("never runs")


def _decorated(message: mqpg.Message) -> Any:
    return functools.wraps(_inner)(lambda given: _inner(given))(message)


class _Awaitable:
    def __await__(self) -> Generator[None]:
        yield


async def _asynchronous_generator() -> AsyncIterator[int]:
    yield 1


UNFINISHED: dict[str, Callable[[Any], Any]] = {
    "coroutine": _inner,
    "decorated": _decorated,
    "awaitable": lambda message: _Awaitable(),
    "generator": lambda message: (one for one in [1]),
    "map": lambda message: map(str, [1]),
    "zip": lambda message: zip(map(str, [1]), strict=True),
    "itertools": lambda message: itertools.starmap(str, [(1,)]),
    "list of coroutines": lambda message: [_inner(message), _inner(message)],
    "set of coroutines": lambda message: {_inner(message)},
    "dictionary of futures": lambda message: {"first": Future()},
    "list of futures": lambda message: [Future()],
    "tuple of awaitables": lambda message: (_Awaitable(),),
    "async generator": lambda message: _asynchronous_generator(),
}


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        *((kind, "external") for kind in UNFINISHED),
        *(("coroutine", where) for where in ("broker", "database", "shared")),
    ],
)
def test_what_a_synchronous_consumer_cannot_wait_for_is_a_failed_attempt(
    mq: mqpg.Client, make: Callable[..., Any], where: str, kind: str
) -> None:
    consumer = make(lambda message: UNFINISHED[kind](message), where)
    assert isinstance(consumer, mqpg.Consumer)
    assert consumer.step(mq) == 1
    (reason,) = letters(mq)
    assert reason.startswith("TypeError: the handler returned a")


@pytest.mark.parametrize("session", [False, True])
def test_with_a_session_and_middleware(mq: mqpg.Client, make: Callable[..., Any], session: bool) -> None:
    """Neither a session's commit nor a middleware may hide it."""

    async def forgotten(message: Any, proceed: Any) -> None:
        proceed()

    if session:
        make(lambda message, conn: _inner(message), "broker", session=True).step(mq)
    else:
        make(lambda message: None, "broker", middleware=[forgotten]).step(mq)
    (reason,) = letters(mq)
    assert reason.startswith("TypeError: the handler returned a coroutine")


def test_a_failed_attempt_undoes_the_effect(mq: mqpg.Client, make: Callable[..., Any], tmp_path: Path) -> None:
    with create_engine(f"sqlite:///{tmp_path / 'own.db'}").begin() as conn:
        conn.execute(text("create table effect (id int)"))

    def half(message: mqpg.Message, conn: Any) -> Any:
        conn.execute(text("insert into effect values (1)"))
        return _inner(message)

    make(half, "database").step(mq)
    with create_engine(f"sqlite:///{tmp_path / 'own.db'}").connect() as conn:
        assert conn.execute(text("select count(*) from effect")).scalar() == 0


class _AsyncCallable:
    done = False

    async def __call__(self, message: mqpg.Message) -> None:
        await asyncio.sleep(0.01)
        type(self).done = True


def test_what_is_asynchronous_under_a_partial() -> None:
    async def two(first: int, message: mqpg.Message) -> None: ...

    for handler in (functools.partial(two, 1), _AsyncCallable(), functools.partial(_AsyncCallable()), _inner):
        assert isinstance(mqpg.consumer("work", group="g", effect="external")(handler), mqpg.AsyncConsumer)


def test_generator_functions_are_refused() -> None:
    def one(message: mqpg.Message) -> Iterator[int]:
        yield 1

    async def two(message: mqpg.Message) -> AsyncIterator[int]:
        yield 1

    class Three:
        def __call__(self, message: mqpg.Message) -> Iterator[int]:
            yield 1

    for handler in (one, two, Three(), functools.partial(one)):
        with pytest.raises(errors.ConfigurationError, match="generator function"):
            mqpg.consumer("work", group="g")(handler)


def _asynchronous(name: str, pool: ThreadPoolExecutor, done: list[str]) -> Callable[..., Any]:
    async def later() -> None:
        await asyncio.sleep(0.05)
        done.append(name)

    def in_thread() -> None:
        time.sleep(0.05)
        done.append(name)

    async def handler(message: mqpg.Message) -> Any:
        if name == "coroutine":
            return later()
        if name == "task":
            return asyncio.create_task(later())
        if name == "future":
            return pool.submit(in_thread)
        if name == "generator":
            return (one for one in [1])
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        return future

    return handler


@pytest.mark.parametrize(
    ("name", "where"),
    [
        *((name, "external") for name in ("coroutine", "task", "future", "generator", "cancelled")),
        ("coroutine", "broker"),
        ("coroutine", "shared"),
    ],
)
def test_an_asynchronous_consumer_waits(
    mq: mqpg.Client, make: Callable[..., Any], dsn: str, pool: ThreadPoolExecutor, where: str, name: str
) -> None:
    done: list[str] = []
    consumer = make(_asynchronous(name, pool, done), where)

    async def run() -> None:
        async with await mqpg.connect_async(dsn) as client:
            assert await consumer.step(client) == 1
            await consumer.close()

    asyncio.run(run())
    if name == "generator":
        assert letters(mq)[0].startswith("TypeError: the handler returned a generator")
    elif name == "cancelled":
        assert letters(mq) == ["RuntimeError: the handler returned a future that was cancelled"]
    else:
        assert (done, letters(mq)) == ([name], [])


def _nothing(*args: Any) -> None: ...


@contextmanager
def _entered(message: mqpg.Message) -> Iterator[None]:
    yield


def _of_a_decorator_without_its_arguments(function: Any) -> Callable[..., Any]:
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


@pytest.mark.parametrize("where", ["broker", "external"])
@pytest.mark.parametrize(
    ("handler", "middleware", "reason"),
    [
        (
            _nothing,
            [lambda message, proceed: proceed],
            "TypeError: the handler returned a function that was not called",
        ),
        (_of_a_decorator_without_its_arguments, [], "TypeError: the handler returned a function that was not called"),
        (lambda message: functools.partial(_nothing, message), [], "returned a partial that was not called"),
        (lambda message: message.payload.clear, [], "returned a builtin_function_or_method that was not called"),
        (_entered, [], "_GeneratorContextManager, whose body did not run"),
    ],
)
def test_what_was_not_called_is_a_failure(
    mq: mqpg.Client, make: Callable[..., Any], where: str, handler: Any, middleware: list[Any], reason: str
) -> None:
    drain(mq, make(handler, where, middleware=middleware))
    (found,) = letters(mq)
    assert reason in found


def test_a_thread_that_is_still_at_work_is_a_failure(mq: mqpg.Client, make: Callable[..., Any]) -> None:
    go_on = threading.Event()

    def handle(message: mqpg.Message) -> threading.Thread:
        thread = threading.Thread(target=go_on.wait, args=(60,), daemon=True)
        thread.start()
        return thread

    drain(mq, make(handle, "broker"))
    go_on.set()
    assert letters(mq) == ["TypeError: the handler returned a Thread that is still at work: wait for it"]


def test_a_process_that_is_still_at_work_is_a_failure(mq: mqpg.Client, make: Callable[..., Any]) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def handle(message: mqpg.Message) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "60"]))
        return started[-1]

    drain(mq, make(handle, "broker"))
    for process in started:
        process.kill()
        process.wait()
    assert letters(mq) == ["TypeError: the handler returned a Popen that is still at work: wait for it"]


class Service:
    """A handler of a program that has forgotten to make an object of it."""

    def __init__(self, message: Any, conn: Any = None) -> None: ...


@pytest.mark.parametrize("handler", [Service, dict, classmethod(_nothing), 5, None])
def test_what_is_no_handler_is_refused(handler: Any) -> None:
    with pytest.raises(errors.ConfigurationError, match="a handler must be a function or an object that can be called"):
        mqpg.consumer("work", group="g")(handler)


def test_a_static_method_may_be_asynchronous() -> None:
    async def handle(message: mqpg.Message) -> None: ...

    assert isinstance(mqpg.consumer("work", group="g")(staticmethod(handle)), mqpg.AsyncConsumer)
