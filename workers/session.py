"""One long-lived connection of a worker, made again after every loss."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict

from mqpg import errors, migrate
from mqpg.dsn import describe

__all__ = ["Backoff", "Connection", "connect", "keep_connected", "patiently"]

logger = logging.getLogger(__name__)

Connection = psycopg.Connection[Any]
T = TypeVar("T")

# A host that vanished without a word is noticed within half a minute, here and (below) by the server, which
# then gives the lock of the lost worker to a standby. The DSN may say otherwise.
_TRANSPORT = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
# Passes want READ COMMITTED, and none may be cut by a time-out that an administrator meant for queries.
_SESSION = """
select set_config(wanted.name, wanted.value, false)
from (values
    ('default_transaction_isolation', 'read committed'),
    ('default_transaction_read_only', 'off'),
    ('statement_timeout', '0'),
    ('idle_session_timeout', '0')
) as wanted (name, value)
"""
# Not every platform of a server has all of these.
_WATCHED = {
    "client_connection_check_interval": "1s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


@dataclass
class Backoff:
    """Seconds to wait after failures in a row: exponential with jitter, from `first` to `most`."""

    first: float = 0.05
    most: float = 5.0
    _failures: int = field(default=0, init=False)

    def next(self) -> float:
        self._failures += 1
        return float(min(self.most, self.first * 2.0 ** min(self._failures - 1, 30)) * random.uniform(0.7, 1.0))

    def reset(self) -> None:
        self._failures = 0


def connect(dsn: str, name: str) -> Connection:
    """An autocommit connection with the settings that passes need. Raises mqpg.ConnectionFailed and SchemaError."""
    given = conninfo_to_dict(dsn)
    extra: dict[str, Any] = {key: value for key, value in _TRANSPORT.items() if key not in given}
    try:
        conn: Connection = psycopg.connect(dsn, autocommit=True, application_name=f"mqpg {name}", **extra)
    except psycopg.Error as error:
        raise errors.ConnectionFailed(f"cannot connect to {describe(dsn)}: {errors.translate(error)}") from error
    try:
        conn.execute(_SESSION)
        for setting in _WATCHED.items():
            with suppress(psycopg.errors.InvalidParameterValue):
                conn.execute("select set_config(%s, %s, false)", setting)
        migrate.check_connection(conn)
    except BaseException as error:
        conn.close()
        if isinstance(error, psycopg.Error):
            raise errors.translate(error) from error
        raise
    return conn


def patiently(connect: Callable[[], T], stop: threading.Event, patience: float) -> T | None:
    """What `connect` returns, tried for `patience` seconds; None when asked to stop meanwhile.

    Raises what it raises: at the start a wrong DSN is likelier than a server that comes back.
    """
    give_up, backoff, said = time.monotonic() + patience, Backoff(0.1, 1.0), False
    while not stop.is_set():
        try:
            return connect()
        except errors.ConnectionFailed as error:
            pause = backoff.next()
            if time.monotonic() + pause > give_up:
                raise
            if not said:
                logger.warning("no connection yet", extra={"error": error, "trying_for": f"{patience:g} s"})
            said = True
            stop.wait(pause)
    return None


def keep_connected(
    dsn: str,
    name: str,
    body: Callable[[Connection], None],
    stop: threading.Event,
    *,
    conn: Connection | None = None,
    on_failure: Callable[[errors.Error], None] = lambda error: None,
) -> None:
    """Call `body` with a connection until it returns normally or `stop` is set; `conn` is the first one if given.

    After any error of the database the connection goes, and all session state with it (so a lock that says
    "I lead" cannot outlive it, and a standby gets its turn), and comes back after a pause that grows with
    failures in a row. A body that ran for a while starts the pauses anew.
    """
    backoff = Backoff()
    while not stop.is_set():
        began = time.monotonic()
        try:
            with conn or connect(dsn, name) as conn:
                body(conn)
            return
        except (psycopg.Error, errors.Error) as error:
            if time.monotonic() - began > 2 * backoff.most:
                backoff.reset()
            known, pause = errors.translate(error), backoff.next()
            on_failure(known)
            logger.warning(
                "lost the connection" if isinstance(known, errors.ConnectionFailed) else "pass failed",
                extra={"connection": name, "error": known, "sqlstate": known.sqlstate, "retry_in": round(pause, 2)},
            )
        finally:
            conn = None
        stop.wait(pause)
    if conn is not None:
        conn.close()  # asked to stop before it was used
