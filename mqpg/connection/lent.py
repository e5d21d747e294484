"""Transactions that are lent to a handler: it must not end them.

psycopg refuses `conn.commit()` there. SQL that ends the transaction is refused in the same way,
before it is sent. A text of several statements may end it later on, or only mention that. Then the
transaction's id is noted, so that it can be compared when the handler has returned.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import scalar_row

from mqpg.values.errors import WrongState
from mqpg.values.messages import Message

__all__ = ["ENDED_SAVEPOINT", "REFUSED", "Lent", "ended_by", "lent"]

_GAP = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_END = _GAP + r"(commit|end|abort|prepare\s+transaction|rollback(?!\s+(?:(?:work|transaction)\s+)?to\b))\b"
_FIRST = re.compile(_END, re.IGNORECASE | re.DOTALL)
_LATER = re.compile(";" + _END, re.IGNORECASE | re.DOTALL)
REFUSED = "the transaction is the consumer's, and a handler cannot end it"
ENDED_SAVEPOINT = "the savepoint is the consumer's, and the handler has ended it"
_ID = "select cast(pg_current_xact_id() as text)"


def ended_by(query: str) -> str | None:
    """The word with which a text begins that ends a transaction, such as "commit". None: it begins with another."""
    found = _FIRST.match(query)
    return found[1].lower() if found else None


class Lent:
    """A transaction that is lent.

    Attributes:
        xid: Its id, once a statement was sent that may have ended it. None: no such statement.
        by: The messages whose handler has ended it, or its savepoint. None: nobody did, or it is not known who.
        savepoint: The savepoint of SQLAlchemy in which the handler works. None: it is another driver's.
    """

    def __init__(self) -> None:
        self.xid: str | None = None
        self.by: Sequence[Message] | None = None
        self.savepoint: Any = None

    @property
    def lost_savepoint(self) -> bool:
        """Whether a handler has ended the savepoint."""
        return self.savepoint is not None and not self.savepoint.is_active

    def needs_xid(self, query: str, params: object) -> bool:
        """Whether the id must be asked for before this is sent. Raises WrongState if it must not be sent."""
        if word := ended_by(query):
            raise WrongState(f"{REFUSED}: {word}")
        return self.xid is None and not params and ";" in query and _LATER.search(query) is not None


@contextmanager
def lent(conn: Any, given: Lent) -> Generator[None]:
    """Lend the transaction of a connection of psycopg or SQLAlchemy while the body runs."""
    if isinstance(conn, (psycopg.Connection, psycopg.AsyncConnection)):
        factory = conn.cursor_factory
        conn.lent = given  # type: ignore[union-attr]
        conn.cursor_factory = _Cursor if isinstance(conn, psycopg.Connection) else _AsyncCursor
        try:
            yield
        finally:
            conn.cursor_factory = factory
    else:
        with _lent_by_sqlalchemy(getattr(conn, "sync_connection", None) or conn, given):
            yield


@contextmanager
def _lent_by_sqlalchemy(conn: Any, given: Lent) -> Generator[None]:
    from sqlalchemy import event

    def sends(_: Any, cursor: Any, statement: str, parameters: Any, *__: Any) -> None:
        if given.needs_xid(statement, parameters) and conn.dialect.name == "postgresql":
            cursor.execute(_ID)
            given.xid = cursor.fetchone()[0]

    def ends() -> None:
        raise WrongState(REFUSED)

    given.savepoint = conn.get_nested_transaction()
    event.listen(conn, "before_cursor_execute", sends)
    conn.commit = conn.rollback = ends
    try:
        yield
    finally:
        del conn.commit, conn.rollback
        event.remove(conn, "before_cursor_execute", sends)


class _Cursor(psycopg.Cursor[Any]):
    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        given: Lent = self.connection.lent  # type: ignore[attr-defined]
        if given.needs_xid(_text(query, self.connection), params):
            with psycopg.Cursor(self.connection, row_factory=scalar_row) as cursor:
                given.xid = cursor.execute(_ID).fetchone()
        return super().execute(query, params, **options)


class _AsyncCursor(psycopg.AsyncCursor[Any]):
    async def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        given: Lent = self.connection.lent  # type: ignore[attr-defined]
        if given.needs_xid(_text(query, self.connection), params):
            async with psycopg.AsyncCursor(self.connection, row_factory=scalar_row) as cursor:
                given.xid = await (await cursor.execute(_ID)).fetchone()
        return await super().execute(query, params, **options)


def _text(query: Any, conn: Any) -> str:
    if isinstance(query, bytes):
        return query.decode("utf-8", "replace")
    return query.as_string(conn) if isinstance(query, sql.Composable) else str(query)
