"""The long-lived connection of a worker, which is replaced after every loss."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import psycopg

from mqpg.connection.backoff import Backoff
from mqpg.connection.dsn import describe
from mqpg.connection.options import FORMATS, UNLIMITED, WATCHED, set_for_session, transport
from mqpg.connection.time_limit import LimitedConnection, time_limit
from mqpg.schema.compatibility import read, require_compatible
from mqpg.schema.source import packaged
from mqpg.values import errors
from mqpg.values.translation import translate

from .call_timeout import CALL_TIMEOUT

__all__ = ["Connection", "Stop", "connect", "stay_connected", "patiently"]

logger = logging.getLogger(__name__)

Connection = psycopg.Connection[Any]
T = TypeVar("T")


class Stop(Protocol):
    """Waits for the end, as an event of `threading` does."""

    def is_set(self) -> bool:
        """Whether the process has to stop."""

    def wait(self, timeout: float) -> bool:
        """Wait until the process has to stop, for `timeout` seconds at most. Returns whether it has to."""


_CONNECT_TIMEOUT = 5
_CONNECTING = 30.0  # the same for the statements that begin a session
# Nothing that lies in a schema of the default path may run as a worker. Workers need READ
# COMMITTED.
_SESSION = set_for_session(
    {
        "search_path": "pg_catalog, pg_temp",
        "default_transaction_isolation": "read committed",
        "default_transaction_read_only": "off",
        "idle_session_timeout": "0",
        **FORMATS,
        **WATCHED,
    }
)
# The server then notices a lost client during a statement, too. Not every platform has this setting.
_CHECK_CLIENT = "select set_config('client_connection_check_interval', '1s', false)"


def connect(dsn: str, name: str) -> Connection:
    """Open an autocommit connection with the settings that workers need.

    The server shows `name`, what the connection is for, in application_name. Raises ConnectionFailed,
    SchemaError, and ConfigurationError if a pooler in transaction mode is in between.
    """
    extra = transport(dsn, _CONNECT_TIMEOUT)
    try:
        conn: Connection = LimitedConnection.connect(dsn, autocommit=True, application_name=f"mqpg {name}", **extra)
    except psycopg.Error as error:
        raise errors.ConnectionFailed(f"cannot connect to {describe(dsn)}: {translate(error)}") from error
    try:
        with time_limit(_CONNECTING):
            _require_session(conn, dsn, extra)
            conn.execute(_SESSION)
            conn.execute(UNLIMITED)
            with suppress(psycopg.errors.InvalidParameterValue):
                conn.execute(_CHECK_CLIENT)
            require_compatible(read(conn), packaged())
    except BaseException as error:
        conn.close()
        if isinstance(error, psycopg.Error):
            raise translate(error) from error
        raise
    return conn


def _require_session(conn: Connection, dsn: str, extra: dict[str, Any]) -> None:
    """Raise for a pooler in transaction mode.

    The lock of a leader would stay with a connection of the pooler when the worker ends, and no other worker
    could lead.
    """
    before = _backend(conn)
    if before == conn.info.backend_pid:
        return
    # A pooler is in between. In transaction mode two sessions share a connection: the second one
    # gets the connection of the first, or keeps it from getting it again.
    name = conn.info.get_parameters().get("application_name")
    with LimitedConnection.connect(dsn, application_name=name, **extra) as other:
        if _backend(other) == before or _backend(conn) != before:
            raise errors.ConfigurationError(
                f"{describe(dsn)} is a pooler in transaction mode, and workers need a session: connect them to "
                "PostgreSQL directly"
            )


def _backend(conn: Connection) -> int:
    row = conn.execute("select pg_backend_pid()").fetchone()
    return 0 if row is None else int(row[0])


def patiently(connect: Callable[[], T], stop: Stop, patience: float) -> T | None:
    """Try to connect for `patience` seconds. None: `stop` was set before.

    The time is short, because at the start a wrong DSN is more likely than a server that comes back.
    """
    deadline, backoff, reported = time.monotonic() + patience, Backoff(0.1, 1.0), False
    while not stop.is_set():
        try:
            return connect()
        except errors.ConnectionFailed as error:
            pause = backoff.next()
            if time.monotonic() + pause > deadline:
                raise
            if not reported:
                logger.warning("no connection yet", extra={"error": error, "trying_for": f"{patience:g} s"})
            reported = True
            stop.wait(pause)
    return None


def stay_connected(
    dsn: str,
    name: str,
    body: Callable[[Connection], None],
    stop: threading.Event,
    *,
    conn: Connection | None = None,
    on_failure: Callable[[errors.Error], None] = lambda error: None,
    call_timeout: float = CALL_TIMEOUT,
    on_too_new: Callable[[errors.SchemaTooNew], None] = lambda error: None,
) -> None:
    """Call `body` with a connection, again after each failure, until it returns or `stop` is set.

    After any error of the database the connection is closed, and its session state ends with it. A leader's
    lock therefore cannot outlive its connection, and a standby can take over. The next connection is made
    after a pause that grows with failures in a row. What else `body` raises ends the loop.

    `name` is for application_name and the log. `on_failure` gets each error. A server that says nothing for
    `call_timeout` seconds is given up. If the schema is too new, `on_too_new` is called and the loop ends.
    """
    backoff = Backoff()
    while not stop.is_set():
        began = time.monotonic()
        try:
            with time_limit(call_timeout), conn or connect(dsn, name) as conn:
                body(conn)
            return
        except errors.SchemaTooNew as error:
            logger.error("this release is too old for the schema", extra={"connection": name, "error": error})
            on_too_new(error)
            return
        except (psycopg.Error, errors.Error) as error:
            if time.monotonic() - began > 2 * backoff.most:  # it worked for a while
                backoff.reset()
            known, pause = translate(error), backoff.next()
            on_failure(known)
            logger.warning(
                "lost the connection" if isinstance(known, errors.ConnectionFailed) else "iteration failed",
                extra={"connection": name, "error": known, "sqlstate": known.sqlstate, "retry_in": round(pause, 2)},
            )
        finally:
            conn = None
        stop.wait(pause)
    if conn is not None:
        conn.close()  # `stop` was set before it was used
