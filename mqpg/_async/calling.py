"""Calling a handler: middleware around it, a time limit, what its second parameter wants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mqpg._async._io import Connection, DriverConnection, Handled, PgConnection, Session, call_within
from mqpg._async.relay import RelayInbox
from mqpg._consumption import DRIVER, NOTHING, SESSION, Options, second_parameter
from mqpg._requests import is_request
from mqpg.errors import HandlerStuck, HandlerTimeout
from mqpg.message import Message

__all__ = ["Calls", "Reply", "is_lost"]

# A request and what its handler returned.
Reply = tuple[Message, Any]

_MOST_STUCK = 8


class Calls:
    """Calls the handler of one consumer as its options say."""

    def __init__(self, handler: Callable[..., Handled], options: Options) -> None:
        self._options = options
        self._wants = second_parameter(handler, options)
        self._handler = handler
        self._steps: Callable[[Any, Any], Any] = self._innermost
        for middleware in reversed(options.middleware):
            self._steps = _around(middleware, self._steps)
        self._stuck = 0
        # Of topics that relay undecided messages: holds those back.
        self.inbox = RelayInbox(options.group, options.topic, options.wanted_mode)

    @property
    def wants_driver(self) -> bool:
        """Whether the effect goes through a psycopg connection, not through SQLAlchemy."""
        return self._wants in (DRIVER, NOTHING)

    async def __call__(self, messages: Sequence[Message], conn: PgConnection | Connection | None = None) -> list[Reply]:
        """Handle them, one by one or as a batch; returns what is to be replied. Raises HandlerTimeout."""
        messages = await self.inbox.admit(messages, conn)
        if not messages:
            return []
        if self._options.batch:
            await self._one_call(list(messages), messages, conn)
            return []
        replies = []
        for message in messages:
            result = await self._one_call(message, [message], conn)
            if result is not None and is_request(message):
                replies.append((message, result))
        return replies

    def check_stuck(self) -> None:
        """Raises HandlerStuck when too many threads were left behind."""
        if self._stuck >= _MOST_STUCK:
            raise HandlerStuck(
                f"{self._stuck} calls of the handler of {self._options.group}/{self._options.topic} never returned; "
                "only a restart of the process ends their threads"
            )

    async def _one_call(
        self, given: Message | list[Message], messages: Sequence[Message], conn: PgConnection | Connection | None
    ) -> Any:
        async def call() -> Any:
            return await self._steps(given, conn)

        try:
            return await call_within(self._options.time_limit, call, conn)
        except HandlerTimeout as error:
            error.message_ids = tuple(message.message_id for message in messages)
            self._stuck += error.abandoned
            raise

    async def _innermost(self, given: Any, conn: Any) -> Any:
        if self._wants == NOTHING:
            return await self._handler(given)
        if self._wants != SESSION:
            return await self._handler(given, conn)
        return await self._in_session(given, conn)

    async def _in_session(self, given: Any, conn: Any) -> Any:
        """Its commit ends a savepoint; the transaction is the consumer's."""
        outer = conn.get_nested_transaction()
        try:
            async with Session(bind=conn, join_transaction_mode="create_savepoint") as session:
                result = await self._handler(given, session)
                await session.commit()
        except BaseException:
            # Where that commit failed its savepoint stays on the connection, in the way of a rollback to ours.
            while (left := conn.get_nested_transaction()) is not None and left is not outer:
                await left.rollback()
            raise
        return result


def _around(middleware: Callable[..., Any], inner: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    async def step(given: Any, conn: Any) -> Any:
        async def proceed() -> Any:
            return await inner(given, conn)

        return await middleware(given, proceed)

    return step


def is_lost(conn: PgConnection | Connection) -> bool:
    """Whether nothing more can be done on this connection."""
    return conn.closed or (not isinstance(conn, DriverConnection) and conn.invalidated)
