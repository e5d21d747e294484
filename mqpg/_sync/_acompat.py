"""What differs between the two libraries, under one set of names: see mqpg/_async/_acompat.py."""

from __future__ import annotations

import concurrent.futures
import contextvars
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import psycopg
import psycopg_pool

from mqpg.connection import dsn as dsns
from mqpg.connection.engines import is_pinged, prepare_engine
from mqpg.connection.pooled import BrokerConnection
from mqpg.values.errors import ConfigurationError, HandlerTimeout

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine
    from sqlalchemy.orm import Session
    from sqlalchemy.orm import scoped_session as ScopedSession

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
    "raise_cancellation",
    "run_sync",
    "sleep",
    "start",
    "sync_engine",
    "wait_any",
    "wait_for",
    "waker",
]

DriverConnection = psycopg.Connection
PgConnection = psycopg.Connection[Any]
Event = threading.Event
Lock = threading.Lock

_P = ParamSpec("_P")
_T = TypeVar("_T")
Returns = Annotated[_T, "what a function of this library returns"]

sleep = time.sleep

_SLICE = 0.25  # how soon a stop is noticed while waiting for something else
_GRACE = 2.0  # how long an interrupted handler may take to come back


class Pool(psycopg_pool.ConnectionPool[BrokerConnection]):
    """A pool that nobody closed says nothing at the end of the interpreter, where Python 3.14 joins no thread."""

    def __del__(self) -> None:
        try:
            super().__del__()
        except RuntimeError:
            if not sys.is_finalizing():
                raise


