"""Engines of SQLAlchemy: what their sessions are like, and what a child of this process does with them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from mqpg.connection.forking import abandon, in_child, sever
from mqpg.connection.options import FORMATS, has_news, set_for_session
from mqpg.connection.pooled import RESET, reads_only

if TYPE_CHECKING:
    from sqlalchemy import URL, Dialect, Engine, ExceptionContext

__all__ = [
    "closed_on_error",
    "forget_in_child",
    "in_memory",
    "is_pinged",
    "prepare_engine",
    "reset_sessions",
    "roll_back_when_cancelled",
]

_PATIENCE = 0.2  # seconds that a rollback waits for the end of a statement that was cancelled
_SESSION = set_for_session(FORMATS)
_LOOKED_AT = ("psycopg", "asyncpg")  # drivers whose connections are not pinged


def is_pinged(url: URL) -> bool:
    """Whether SQLAlchemy has to ping a connection before it is used. `prepare_engine` lets others be looked at."""
    return url.get_dialect().driver not in _LOOKED_AT


def prepare_engine(engine: Engine) -> None:
    """Make a new engine of this library independent of the settings of its role and database, and of a fork."""
    forget_in_child(engine)
    if engine.dialect.name == "postgresql":
        from sqlalchemy import event

        event.listen(engine, "connect", _set_session, insert=True)  # before SQLAlchemy asks for the version
        if engine.dialect.driver in _LOOKED_AT:
            event.listen(engine, "checkout", partial(_look_at, engine.dialect))


def reset_sessions(engine: Engine) -> None:
    """Reset each session of the broker when it comes back from a handler, as those of a client's pool."""
    from sqlalchemy import event

    event.listen(engine, "reset", _reset)


def forget_in_child(engine: Engine) -> None:
    """Let a child of this process make connections of its own, and leave those of the parent open.

    The data of SQLite in memory stay the child's.
    """
    in_child(engine, _forget)
    from sqlalchemy import event

    event.listen(engine, "checkout", _sever_in_child)  # not "connect": the caller's may have connections already


def _sever_in_child(connection: Any, record: Any, lent: Any) -> None:
    driver = getattr(connection, "driver_connection", connection)
    if type(driver).__weakrefoffset__:  # not mysqlclient's
        in_child(driver, sever)


def roll_back_when_cancelled(engine: Engine) -> None:
    """Let a connection of aiosqlite be rolled back after a cancellation, and not only closed.

    If it is closed inside a statement, the write lock stays until the statement is collected as garbage.
    """
    if engine.dialect.name == "sqlite" and engine.dialect.is_async:
        from sqlalchemy import event

        event.listen(engine, "handle_error", _roll_back_when_cancelled)


def _roll_back_when_cancelled(context: ExceptionContext) -> None:
    if isinstance(context.original_exception, Exception) or context.connection is None:
        return
    connection: Any = context.connection.connection.dbapi_connection
    if connection is not None:
        from sqlalchemy.util import await_only

        context.is_disconnect = False
        await_only(_roll_back(connection.driver_connection))


async def _roll_back(driver: Any) -> None:
    rollback = asyncio.ensure_future(driver.rollback())
    done, _ = await asyncio.wait([rollback], timeout=_PATIENCE)
    if not done:  # it waits for the statement; if none ran, an interrupt would end the rollback itself
        await driver.interrupt()
    await asyncio.wait([rollback])


def in_memory(engine: Engine) -> bool:
    """Whether the data of this engine end with its connection, or the last of several that share them."""
    is_named = ":memory:" not in (engine.url.database or ":memory:") and engine.url.query.get("mode") != "memory"
    return engine.dialect.name == "sqlite" and not is_named


def _forget(engine: Engine) -> None:
    if in_memory(engine):
        return
    abandon(engine.pool)
    engine.dispose(close=False)


@contextmanager
def closed_on_error(connection: Any) -> Iterator[Any]:
    """A cursor of a connection that is being made. SQLAlchemy does not close one whose listener fails."""
    try:
        cursor = connection.cursor()
        yield cursor
        cursor.close()
    except BaseException:
        connection.close()
        raise


def _set_session(connection: Any, record: Any) -> None:
    with closed_on_error(connection) as cursor:
        cursor.execute(_SESSION)
    connection.commit()


def _look_at(dialect: Dialect, connection: Any, record: Any, lent: Any) -> None:
    """Look at a connection before it is used. That costs no round trip, unless something has arrived on it."""
    driver = getattr(connection, "driver_connection", connection)
    if dialect.driver == "asyncpg":  # whose event loop reads what arrives
        is_there = not driver.is_closed()
    else:
        is_there = not driver.closed and (not has_news(driver.fileno()) or _answers(dialect, connection))
    if not is_there:
        from sqlalchemy.exc import InvalidatePoolError

        raise InvalidatePoolError


def _answers(dialect: Dialect, connection: Any) -> bool:
    try:
        return dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error:
        return False


def _reset(connection: Any, record: Any, state: Any) -> None:
    if state.terminate_only:
        return
    connection.rollback()
    connection.autocommit = True  # one round trip instead of three
    cursor = connection.cursor()
    cursor.execute(RESET, prepare=False)
    is_left_over = cursor.fetchone() is not None
    cursor.close()
    connection.autocommit = False
    if is_left_over or reads_only(getattr(connection, "driver_connection", connection)):
        record.invalidate(soft=True)
