"""Saying what takes long, so that nobody takes it for dead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mqpg.cli.options import say

__all__ = ["progress"]


@contextmanager
def progress(what: str, first: float = 5.0, then: float = 10.0) -> Iterator[Callable[[str], None]]:
    """Print a line on stderr that says `what` is done after `first` seconds, and again after `then`, and so on.

    Yields a function that changes what is done.
    """
    began, ended, doing = time.monotonic(), threading.Event(), [what]

    def tell() -> None:
        pause = first
        while not ended.wait(pause):
            say(f"mqpg: {doing[0]}, {time.monotonic() - began:.0f} s", err=True)
            pause = then

    teller = threading.Thread(target=tell, name="mqpg progress", daemon=True)
    teller.start()
    try:
        yield lambda now: doing.__setitem__(0, now)
    finally:
        ended.set()
        teller.join()
