"""What differs between the synchronous and the asynchronous library: see mqpg/_async/_io.py."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import psycopg
import psycopg_pool
from sqlalchemy import URL, Connection, Engine, Row, Transaction, create_engine
from sqlalchemy.orm import Session
from sqlalchemy.orm import scoped_session as ScopedSession

from mqpg import dsn as dsns

__all__ = [
    "Connection",
    "DriverConnection",
    "Engine",
    "Event",
    "Handled",
    "Lock",
    "PgConnection",
    "Pool",
    "Row",
    "ScopedSession",
    "Session",
    "Transaction",
    "database_url",
    "driver_connection",
    "in_thread",
    "make_engine",
    "run_sync",
    "sleep",
    "sync_engine",
    "wait_for",
]

DriverConnection = psycopg.Connection
PgConnection = psycopg.Connection[Any]
Pool = psycopg_pool.ConnectionPool[PgConnection]
Event = threading.Event
Lock = threading.Lock
Handled = object

sleep = time.sleep

_P = ParamSpec("_P")
_T = TypeVar("_T")


def in_thread(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    return function(*args, **kwargs)


def make_engine(url: URL, **options: Any) -> Engine:
    return create_engine(url, **options)


def sync_engine(engine: Engine) -> Any:
    """The engine that events are listened to on."""
    return engine


def database_url(url: str | URL) -> URL:
    return dsns.to_sqlalchemy(url)


def driver_connection(conn: Connection) -> Any:
    return conn.connection.driver_connection


def run_sync(conn: Connection, function: Callable[..., Any], *args: Any) -> Any:
    """Call a synchronous function with the (synchronous) connection."""
    return function(conn, *args)


def wait_for(event: Event, seconds: float) -> bool:
    """Wait until the event is set; False when it was not within `seconds`."""
    return event.wait(seconds)