def in_thread(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    return function(*args, **kwargs)


_OF_SQLALCHEMY = {
    "Connection": "Connection",
    "Engine": "Engine",
    "ScopedSession": "scoped_session",
    "Session": "Session",
}


def __getattr__(name: str) -> Any:
    if name not in _OF_SQLALCHEMY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Without its ORM, SQLAlchemy loads in half the time, and the compensator needs no more.
    source = "sqlalchemy" if name in ("Connection", "Engine") else "sqlalchemy.orm"
    return getattr(import_module(source), _OF_SQLALCHEMY[name])


def is_sqlalchemy(conn: Any) -> bool:
    if "sqlalchemy" not in sys.modules:
        return False
    from sqlalchemy import Connection

    orm = sys.modules.get("sqlalchemy.orm")
    return isinstance(conn, Connection) or (orm is not None and isinstance(conn, (orm.Session, orm.scoped_session)))


def make_engine(url: URL, **options: Any) -> Engine:
    from sqlalchemy import create_engine

    engine = create_engine(url, pool_pre_ping=is_pinged(url), **options)
    prepare_engine(engine)
    return engine


def sync_engine(engine: Engine) -> Any:
    """The engine on which events are listened to."""
    return engine


def require_driver(engine: Engine) -> None:
    """Raise ConfigurationError for an engine of the other library."""
    dsns.require_driver(engine.dialect, dsns.describe(engine.url), asynchronous=False)


def database_url(url: str | URL) -> URL:
    return dsns.to_sqlalchemy(url)


def driver_connection(conn: Connection) -> Any:
    return conn.connection.driver_connection


def run_sync(conn: Connection, function: Callable[..., Any], *args: Any) -> Any:
    """Call a synchronous function with the (synchronous) connection."""
    return function(conn, *args)


def must_await(method: Callable[_P, _T]) -> Callable[_P, _T]:
    """The method itself, because a synchronous call cannot be forgotten."""
    return method


def forgotten_awaits(calls: list[Any]) -> list[str]:
    """Nothing, because a synchronous call cannot be forgotten."""
    return calls


def wait_for(event: Event, seconds: float) -> bool:
    """Wait until the event is set. False if it was not set within `seconds`."""
    return event.wait(seconds)


def wait_any(event: Event, stop: Event | None, seconds: float) -> None:
    """Wait until one of the events is set, for `seconds` at most."""
    if stop is None:
        event.wait(seconds)
        return
    deadline = time.monotonic() + seconds
    while not stop.is_set() and (left := deadline - time.monotonic()) > 0:
        if event.wait(min(left, _SLICE)):
            return


def require_event(stop: object) -> None:
    """Raise ConfigurationError for an event of asyncio, which no thread can wait for."""
    if "asyncio" in sys.modules and isinstance(stop, sys.modules["asyncio"].Event):
        raise ConfigurationError("stop must be a threading.Event, not an asyncio.Event, which no thread can wait for")


def waker(event: Event) -> Callable[[], None]:
    """A function that sets the event, from any thread."""
    return event.set


def cancellations() -> int:
    """None, because no other thread can end this one."""
    return 0


def is_cancelled(before: int) -> bool:
    """False, because no other thread can end this one."""
    return False


def raise_cancellation(before: int) -> None:
    """Do nothing, because no other thread can end this one."""


def in_own_task(call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The call itself, because there are no tasks."""
    return call


def gather(calls: Sequence[Callable[[], None]]) -> None:
    """Run all of them at the same time until all have ended, and then raise the first error.

    Each thread has a copy of the caller's context, as tasks have.
    """
    if len(calls) == 1:
        calls[0]()
        return
    errors: list[BaseException] = []

    def run(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    contexts = [contextvars.copy_context() for _ in calls]
    threads = [
        threading.Thread(target=context.run, args=(run, call), name=f"mqpg-{n}")
        for n, (context, call) in enumerate(zip(contexts, calls, strict=True))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def start(work: Callable[[], None]) -> Callable[[float], None]:
    """Begin work beside the caller. Returns what waits for its end, for so many seconds at most."""
    thread = threading.Thread(target=work, name="mqpg-recovery", daemon=True)
    thread.start()
    return thread.join


def call_soon() -> Callable[[Callable[[], None]], object] | None:
    """None, because there is no event loop."""
    return None


def finish(result: Any) -> Any:
    """The result of a handler, once the future that it returned is done."""
    while isinstance(result, concurrent.futures.Future):
        result = result.result()
    return result


def call_within(seconds: float | None, call: Callable[[], Any], conn: PgConnection | Connection | None) -> Any:
    """The result of `call`, which runs in a thread where there is a time limit.

    After `seconds` HandlerTimeout is raised. None: there is no limit.

    A thread cannot be ended from outside. Cancelling the statement that runs on `conn` may make it
    return. Otherwise its connection is closed, the thread continues, and the error says so.
    """
    if seconds is None:
        return call()
    outcome: list[tuple[Any, BaseException | None]] = []
    ended = threading.Event()

    def run() -> None:
        try:
            outcome.append((call(), None))
        except BaseException as error:
            outcome.append((None, error))
        finally:
            ended.set()

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,), name="mqpg-handler", daemon=True)
    try:
        thread.start()
        is_over = ended.wait(seconds)
    except BaseException:  # KeyboardInterrupt, or what a signal's handler raises: in this thread only
        _give_up(ended, conn)
        raise
    if is_over:
        result, error = outcome[0]
        if error is not None:
            raise error
        return result
    late = HandlerTimeout(f"not finished within {seconds:g} s", abandoned=not _give_up(ended, conn))
    late._thread = thread if late.abandoned else None
    raise late


def _give_up(ended: threading.Event, conn: PgConnection | Connection | None) -> bool:
    """Undo what the handler does, which must not use the connection any more. Whether it has come back."""
    try:
        if conn is not None:
            _interrupt(conn)
            ended.wait(_GRACE)
    finally:
        if not (back := ended.is_set()):
            _abandon(conn)
    return back


def _interrupt(conn: PgConnection | Connection) -> None:
    driver: Any = conn if isinstance(conn, psycopg.Connection) else conn.connection.driver_connection
    # psycopg's; SQLite's
    cancel = getattr(driver, "cancel_safe", None) or getattr(driver, "interrupt", None)
    if cancel is not None:
        with suppress(Exception):
            cancel()


def _abandon(conn: PgConnection | Connection | None) -> None:
    if isinstance(conn, psycopg.Connection):
        conn.close()
    elif conn is not None:
        conn.invalidate()
