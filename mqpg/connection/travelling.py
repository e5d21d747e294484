"""How many calls travel together in a lane, and which: for threads as for tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeVar

__all__ = ["CROWDED", "take_batch"]

_MOST = 1000  # calls of one batch
_MOST_BYTES = 262144  # about so many bytes of payloads end a record batch on the server too

CROWDED = 0.05
"""For so many seconds after a batch of several calls the next ones are expected too."""

_Call = TypeVar("_Call")


def take_batch(
    waiting: deque[_Call], size_of: Callable[[_Call], int], wanted: Callable[[_Call], bool] = lambda call: True
) -> list[_Call]:
    """Take the next batch of calls.

    Args:
        waiting: The calls, the one that waited longest first.
        size_of: Gives the bytes of a call's payloads.
        wanted: Whether a call still wants an answer. Without one it is dropped. Default: all do.

    Returns:
        The calls.
    """
    batch: list[_Call] = []
    size = 0
    while waiting and len(batch) < _MOST and size < _MOST_BYTES:
        call = waiting.popleft()
        if wanted(call):
            batch.append(call)
            size += size_of(call)
    return batch
