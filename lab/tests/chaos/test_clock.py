"""Clock steps: a node's wall clock jumps and comes back, its monotonic clock does not."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from lab.chaos.clock import Clocks
from lab.processes import Process
from tests.support.waiting import eventually

pytestmark = [pytest.mark.chaos, pytest.mark.rounds]

# It writes both clocks again and again, and sleeps as handlers do.
WATCH = """
import sys, time
while True:
    with open("times", "a") as file:
        file.write(f"{time.time()} {time.monotonic()}\\n")
    time.sleep(0.02)
"""


@pytest.mark.parametrize("seconds", [7200, -7200])
def test_a_step_moves_the_wall_clock_of_a_running_process_only(tmp_path: Path, seconds: int) -> None:
    clocks, times = Clocks(tmp_path), tmp_path / "times"
    node = Process("watch", [sys.executable, "-c", WATCH], tmp_path, os.environ | clocks.environment("watch"))

    def read() -> list[list[float]]:
        lines = times.read_text().splitlines(keepends=True) if times.exists() else []
        return [list(map(float, line.split())) for line in lines if line.endswith("\n")]

    def is_ahead(minutes: float) -> bool:
        found = read()
        return bool(found) and round((found[-1][0] - time.time()) / 60) == minutes

    node.start()
    try:
        eventually(lambda: is_ahead(0))
        clocks.step("watch", f"{seconds:+d}")
        eventually(lambda: is_ahead(seconds / 60))
        clocks.step("watch", "+0")
        eventually(lambda: is_ahead(0))
        assert node.ended() is None, node.tail
    finally:
        node.kill()
    monotonic = [each[1] for each in read()]
    assert monotonic == sorted(monotonic)
    assert monotonic[-1] - monotonic[0] < 600
