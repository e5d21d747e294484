"""Waiting for something that happens in another thread, process or server."""

import time
from collections.abc import Callable
from typing import Literal, TypeVar

__all__ = ["PATIENCE", "eventually"]

T = TypeVar("T")

# Generous, because the whole suite on two busy cores must not fail for want of time.
PATIENCE = 45.0  # seconds


def eventually(
    probe: Callable[[], T | Literal[False] | None],
    timeout: float = PATIENCE,
    interval: float = 0.01,
    why: Callable[[], str] = str,
) -> T:
    """Call `probe` until its answer is true, and return that answer.

    Args:
        probe: What is asked again and again.
        timeout: Seconds after which the test fails.
        interval: Seconds between two calls.
        why: Called when time is up; its text is added to the failure.
    """
    deadline = time.monotonic() + timeout
    while not (answer := probe()):
        assert time.monotonic() < deadline, f"did not happen within {timeout} s\n{why()}"
        time.sleep(interval)
    return answer
