"""Engines of SQLAlchemy: what their sessions are like, and what a child of this process does with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mqpg.connection.forking import abandon, in_child
from mqpg.connection.options import FORMATS, set_for_session
from mqpg.connection.pooled import RESET, reads_only

if TYPE_CHECKING:
    from sqlalchemy import Engine

__all__ = ["forget_in_child", "prepare_engine", "reset_sessions"]

_SESSION = set_for_session(FORMATS)


def prepare_engine(engine: Engine) -> None:
    """Make an engine of this library independent of the settings of its role and database, and of a fork.

    Args:
        engine: The engine, before it has connected.
    """
    forget_in_child(engine)
    if engine.dialect.name == "postgresql":
        from sqlalchemy import event

        event.listen(engine, "connect", _set_session, insert=True)  # before SQLAlchemy asks for the version


def reset_sessions(engine: Engine) -> None:
    """Reset each session when it comes back from a handler, as the sessions of a client's pool.

    Args:
        engine: An engine of the broker's database, with psycopg as its driver.
    """
    from sqlalchemy import event

    event.listen(engine, "reset", _reset)


def forget_in_child(engine: Engine) -> None:
    """Let a child of this process make connections of its own, and leave those of the parent open.

    Args:
        engine: Any engine. The data of SQLite in memory stay the child's.
    """
    in_child(engine, _forget)


def _forget(engine: Engine) -> None:
    if engine.dialect.name == "sqlite" and engine.url.database in (None, "", ":memory:"):
        return
    abandon(engine.pool)
    engine.dispose(close=False)


def _set_session(connection: Any, record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(_SESSION)
    cursor.close()
    connection.commit()


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
