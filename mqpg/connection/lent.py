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

from mqpg.values.errors import WrongState
from mqpg.values.messages import Message

__all__ = ["Lent", "lent"]

_GAP = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_END = _GAP + r"(commit|end|abort|prepare\s+transaction|rollback(?!\s+(?:(?:work|transaction)\s+)?to\b))\b"
_FIRST = re.compile(_END, re.IGNORECASE | re.DOTALL)
_LATER = re.compile(";" + _END, re.IGNORECASE | re.DOTALL)
_ID = "select cast(pg_current_xact_id() as text)"


class Lent:
    """A transaction that is lent.

    Attributes:
        xid: Its id, once a statement was sent that may have ended it. None: no such statement.
        by: The messages whose handler has ended it. None: nobody did, or it is not known who.
    """

    def __init__(self) -> None:
        self.xid: str | None = None
        self.by: Sequence[Message] | None = None

    def sends(self, query: str, params: object, cursor: Any) -> None:
        """Look at a statement that SQLAlchemy is about to send on a cursor of the driver.

        Raises WrongState.
        """
        _require_no_end(query)
        if self.xid is None and not params and _LATER.search(query):
            cursor.execute(_ID)
            self.xid = cursor.fetchone()[0]


@contextmanager
def lent(conn: Any) -> Generator[Lent]:
    """Lend the transaction of a connection of psycopg or SQLAlchemy while the body runs."""
    found = Lent()
    if not isinstance(conn, (psycopg.Connection, psycopg.AsyncConnection)):
        with _lent_by_sqlalchemy(getattr(conn, "sync_connection", None) or conn, found):
            yield found
        return
    factory, kind = conn.cursor_factory, _Cursor if isinstance(conn, psycopg.Connection) else _AsyncCursor
    conn.cursor_factory = type("LentCursor", (kind,), {"lent": found})
    try:
        yield found
    finally:
        conn.cursor_factory = factory


@contextmanager
def _lent_by_sqlalchemy(conn: Any, found: Lent) -> Generator[None]:
    from sqlalchemy import event

    def sends(_: Any, cursor: Any, statement: str, parameters: Any, *__: Any) -> None:
        if conn.dialect.name == "postgresql":
            found.sends(statement, parameters, cursor)
        else:
            _require_no_end(statement)

    def ends() -> None:
        raise WrongState("the transaction is the consumer's, and a handler cannot end it")

    event.listen(conn, "before_cursor_execute", sends)
    conn.commit = conn.rollback = ends
    try:
        yield
    finally:
        del conn.commit, conn.rollback
        event.remove(conn, "before_cursor_execute", sends)


class _Cursor(psycopg.Cursor[Any]):
    lent: Lent

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        text = _text(query, self.connection)
        _require_no_end(text)
        if self.lent.xid is None and params is None and _LATER.search(text):
            with psycopg.Cursor(self.connection) as cursor:
                self.lent.xid = _first(cursor.execute(_ID).fetchone())
        return super().execute(query, params, **options)


class _AsyncCursor(psycopg.AsyncCursor[Any]):
    lent: Lent

    async def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        text = _text(query, self.connection)
        _require_no_end(text)
        if self.lent.xid is None and params is None and _LATER.search(text):
            async with psycopg.AsyncCursor(self.connection) as cursor:
                self.lent.xid = _first(await (await cursor.execute(_ID)).fetchone())
        return await super().execute(query, params, **options)


def _require_no_end(query: str) -> None:
    if found := _FIRST.match(query):
        raise WrongState(f"the transaction is the consumer's, and a handler cannot end it: {found[1].lower()}")


def _text(query: Any, conn: Any) -> str:
    if isinstance(query, bytes):
        return query.decode("utf-8", "replace")
    return query.as_string(conn) if isinstance(query, sql.Composable) else str(query)


def _first(row: Any) -> str:
    return str(row[0])
