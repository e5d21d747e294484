"""The connections of a client's pool, the cursors that its statements run on, and what is asked when one comes back."""

from __future__ import annotations

import logging
import time
from functools import cached_property
from operator import attrgetter
from typing import Any, NoReturn

from psycopg import AsyncConnection, AsyncCursor, Cursor
from psycopg.errors import Diagnostic
from psycopg.pq import TransactionStatus
from psycopg.raw_cursor import RawCursorMixin
from psycopg.rows import tuple_row

from mqpg.connection.arrays import TextListDumper
from mqpg.connection.forking import abandon, in_child, sever
from mqpg.connection.options import SETTINGS
from mqpg.connection.time_limit import AsyncLimitedConnection, LimitedConnection
from mqpg.values.errors import ConfigurationError
from mqpg.values.words import printable

__all__ = ["READ_ONLY", "RESET", "AsyncBrokerConnection", "BrokerConnection", "open_cursor", "reads_only"]

logger = logging.getLogger("mqpg")

# What a program may have left in a session that was lent to it. DISCARD ALL would also drop what psycopg has prepared,
# so a statement of SQL's PREPARE is only found: then there is a row. SET is neither planned nor executed as a query.
RESET = (
    "select from pg_prepared_statement() where from_sql limit 1; close all; set session authorization default; "
    "reset role; reset all; unlisten *; select pg_advisory_unlock_all(); discard temp; discard sequences"
    + "".join(f"; set {name} = '{value}'" for name, value in SETTINGS.items())
).encode()

# Errors that say something about the session or its server, and not about the statement: the server only reads, it
# ends sessions, this one was too long in a transaction, a prepared statement is gone or can be used no longer.
_SPOILED = ("25006", "25P03", "25P04", "57P", "08", "0A000", "26000", "42P05")
READ_ONLY = "25006"
_NEW = 1.0  # for how many seconds after that the server is taken for the same
_SAYS_READ_ONLY = (b"default_transaction_read_only", b"in_hot_standby")


def open_cursor(conn: Any) -> Any:
    """Open a cursor of tuples on a connection of psycopg, whatever factories that has."""
    if issubclass(conn.cursor_factory, RawCursorMixin):  # which has other placeholders
        cursor = (AsyncCursor if isinstance(conn, AsyncConnection) else Cursor)(conn, row_factory=tuple_row)
    else:
        cursor = (conn.own_cursor if isinstance(conn, _Pooled) else conn.cursor)(row_factory=tuple_row)
    cursor.adapters.register_dumper(list, TextListDumper)
    return cursor


def reads_only(conn: Any) -> bool:
    """Say whether the server of a connection of psycopg accepts no writes, by what it has reported."""
    return any(conn.pgconn.parameter_status(name) == b"on" for name in _SAYS_READ_ONLY)


class _Pooled:
    """What is noted while the connection is in use, so that one that comes back as it was needs no look."""

    doubtful = False  # whether it has to be looked at: the program has used it, or something went wrong
    spoiled = ""  # the SQLSTATE after which it must not be used again
    inherited = False  # whether it belongs to the parent of this process
    reads_only = False  # whether its server accepted no writes when it was made
    home: Any  # the pool that it came from

    @cached_property
    def calls(self) -> Any:
        """The cursor of all calls on this connection. A new one would have to look at the types of values again."""
        return open_cursor(self)

    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        """Open a cursor for the program, which may do anything to the session."""
        self.doubtful = True
        return super().cursor(*args, **kwargs)  # type: ignore[misc]

    def own_cursor(self, **kwargs: Any) -> Any:
        """Open a cursor for calls of this library."""
        return super().cursor(**kwargs)  # type: ignore[misc]

    def note_settings(self) -> None:
        """Note what a new connection is like, and what a program may set on the object."""
        self.reads_only, self._made_at = reads_only(self), time.monotonic()
        self._settings_as_made = _on_the_object(self)
        self.add_notice_handler(_pass_on)  # type: ignore[attr-defined]
        in_child(self)

    def blame(self, error: BaseException) -> None:
        """Note an error that was raised while the connection was used."""
        sqlstate = getattr(error, "sqlstate", None) or ""
        if sqlstate.startswith(_SPOILED):
            self.spoiled = sqlstate
        self.doubtful = self.doubtful or bool(self.spoiled) or not self._is_idle()

    def is_changed(self) -> bool:
        """Say whether the program has set something on the object, even without a statement."""
        handlers = len(self._notice_handlers) + len(self._notify_handlers)  # type: ignore[attr-defined]
        return handlers != 1 or _on_the_object(self) != self._settings_as_made

    def is_usable(self) -> bool:
        """Say whether it can be reset: nothing is under way, and nothing went wrong with it."""
        for name, value in zip((*_ON_THE_OBJECT, "_adapters"), (*self._settings_as_made, None), strict=True):
            setattr(self, name, value)
        self._notice_handlers[:] = [_pass_on]  # type: ignore[attr-defined]
        self._notify_handlers.clear()  # type: ignore[attr-defined]
        return not self.spoiled and self._is_idle()

    def is_stale(self, failed_at: float) -> bool:
        """Whether its server only reads, and a new connection might lead to another one.

        `failed_at` is when a call last failed because of that, as time.monotonic(), or 0.
        """
        return self.reads_only and (self._made_at < failed_at or 0 < failed_at < time.monotonic() - _NEW)

    def after_fork(self) -> None:
        """Belong to the parent from now on, who uses the session."""
        self.inherited = self.doubtful = True
        self.wait = _refuse
        abandon(self)
        sever(self)

    def _is_idle(self) -> bool:
        return bool(self.pgconn.transaction_status == TransactionStatus.IDLE)  # type: ignore[attr-defined]


_ON_THE_OBJECT = ("row_factory", "cursor_factory", "server_cursor_factory", "prepare_threshold")
_on_the_object = attrgetter(*_ON_THE_OBJECT)


def _pass_on(said: Diagnostic) -> None:
    """Log a warning of the server, such as that no compensator serves the ledger of a new producer group."""
    if said.severity_nonlocalized == "WARNING":
        logger.warning("%s", printable(". ".join(filter(None, (said.message_primary, said.message_hint)))))


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise ConfigurationError("this connection was made before fork(), and belongs to the parent process")


class BrokerConnection(_Pooled, LimitedConnection):
    """A connection of the synchronous library."""

    def close(self) -> None:
        """Close it, unless it is the parent's."""
        if not self.inherited:
            super().close()


class AsyncBrokerConnection(_Pooled, AsyncLimitedConnection):
    """A connection of the asynchronous library."""

    async def close(self) -> None:
        """Close it, unless it is the parent's."""
        if not self.inherited:
            await super().close()
