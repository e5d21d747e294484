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
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any, TypeVar

import psycopg
from psycopg.pq.abc import PGconn

__all__ = ["AsyncLimitedConnection", "LimitedConnection", "NoAnswer", "time_limit"]

T = TypeVar("T")

_limit: ContextVar[float | None] = ContextVar("mqpg_time_limit", default=None)


class NoAnswer(psycopg.OperationalError):
    """The server said nothing for too long. The connection is closed."""


class time_limit:
    """Limit how long statements of the block go on without a byte from or to the server. None: no limit.

    It holds in this thread or task. It is a class because a generator would take three times as long,
    and each call has several limits.
    """

    __slots__ = ("_seconds", "_token")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        self._token = _limit.set(self._seconds)

    def __exit__(self, *raised: object) -> None:
        _limit.reset(self._token)


class _Limited:
    """What connections of both libraries do: their statements obey `time_limit`."""

    pgconn: PGconn

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Run a step of the protocol, as psycopg's `wait`, and raise NoAnswer when the limit has passed."""
        seconds = _limit.get()
        if seconds is not None:
            gen = _bounded(gen, seconds, self.pgconn.finish)
        return super().wait(gen, *args, **kwargs)  # type: ignore[misc]


class LimitedConnection(_Limited, psycopg.Connection[Any]):
    """A connection that obeys `time_limit`."""


class AsyncLimitedConnection(_Limited, psycopg.AsyncConnection[Any]):
    """An asynchronous connection that obeys `time_limit`."""


def _bounded(gen: Generator[Any, Any, T], seconds: float, close: Callable[[], object]) -> Generator[Any, Any, T]:
    """The same step, which closes the connection after `seconds` in which the socket was never ready.

    psycopg resumes a step every 0.1 s with 0 if the socket is not ready.
    """
    try:
        wanted = next(gen)
        deadline = time.monotonic() + seconds
        while True:
            ready = yield wanted
            if ready:
                deadline = time.monotonic() + seconds
            elif time.monotonic() >= deadline:
                close()
                raise NoAnswer(f"the server did not answer within {seconds:g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result
