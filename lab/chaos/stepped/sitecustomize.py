"""A node with a clock of its own sleeps by `select`.

`time.sleep` of CPython asks for `clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME)`. libfaketime up
to 0.9.10 takes that point in time for one of the stepped wall clock, even if the monotonic clock
is left alone, and hands a negative one to the kernel, which answers EINVAL. `select` waits for a
span of time, which nothing has to convert.
"""

from __future__ import annotations

import select
import time
from typing import SupportsIndex


def sleep(seconds: float | SupportsIndex, /) -> None:
    """Wait, as `time.sleep` does."""
    select.select([], [], [], float(seconds))


if __name__ == "sitecustomize":
    time.sleep = sleep
