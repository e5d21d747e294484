"""What a call waits for less long once the consumer that makes it has to end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

__all__ = ["LAST_WAIT", "is_stopping", "stops_with"]

LAST_WAIT = 2.0
"""Seconds that a call of a consumer that has to end waits for a connection."""


class _Flag(Protocol):
    def is_set(self) -> bool: ...


_stop: ContextVar[_Flag | None] = ContextVar("mqpg_stop", default=None)


@contextmanager
def stops_with(stop: _Flag) -> Iterator[None]:
    """Once `stop` is set, calls in the block wait less long for a connection and repeat nothing.

    Args:
        stop: The event that ends the consumer when it is set.
    """
    token = _stop.set(stop)
    try:
        yield
    finally:
        _stop.reset(token)


def is_stopping() -> bool:
    """Say whether this call is made by a consumer that has to end.

    Returns:
        Whether it is. False for calls of anybody else.
    """
    stop = _stop.get()
    return stop is not None and stop.is_set()
