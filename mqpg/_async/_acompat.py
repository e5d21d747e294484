"""What differs between the asynchronous and the synchronous library, under one set of names.

mqpg/_sync/_acompat.py is the synchronous half, also written by hand. Everything else in mqpg/_sync
is generated.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import sys
import threading
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import psycopg
import psycopg_pool

from mqpg.connection import dsn as dsns
from mqpg.connection.engines import is_pinged, prepare_engine
from mqpg.connection.forking import ends_children
from mqpg.connection.pooled import AsyncBrokerConnection as BrokerConnection
from mqpg.values.errors import ConfigurationError, HandlerTimeout

if TYPE_CHECKING:
    from sqlalchemy import URL
    from sqlalchemy.ext.asyncio import AsyncConnection as Connection
    from sqlalchemy.ext.asyncio import AsyncEngine as Engine
    from sqlalchemy.ext.asyncio import AsyncSession as Session
    from sqlalchemy.ext.asyncio import async_scoped_session as ScopedSession

__all__ = [
    "BrokerConnection",
    "Connection",
    "DriverConnection",
    "Engine",
    "Event",
    "Lock",
    "PgConnection",
    "Pool",
    "Returns",
    "ScopedSession",
    "Session",
    "call_soon",
    "call_within",
    "cancellations",
    "database_url",
    "driver_connection",
    "finish",
    "forgotten_awaits",
    "gather",
    "in_own_task",
    "in_thread",
    "is_cancelled",
    "is_sqlalchemy",
    "make_engine",
    "must_await",
    "require_driver",
    "require_event",
    "require_loop",
    "raise_cancellation",
    "run_sync",
    "sleep",
    "start",
    "sync_engine",
    "wait_any",
    "wait_for",
    "waker",
]

DriverConnection = psycopg.AsyncConnection
PgConnection = psycopg.AsyncConnection[Any]
Event = asyncio.Event
Lock = asyncio.Lock
P = ParamSpec("P")
T = TypeVar("T")
# What a function of either library returns: `Returns[int]` is Awaitable[int] here, and int in the
# synchronous library.
Returns = Awaitable[T]

sleep = asyncio.sleep
in_thread = asyncio.to_thread


class Pool(psycopg_pool.AsyncConnectionPool[BrokerConnection]):
    """A pool that no cancellation takes a connection from, and that knows its event loop."""

    _loop: asyncio.AbstractEventLoop

    async def open(self, wait: bool = False, timeout: float = 30.0) -> None:
        self._loop = asyncio.get_running_loop()
        await super().open(wait, timeout)

    async def close(self, timeout: float = 5.0) -> None:
        if not self.closed:
            require_loop(self._loop)
            await super().close(timeout)

    async def getconn(self, timeout: float | None = None) -> BrokerConnection:
        require_loop(self._loop)
        if self._pool and not self._lock.locked():  # it need not wait
            return await super().getconn(timeout)
        # A task of its own, because wait_for of Python 3.11, with which the pool waits, may lose a cancellation.
        taking = asyncio.ensure_future(super().getconn(timeout))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.cancel()
            await _to_the_end(self._return_taken(taking))
            raise

    async def _return_taken(self, taking: asyncio.Task[BrokerConnection]) -> None:
        await asyncio.wait([taking])
        if not taking.cancelled() and taking.exception() is None:
            await super().putconn(taking.result())

    async def putconn(self, conn: BrokerConnection) -> None:
        # The connection is idle or closed, so this waits for nothing but the locks of the pool.
        await _to_the_end(super().putconn(conn))


def require_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Raise ConfigurationError in any other event loop."""
    if asyncio.get_running_loop() is not loop:
        raise ConfigurationError("this client was made in another event loop: each loop needs a client of its own")


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Run this also if the task is cancelled meanwhile, which is raised afterwards.

    A task of its own costs more than the work, which seldom has to wait. It has no time limit of asyncio in it.
    """
    try:
        waits_for = work.send(None)
    except StopIteration:
        return
    rest = asyncio.ensure_future(_resume(work, waits_for))
    cancelled: asyncio.CancelledError | None = None
    while not rest.done():
        try:
            await asyncio.wait([rest])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    rest.result()


@types.coroutine
def _resume(work: Coroutine[Any, Any, None], waits_for: Any) -> Generator[Any, Any, None]:
    """The rest of a coroutine that has begun."""
    try:
        while True:
            try:
                yield waits_for
            except BaseException as error:
                waits_for = work.throw(error)
            else:
                waits_for = work.send(None)
    except StopIteration:
        pass


# SQLAlchemy takes longer to load than everything else together, and a client needs it only for a
# connection of SQLAlchemy.
_OF_SQLALCHEMY = {
    "Connection": "AsyncConnection",
    "Engine": "AsyncEngine",
    "ScopedSession": "async_scoped_session",
    "Session": "AsyncSession",
}


def __getattr__(name: str) -> Any:
    if name not in _OF_SQLALCHEMY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sqlalchemy.ext import asyncio as source

    return getattr(source, _OF_SQLALCHEMY[name])


def is_sqlalchemy(conn: Any) -> bool:
    """Whether it is a connection or a session of SQLAlchemy that statements run on."""
    if "sqlalchemy" not in sys.modules:
        return False
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

    return isinstance(conn, (AsyncConnection, AsyncSession, async_scoped_session))


def make_engine(url: URL, **options: Any) -> Engine:
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(url, pool_pre_ping=is_pinged(url), **options)
    prepare_engine(engine.sync_engine)
    return engine


def sync_engine(engine: Engine) -> Any:
    """The engine on which events are listened to."""
    return engine.sync_engine


def require_driver(engine: Engine) -> None:
    """Raise ConfigurationError for an engine of the other library."""
    dsns.require_driver(engine.dialect, dsns.describe(engine.url), asynchronous=True)


def database_url(url: str | URL) -> URL:
    return dsns.to_sqlalchemy(url, asynchronous=True)


async def driver_connection(conn: Connection) -> Any:
    if conn.sync_connection is not None and not conn.closed and not conn.invalidated:
        return conn.sync_connection.connection.driver_connection  # without a greenlet
    return (await conn.get_raw_connection()).driver_connection


async def run_sync(conn: Connection, function: Callable[..., Any], *args: Any) -> Any:
    """Call a synchronous function with the (synchronous) connection."""
    return await conn.run_sync(function, *args)


def must_await(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Note each call of the method in the list `_calls` of its object, for `forgotten_awaits`.

    Without `await` a call does nothing, and Python only warns about it.
    """

    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        made = method(self, *args, **kwargs)
        self._calls[:] = [*filter(_is_forgotten, self._calls), made]
        return made

    return call


