"""A consumer that has to end does not wait for a broker that is away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from mqpg.values.errors import ConnectionFailed

__all__ = ["BrokerAway", "is_stopping", "stops_with"]


class BrokerAway(ConnectionFailed):
    """The broker is away, and the consumer that made the call has to end."""


class _Flag(Protocol):
    def is_set(self) -> bool: ...


_stop: ContextVar[_Flag | None] = ContextVar("mqpg_stop", default=None)


@contextmanager
def stops_with(stop: _Flag | None) -> Iterator[None]:
    """Once `stop` is set, calls in the block do not wait for a broker that is away. None: they always wait."""
    token = _stop.set(stop)
    try:
        yield
    finally:
        _stop.reset(token)


def is_stopping() -> bool:
    """Whether this call is made by a consumer that has to end."""
    stop = _stop.get()
    return stop is not None and stop.is_set()
