"""The decorator that makes a consumer of a handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, overload

from mqpg._async.consumer.consumer import AsyncConsumer
from mqpg._sync.consumer.consumer import Consumer
from mqpg.handlers.options import ConsumerOptions
from mqpg.handlers.unfinished import is_async
from mqpg.values.choices import AckTiming, Effect, Mode, OnFailure
from mqpg.values.messages import Interval

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

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
    schema: str | None = None,
    create_tables: bool = True,
    effect: Effect | None = None,
    mode: Mode | None = None,
    batch: bool = False,
    max_messages: int = 100,
    lease: Interval = 30.0,
    consumer: str | None = None,
    queues: Sequence[int] | None = None,
    journal: bool = False,
    ack: AckTiming = "each",
    concurrency: int = 1,
    timeout: timedelta | float | None = None,
    middleware: Sequence[Callable[..., Any]] = (),
    session: bool = False,
    subscribe: bool = True,
    start: str | datetime = "earliest",
    filter: str | None = None,
    tags: Sequence[str] | None = None,
    max_attempts: int = 16,
    retry_delay: Interval = 10.0,
    on_failure: OnFailure = "skip",
) -> _Decorator:
    """Make a consumer of ``handler(message, conn)`` or, with `batch`, ``handler(messages, conn)``.

    Where the effect of the handler is decides how often it happens:

    - In the broker's database (protocol C1, the default) it happens exactly once. `conn` is a
      psycopg connection, and its transaction also has the receive and the acknowledgement.
    - In another database (C2, `database`) it happens exactly once. `conn` is a SQLAlchemy
      connection to that database, and its transaction also has the consumer's offset.
    - Anywhere else (C3, ``effect="external"``) it happens at least once. The handler takes the
      message alone and works under a lease, and the message is acknowledged afterwards.

    The handler must not commit. An exception undoes its effect and sends the message to the retry
    lane: mqpg.Retry gives the delay, and mqpg.Reject makes the message a dead letter at once. What
    the handler returns is the reply, where the message was sent by `request`. A future that it
    returns is waited for, and so is anything else to await in an AsyncConsumer; a Consumer counts
    that as a failure.

    Args:
        topic: The topic to read.
        group: The consumer group.
        database: The SQLAlchemy URL or engine of the database of the effect (C2). None: the
            broker's database.
        schema: The schema of mqpg's tables there (MySQL: the database). None: where the connection
            looks for them.
        create_tables: Create these tables where they are missing. False: raise LedgerError, which says
            how to create them.
        effect: "broker", "database" or "external". None: "database" where `database` is given, else
            "broker".
        mode: The mode that the subscription gets, or has to have. None: the mode that it has; a new
            one gets "pinned" for C2, which needs that, else "exclusive".
        batch: Call the handler with the list of all messages of a delivery, instead of once for
            each message.
        max_messages: How many messages one delivery has at most, 1 to 10000.
        lease: How long messages stay with this consumer without a heartbeat: a timedelta, a number
            of seconds, or text such as "1 min". 30 seconds by default.
        consumer: The consumer's name. None: the variable MQPG_CONSUMER, or the host's name (with a
            mark of `database`).
        queues: Only these queues, and the retry lane. None: all queues.
        journal: Write a row of mqpg_applied for each effect, in its transaction, for the audit.
        ack: C3 only. "each" acknowledges after each message, "delivery" after all of them,
            "receive" before the handler runs (at most once).
        concurrency: How many deliveries are handled at the same time, 1 or more.
        timeout: Seconds that one call of the handler may take. None: no limit.
        middleware: Callables (message, proceed) around the handler, the first one outermost.
        session: Hand a SQLAlchemy session to the handler instead of a connection. A parameter with
            the annotation Session or AsyncSession does the same.
        subscribe: Create the subscription where it is missing. False: refuse to run without it.
        start: Where a new subscription starts: "earliest", "latest" or a time with its zone.
        filter: A new subscription's jsonpath predicate. None: all messages.
        tags: A new subscription's tags. None: any tag.
        max_attempts: How many deliveries a message of a new subscription has, 1 to 10000, before it
            becomes a dead letter.
        retry_delay: A new subscription's pause before the second attempt, which doubles with each
            further one. 10 seconds by default.
        on_failure: What waits behind a failed message of a new subscription: nothing ("skip"), the
            messages of its key ("block_key") or its whole queue ("block_queue").

    Returns:
        A decorator that makes a Consumer, or an AsyncConsumer of an ``async def`` handler.

    Raises:
        ConfigurationError: An option is not allowed, or two do not go together, or the handler
            takes too many parameters, or is a generator function, a class, or nothing that can be called.
    """
    options = ConsumerOptions(**locals())  # the arguments are its fields

    def decorate(handler: Callable[..., Any]) -> Any:
        made = AsyncConsumer if is_async(handler) else Consumer
        return made(handler, options)

    return decorate
