"""What a node with a clock of its own does before anything else: it notes its clock, and can sleep.

`time.sleep` of CPython asks for `clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME)`. libfaketime up
to 0.9.10 takes that point in time for one of the stepped wall clock, even where the monotonic clock
is left alone, and hands a negative one to the kernel, which answers EINVAL. `select` waits for a
span of time, which nothing has to convert.
"""

from __future__ import annotations

import importlib
import os
import select
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import SupportsIndex

NOTES = "MQPG_CHAOS_CLOCK_NOTES"

_LOOK = 0.2  # seconds
_STEP = 1.0  # seconds; a smaller change is no step


def sleep(seconds: float | SupportsIndex, /) -> None:
    """Wait, as `time.sleep` does."""
    select.select([], [], [], float(seconds))


def note(path: Path) -> None:
    """Note how far the wall clock is from the monotonic one, and again after each step."""
    last: float | None = None
    while True:
        now = time.time() - time.monotonic()
        if last is None or abs(now - last) > _STEP:
            with path.open("a", encoding="ascii") as file:
                file.write(f"{now:.3f}\n")
            last = now
        sleep(_LOOK)


def begin(notes: Path) -> None:
    """Prepare this process."""
    time.sleep = sleep
    threading.Thread(target=note, args=(notes,), name="clock", daemon=True).start()


def _import_the_other_one() -> None:
    """Import the `sitecustomize` that this one hides, if there is one."""
    here = str(Path(__file__).parent)
    sys.path[:] = [folder for folder in sys.path if folder != here]
    del sys.modules[__name__]
    with suppress(ImportError):
        importlib.import_module("sitecustomize")


if __name__ == "sitecustomize" and NOTES in os.environ:
    begin(Path(os.environ[NOTES]))
    _import_the_other_one()
