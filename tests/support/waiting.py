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
        interval: Seconds between two calls, which are at least as many as the call took: what is waited for
            needs the processor, too.
        why: Called when time is up; its text is added to the failure.
    """
    began = time.monotonic()
    deadline = began + timeout
    while not (answer := probe()):
        ended = time.monotonic()
        assert ended < deadline, f"did not happen within {timeout} s\n{why()}"
        time.sleep(max(interval, ended - began))
        began = time.monotonic()
    return answer
