"""The decorator that makes a consumer of a handler."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
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
    def __call__(self, handler: Callable[..., Awaitable[Any]]) -> AsyncConsumer: ...
    @overload
    def __call__(self, handler: Callable[..., Any]) -> Consumer: ...


def consumer(
    topic: str,
    *,
    group: str,
    database: str | URL | Engine | AsyncEngine | None = None,
    effect: str | None = None,
    mode: str | None = None,
    batch: bool = False,
    max_messages: int = 100,
    lease: Interval = 30.0,
    consumer: str | None = None,
    queues: Sequence[int] | None = None,
    journal: bool = False,
    ack: str = "each",
    concurrency: int = 1,
    timeout: timedelta | float | None = None,
    middleware: Sequence[Callable[..., Any]] = (),
    session: bool = False,
    subscribe: bool = True,
    start: str = "earliest",
    filter: str | None = None,
    tags: Sequence[str] | None = None,
    max_attempts: int = 16,
    retry_delay: Interval = 10.0,
    on_failure: str = "skip",
) -> _Decorator:
    """Make a consumer of ``handler(message, conn)``, or of ``handler(messages, conn)`` with `batch`.

    Where the effect is decides how often it happens:

    - in the broker's database (C1, default): `conn` is a psycopg connection in one transaction with receive
      and ack. Exactly once.
    - in a database of its own (C2, `database` a SQLAlchemy URL or engine): `conn` is a SQLAlchemy connection
      in one transaction with the offset. Exactly once.
    - anywhere (C3, ``effect="external"``): ``handler(message)``, leased, at least once, acknowledged message by
      message, or by `ack` once a "delivery", or at "receive" before it is handled (at most once).

    `session` (or a parameter annotated Session) hands in a SQLAlchemy session instead of `conn`. An `async def`
    gives an AsyncConsumer. The handler must not commit. Its exception undoes the effect and sends the message
    to the retry lane; mqpg.Retry gives the delay, mqpg.Reject means the dead letters at once. `timeout` limits
    one call, in seconds; `middleware` are callables (message, proceed) around it, the first one outermost.
    What it returns is the reply when the message came by `request`.

    `concurrency` is the number of rounds at a time. `consumer` names the member (default MQPG_CONSUMER, else the
    host and the database), `queues` restricts it to some; `journal` writes a row of mqpg_applied for each effect.
    `mode`, `start`, `filter`, `tags`, `max_attempts`, `retry_delay` and `on_failure` are for the subscription,
    made where there is none yet unless `subscribe` is false. Raises ConfigurationError.
    """
    options = Options(
        topic=topic,
        group=group,
        database=database,
        effect=effect,
        mode=mode,
        batch=batch,
        max_messages=max_messages,
        lease=lease,
        consumer=consumer,
        queues=queues,
        journal=journal,
        ack=ack,
        concurrency=concurrency,
        timeout=timeout,
        middleware=tuple(middleware),
        session=session,
        subscribe=subscribe,
        start=start,
        filter=filter,
        tags=tags,
        max_attempts=max_attempts,
        retry_delay=retry_delay,
        on_failure=on_failure,
    )

    def decorate(handler: Callable[..., Any]) -> Any:
        is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
        made = AsyncConsumer if is_async else Consumer
        return made(handler, options)

    return decorate
