"""A limit on how long a statement waits for a server that says nothing.

A server that was stopped, or that is behind a connection of which only this half is left, closes
nothing. No keepalive notices that: the kernel of a stopped server still answers. The connections
here therefore count the time without a byte from or to the server. A statement that transfers much
is not ended while it makes progress.

The limit belongs to the calls of mqpg, and not to the connection, because the caller's own
statements in a transaction may take as long as they like.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, TypeVar

import psycopg

__all__ = ["AsyncLimitedConnection", "LimitedConnection", "NoAnswer", "time_limit"]

T = TypeVar("T")

_limit: ContextVar[float | None] = ContextVar("mqpg_time_limit", default=None)


class NoAnswer(psycopg.OperationalError):
    """The server said nothing for too long. The connection is closed."""


class time_limit:
    """Limit the statements of the block, in this thread or task.

    Args:
        seconds: How long a statement may go on without a byte from or to the server. None: for
            ever.
    """

    __slots__ = ("_seconds", "_token")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._token: Token[float | None]

    def __enter__(self) -> None:
        self._token = _limit.set(self._seconds)

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _limit.reset(self._token)


class LimitedConnection(psycopg.Connection[Any]):
    """A connection that obeys `time_limit`."""

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        """Run a step of the protocol.

        Args:
            gen: The step, as psycopg makes it.
            *args: As in psycopg.
            **kwargs: As in psycopg.

        Returns:
            What the step comes to.

        Raises:
            NoAnswer: The limit has passed. The connection is closed.
        """
        seconds = _limit.get()
        if seconds is None:
            return super().wait(gen, *args, **kwargs)
        try:
            return super().wait(_bounded(gen, seconds), *args, **kwargs)
        except NoAnswer:
            self.pgconn.finish()
            raise


class AsyncLimitedConnection(psycopg.AsyncConnection[Any]):
    """An asynchronous connection that obeys `time_limit`."""

    async def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:
        """Run a step of the protocol.

        Args:
            gen: The step, as psycopg makes it.
            *args: As in psycopg.
            **kwargs: As in psycopg.

        Returns:
            What the step comes to.

        Raises:
            NoAnswer: The limit has passed. The connection is closed.
        """
        seconds = _limit.get()
        if seconds is None:
            return await super().wait(gen, *args, **kwargs)
        try:
            return await super().wait(_bounded(gen, seconds), *args, **kwargs)
        except NoAnswer:
            self.pgconn.finish()
            raise


def _bounded(gen: Generator[Any, Any, T], seconds: float) -> Generator[Any, Any, T]:
    """The same step, which raises NoAnswer after `seconds` in which the socket was never ready.

    psycopg resumes a step every 0.1 s with 0 where the socket is not ready.
    """
    try:
        wanted = next(gen)
        deadline = time.monotonic() + seconds
        while True:
            ready = yield wanted
            if ready:
                deadline = time.monotonic() + seconds
            elif time.monotonic() >= deadline:
                raise NoAnswer(f"the server did not answer within {seconds:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result
