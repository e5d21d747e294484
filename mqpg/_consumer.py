"""The decorator that makes a consumer of a handler."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, overload

from sqlalchemy import URL, Engine
from sqlalchemy.ext.asyncio import AsyncEngine

from mqpg._async.consumer import AsyncConsumer
from mqpg._consumption import Options
from mqpg._sync.consumer import Consumer
from mqpg.message import Interval

__all__ = ["consumer"]


class _Decorator(Protocol):
    @overload
    def __call__(self, handler: Callable[..., Awaitable[None]]) -> AsyncConsumer: ...
    @overload
    def __call__(self, handler: Callable[..., None]) -> Consumer: ...


def consumer(
    topic: str,
    *,
    group: str,
    database: str | URL | Engine | AsyncEngine | None = None,
    mode: str | None = None,
    batch: bool = False,
    max_messages: int = 100,
    lease: Interval = 30.0,
    consumer: str | None = None,
    queues: Sequence[int] | None = None,
    journal: bool = False,
    start: str = "earliest",
    max_attempts: int = 16,
    retry_delay: Interval = 10.0,
) -> _Decorator:
    """Make a consumer of ``handler(message, conn)``, or of ``handler(messages, conn)`` with `batch`.

    Without `database` the effect goes into the broker's own, through `conn`, a psycopg connection, in one
    transaction with receive and ack (C1). With a SQLAlchemy URL or engine it goes there, through `conn`, a
    SQLAlchemy connection, in one transaction with the offset (C2). Both are exactly once; an `async def`
    gives an AsyncConsumer. The handler must not commit; its exception sends the message to the retry lane.

    `consumer` names the member (default MQPG_CONSUMER, else the host), `queues` restricts it to some;
    `journal` writes a row of table mqpg_applied for each effect. `start`, `max_attempts` and `retry_delay`
    are for the subscription where there is none yet. Raises ConfigurationError.
    """
    options = Options(
        topic=topic,
        group=group,
        database=database,
        mode=mode,
        batch=batch,
        max_messages=max_messages,
        lease=lease,
        consumer=consumer,
        queues=queues,
        journal=journal,
        start=start,
        max_attempts=max_attempts,
        retry_delay=retry_delay,
    )

    def decorate(handler: Callable[..., Any]) -> Any:
        made = AsyncConsumer if inspect.iscoroutinefunction(handler) else Consumer
        return made(handler, options)

    return decorate
