"""Calling a handler: middleware around it, a time limit, and the second parameter that it wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from mqpg._async._acompat import DriverConnection, PgConnection, Returns, call_within, finish, in_own_task
from mqpg._async.client.request_reply import is_request
from mqpg.connection.forking import ends_children
from mqpg.connection.stopping import stops_with
from mqpg.connection.time_limit import time_limit
from mqpg.handlers.options import ConsumerOptions
from mqpg.handlers.payload import Given, what_is_given
from mqpg.handlers.signature import message_place, second_parameter
from mqpg.handlers.unfinished import require_finished
from mqpg.tracing import processing
from mqpg.values.errors import HandlerStuck, HandlerTimeout
from mqpg.values.messages import Message

if TYPE_CHECKING:
    from mqpg._async._acompat import Connection

__all__ = ["HandlerInvoker", "Reply", "is_lost"]

# A request and what its handler returned.
Reply = tuple[Message, Any]
# Takes a message or a list of messages, and a connection or None.
Call = Callable[[Any, Any], Any]

_MOST_STUCK = 8


class HandlerInvoker:
    """Calls the handler of one consumer as its options say."""

    def __init__(self, handler: Callable[..., Returns[object]], options: ConsumerOptions) -> None:
        self._options = options
        self._wants = second_parameter(handler, options)
        self._given = what_is_given(handler, options)
        self._abandoned: list[Thread] = []  # of calls that had not returned when they were looked at last
        call = self._adapt(handler)
        for middleware in reversed(options.middleware):
            call = _around(middleware, call)
        # With a time limit a synchronous handler has a thread of its own. The span belongs there.
        self._span: Callable[[Any], AbstractContextManager[Any]] = (
            partial(processing, options.group) if options.time_limit is None else nullcontext
        )
        call = in_own_task(call)
        self._call: Call = call if options.time_limit is None else self._within_time(call)

    @property
    def takes_batches(self) -> bool:
        """Whether the handler takes a list of messages."""
        return self._options.batch

    @property
    def wants_driver(self) -> bool:
        """Whether the effect uses a psycopg connection, not SQLAlchemy."""
        return self._wants in ("driver", "nothing")

    async def __call__(
        self,
        messages: Sequence[Message],
        conn: PgConnection | Connection | None = None,
        is_over: Callable[[Sequence[Message]], Returns[bool]] | None = None,
    ) -> list[Reply]:
        """Handle messages one by one, or as a batch.

        `is_over` is asked with the messages of each call, however that ended. If so, the others are not
        handled. Returns the replies to send. Raises HandlerTimeout.
        """
        if not messages:
            return []
        replies: list[Reply] = []
        with stops_with(None):  # what is under way is finished, also while the consumer stops
            for part in [messages] if self._options.batch else [[message] for message in messages]:
                given: Any = list(part) if self._options.batch else part[0]
                for message in part:  # an earlier call may have failed, or was undone with another message
                    message._decode_again()
                over = False
                try:
                    with ends_children(), self._span(given), time_limit(None):
                        result = await _finished(self._call(given, conn))
                finally:
                    if is_over is not None:
                        over = await is_over(part)
                if over:
                    break
                if result is not None and not self._options.batch:
                    given._decode_again()
                    if is_request(given):
                        replies.append((given, result))
        return replies

    def require_not_stuck(self) -> None:
        """Raise HandlerStuck where too many calls never returned."""
        if len(self._abandoned) < _MOST_STUCK:
            return
        self._abandoned = [thread for thread in self._abandoned if thread.is_alive()]
        if len(self._abandoned) >= _MOST_STUCK:
            raise HandlerStuck(
                f"{len(self._abandoned)} calls of the handler of {self._options.group}/{self._options.topic} do not "
                "return; only a restart of the process ends their threads"
            )

    def _adapt(self, handler: Callable[..., Returns[object]]) -> Call:
        """The handler as a call with two arguments: a message or a list of messages, and `conn`."""
        given, place = self._given, message_place(handler)
        if place is not None:
            given, handler = _beside(given), _spread(handler, place)

        async def with_message_only(given: Any, conn: Any) -> Any:
            return await _finished(handler(given))

        if self._wants == "nothing":
            call: Call = with_message_only
        else:
            call = _with_session(handler) if self._wants == "session" else handler
        return call if given is None else _with_payload(given, call)

    def _within_time(self, inner: Call) -> Call:
        async def step(given: Any, conn: Any) -> Any:
            async def call() -> Any:
                with ends_children(), processing(self._options.group, given):
                    return await _finished(inner(given, conn))

            try:
                return await call_within(self._options.time_limit, call, conn)
            except HandlerTimeout as error:
                messages = given if isinstance(given, list) else [given]
                error.message_ids = tuple(message.message_id for message in messages)
                if error._thread is not None:
                    self._abandoned.append(error._thread)
                raise

        return step


def _with_payload(given: Given, inner: Call) -> Call:
    async def step(messages: Any, conn: Any) -> Any:
        return await _finished(inner(given(messages), conn))

    return step


def _beside(given: Given | None) -> Given:
    """What the handler is given, with the message (or messages) beside it."""
    return lambda messages: (messages if given is None else given(messages), messages)


def _spread(handler: Callable[..., Returns[object]], place: int) -> Callable[..., Returns[object]]:
    """The handler as one that takes such a pair as its first argument, and the connection."""

    def call(pair: tuple[Any, Any], *conn: Any) -> Returns[object]:
        arguments = [pair[0], *conn]
        arguments.insert(place, pair[1])
        return handler(*arguments)

    return call


def _with_session(handler: Callable[..., Returns[object]]) -> Call:
    """Hand a session to the handler.

    The session's commit ends a savepoint, because the transaction is the consumer's.
    """

    from mqpg._async._acompat import Session

    async def step(given: Any, conn: Any) -> Any:
        outer = conn.get_nested_transaction()
        try:
            async with Session(bind=conn, join_transaction_mode="create_savepoint") as session:
                with ends_children():
                    result = await _finished(handler(given, session))
                await session.commit()
        except BaseException:
            # Where that commit failed, its savepoint stays on the connection and would block a
            # rollback to ours.
            while (left := conn.get_nested_transaction()) is not None and left is not outer:
                await left.rollback()
            raise
        return result

    return step


def _around(middleware: Callable[..., Any], inner: Call) -> Call:
    async def step(given: Any, conn: Any) -> Any:
        async def proceed() -> Any:
            return await _finished(inner(given, conn))

        return await _finished(middleware(given, proceed))

    return step


async def _finished(result: Any) -> Any:
    """What a handler returned, when its work is done. Raises TypeError if it will not be."""
    result = await finish(result)
    require_finished(result)
    return result


def is_lost(conn: PgConnection | Connection) -> bool:
    """Whether nothing more can be done on this connection."""
    return conn.closed or (not isinstance(conn, DriverConnection) and conn.invalidated)
