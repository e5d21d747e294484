"""Transactions that are lent to a handler: it must not end them.

psycopg refuses `conn.commit()` there. SQL that ends the transaction is refused in the same way,
before it is sent. A text of several statements may end it later on, or only mention that. Then the
transaction's id is noted, so that it can be compared when the handler has returned.

One transaction has many messages, so a handler may go back only to savepoints that it made itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import scalar_row

from mqpg.values.errors import WrongState
from mqpg.values.messages import Message

__all__ = ["ENDED_SAVEPOINT", "LEFT_OPEN", "REFUSED", "Lent", "ended_by", "lent"]

_GAP = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_END = _GAP + r"(commit|end|abort|prepare\s+transaction|rollback(?!\s+(?:(?:work|transaction)\s+)?to\b))\b"
_FIRST = re.compile(_END, re.IGNORECASE | re.DOTALL)
_LATER = re.compile(";" + _END, re.IGNORECASE | re.DOTALL)
# The name is quoted, or a word in any case. In a text with literals a later statement may be part of one.
_SAVEPOINT = re.compile(
    rf"(?:^|;){_GAP}(savepoint|rollback(?:\s+(?:work|transaction))?\s+to(?:\s+savepoint)?){_GAP}"
    r"""("(?:[^"]|"")+"|`[^`]+`|[\w$]+)""",
    re.IGNORECASE | re.DOTALL,
)
_LITERAL = re.compile(r"['$]")
# What commits the open transaction in MySQL and MariaDB, and ends its savepoints.
_COMMITS_IN_MYSQL = re.compile(
    _GAP
    + r"((?:create|drop)(?!\s+temporary\b)|alter|truncate|rename|begin(?!\s+not\b)|start\s+transaction|grant|revoke"
    r"|(?:un)?lock\s+tables?|set\b[^;]*\bautocommit|(?:analyze|optimize|repair|check)\s+(?:\w+\s+)?table|flush"
    r"|(?:un)?install)\b",
    re.IGNORECASE | re.DOTALL,
)
REFUSED = "the transaction is the consumer's, and a handler cannot end it"
LEFT_OPEN = "the handler has left a stream, a COPY, a pipeline or a transaction() of its connection open"
ENDED_SAVEPOINT = "the savepoint is the consumer's, and the handler has ended it"
_ID = "select cast(pg_current_xact_id() as text)"


def ended_by(query: str) -> str | None:
    """The word with which a text begins that ends a transaction, such as "commit". None: it begins with another."""
    found = _FIRST.match(query)
    return found[1].lower() if found else None


class Lent:
    """A transaction that is lent."""

    def __init__(self) -> None:
        self.xid: str | None = None  # its id, once a statement was sent that may have ended it
        self.by: Sequence[Message] | None = None  # whose handler has ended it, or its savepoint, if that is known
        self.savepoints: set[str] = set()  # those that SQL of the present message's handler has made
        self.depth: int | None = 0  # how many blocks of psycopg's transaction() were open
        self.taken = ""  # why nothing can be done on the connection any more, and it was closed
        self.savepoint: Any = None  # that of SQLAlchemy in which the handler works. None: it is another driver's.
        self.restore: Callable[[], None] = lambda: None  # undoes what one handler did to the connection's options
        # Whether SQLAlchemy no longer knows the transaction, which it was not allowed to end.
        self.is_forgotten: Callable[[], bool] = lambda: False
        self.is_returned: Callable[[], bool] = lambda: False  # whether the driver's connection went back to its pool
        self.is_guarded = True  # whether the driver's connection refuses to commit

    @property
    def lost_savepoint(self) -> bool:
        """Whether a handler has ended the savepoint."""
        return self.savepoint is not None and not self.savepoint.is_active

    def needs_xid(self, query: str, params: object) -> bool:
        """Whether the id must be asked for before this is sent. Raises WrongState if it must not be sent."""
        if word := ended_by(query):
            raise WrongState(f"{REFUSED}: {word}")
        if "savepoint" in query.lower() or "rollback" in query.lower():
            self._follow_savepoints(query)
        return self.xid is None and not params and ";" in query and _LATER.search(query) is not None

    def _follow_savepoints(self, query: str) -> None:
        """Note the savepoints that a text makes. Raises WrongState if it goes back to another one."""
        for found in _SAVEPOINT.finditer(query):
            if found.start() > 0 and _LITERAL.search(query):
                return
            name = found[2] if found[2][0] in '"`' else found[2].lower()
            if found[1].lower() == "savepoint":
                self.savepoints.add(name.strip('"`'))
            elif name.strip('"`') not in self.savepoints:
                raise WrongState(
                    f"the handler has made no savepoint {name} for this message, and going back to it would undo the "
                    "effects of others"
                )


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

    in_mysql = conn.dialect.name in ("mysql", "mariadb")

    def sends(_: Any, cursor: Any, statement: str, parameters: Any, *__: Any) -> None:
        if in_mysql and (found := _COMMITS_IN_MYSQL.match(statement)):
            raise WrongState(f"{REFUSED}: in this database {found[1].lower()} commits it")
        if given.needs_xid(statement, parameters) and conn.dialect.name == "postgresql":
            cursor.execute(_ID)
            given.xid = cursor.fetchone()[0]

    def ends(*_: Any) -> None:
        raise WrongState(REFUSED)

    def restores() -> None:
        conn._execution_options = options

    given.savepoint, root = conn.get_nested_transaction(), conn.get_transaction()
    options = conn._execution_options  # a handler may set others, such as stream_results, for all that follows
    given.restore = restores
    given.is_forgotten = lambda: conn.get_transaction() is not root or not root.is_active
    given.is_returned = lambda: not conn.connection.is_valid
    listeners: dict[str, Callable[..., None]] = {"before_cursor_execute": sends}
    refusing = [conn]
    conn.commit = conn.rollback = ends
    driver = conn.connection.dbapi_connection
    with suppress(AttributeError):  # one in C, such as sqlite3's, has no attributes of its own
        driver.commit = driver.rollback = ends
        refusing.append(driver)
    given.is_guarded = driver in refusing
    if not given.is_guarded:  # a listener costs 30 microseconds, and the other drivers refuse by themselves
        listeners |= {"commit": ends, "rollback": ends}
    for name, listener in listeners.items():
        event.listen(conn, name, listener)
    try:
        yield
    finally:
        for one in refusing:
            del one.commit, one.rollback
        for name, listener in listeners.items():
            event.remove(conn, name, listener)


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
