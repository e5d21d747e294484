"""What differs between the asynchronous and the synchronous library, under one set of names.

mqpg/_sync/_io.py is the other half, also written by hand; everything else in mqpg._sync is generated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import psycopg_pool
from sqlalchemy import URL, Row
from sqlalchemy.ext.asyncio import AsyncConnection as Connection
from sqlalchemy.ext.asyncio import AsyncEngine as Engine
from sqlalchemy.ext.asyncio import AsyncSession as Session
from sqlalchemy.ext.asyncio import AsyncTransaction as Transaction
from sqlalchemy.ext.asyncio import async_scoped_session as ScopedSession
from sqlalchemy.ext.asyncio import create_async_engine

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

DriverConnection = psycopg.AsyncConnection
PgConnection = psycopg.AsyncConnection[Any]
Pool = psycopg_pool.AsyncConnectionPool[PgConnection]
Event = asyncio.Event
Lock = asyncio.Lock
# What a handler returns.
Handled = Awaitable[object]

sleep = asyncio.sleep
in_thread = asyncio.to_thread


def make_engine(url: URL, **options: Any) -> Engine:
    return create_async_engine(url, **options)


def sync_engine(engine: Engine) -> Any:
    """The engine that events are listened to on."""
    return engine.sync_engine


def database_url(url: str | URL) -> URL:
    return dsns.to_sqlalchemy(url, asynchronous=True)


async def driver_connection(conn: Connection) -> Any:
    return (await conn.get_raw_connection()).driver_connection


async def run_sync(conn: Connection, function: Callable[..., Any], *args: Any) -> Any:
    """Call a synchronous function with the (synchronous) connection."""
    return await conn.run_sync(function, *args)


async def wait_for(event: Event, seconds: float) -> bool:
    """Wait until the event is set; False when it was not within `seconds`."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return False
    return True