def forgotten_awaits(calls: list[Any]) -> list[str]:
    """The names of the methods that were called and never awaited."""
    forgotten = [made for made in calls if _is_forgotten(made)]
    for made in forgotten:
        made.close()  # whoever asks reports them, so Python need not warn
    return [made.__name__ for made in forgotten]


def _is_forgotten(made: Coroutine[Any, Any, Any]) -> bool:
    return inspect.getcoroutinestate(made) == inspect.CORO_CREATED


async def wait_for(event: Event, seconds: float) -> bool:
    """Wait until the event is set. False if it was not set within `seconds`."""
    try:
        async with asyncio.timeout(seconds):  # wait_for of Python 3.11 loses a cancellation
            await event.wait()
    except TimeoutError:
        return False
    return True


async def wait_any(event: Event, stop: Event | None, seconds: float) -> None:
    """Wait until one of the events is set, for `seconds` at most."""
    if event.is_set() or (stop is not None and stop.is_set()):
        return
    waiting = [asyncio.ensure_future(one.wait()) for one in (event, stop) if one is not None]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()


def require_event(stop: object) -> None:
    """Raise ConfigurationError for an event of threads, which would block the event loop."""
    if isinstance(stop, threading.Event):
        raise ConfigurationError("stop must be an asyncio.Event, not a threading.Event, which blocks the event loop")


def waker(event: Event) -> Callable[[], None]:
    """A function that sets the event, from any thread."""
    loop = asyncio.get_running_loop()

    def wake() -> None:
        loop.call_soon_threadsafe(event.set)

    return wake


def cancellations() -> int:
    """How often somebody has wanted this task to end, not only a task that it waited for.

    Before Python 3.13 a TaskGroup counts once more when it has failed, and older libraries do for their time limits.
    So what counts is whether the number grows.
    """
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def is_cancelled(before: int) -> bool:
    """Whether somebody wants this task to end since there were so many `cancellations`."""
    return cancellations() > before


def raise_cancellation(before: int) -> None:
    """Raise CancelledError if somebody wants this task to end since there were so many `cancellations`.

    A loop that continues after errors asks, because an error of the clean-up may have taken its place.
    """
    if is_cancelled(before):
        raise asyncio.CancelledError


def in_own_task(call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The same call of a handler in a task of its own, which counts its own `cancellations`."""

    async def step(given: Any, conn: Any) -> Any:
        result, error = await asyncio.ensure_future(_caught(call, given, conn))
        if error is None:
            return result
        try:
            raise error
        finally:
            del error  # its traceback has this frame: a cycle would keep the message and its connection

    return step


async def _caught(call: Callable[[Any, Any], Any], given: Any, conn: Any) -> tuple[Any, BaseException | None]:
    """The result, or an error, some of which would end the event loop if a task ended with them."""
    try:
        with ends_children():
            return await finish(call(given, conn)), None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, error


async def gather(calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run all of them at the same time until all have ended, and then raise the first error."""
    results = await asyncio.gather(*(call() for call in calls), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def start(work: Callable[[], Awaitable[None]]) -> Callable[[float], Awaitable[None]]:
    """Begin work beside the caller. Returns what waits for its end, which it cancels after so many seconds."""
    task = asyncio.ensure_future(work())

    async def ended(seconds: float) -> None:
        try:
            await asyncio.wait([task], timeout=seconds)
        finally:
            task.cancel()
        await asyncio.wait([task])

    return ended


def call_soon() -> Callable[[Callable[[], None]], object] | None:
    """What makes the event loop call a function, from any thread."""
    return asyncio.get_running_loop().call_soon_threadsafe


async def finish(result: Any) -> Any:
    """The result of a handler, once all that it returned to wait for is done.

    Raises RuntimeError for a future that was cancelled.
    """
    while result is not None and (isinstance(result, concurrent.futures.Future) or inspect.isawaitable(result)):
        awaited = asyncio.wrap_future(result) if isinstance(result, concurrent.futures.Future) else result
        try:
            result = await awaited
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not isinstance(awaited, asyncio.Future) or not awaited.cancelled() or (task and task.cancelling()):
                raise
            raise RuntimeError("the handler returned a future that was cancelled") from None
    return result


async def call_within(
    seconds: float | None, call: Callable[[], Awaitable[Any]], conn: PgConnection | Connection | None
) -> Any:
    """The result of `call`, which works on `conn`.

    After `seconds` it is cancelled, and HandlerTimeout is raised. None: there is no limit.
    """
    if seconds is None:
        return await call()
    try:
        async with asyncio.timeout(seconds) as limit:
            return await call()
    except TimeoutError:
        if limit.expired():
            raise HandlerTimeout(f"not finished within {seconds:g} s") from None
        raise
