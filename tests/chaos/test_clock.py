"""Clock steps: a node's wall clock jumps and comes back, and its monotonic clock does not."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from mqpg.chaos import clock
from mqpg.chaos.clock import Clocks
from mqpg.chaos.nodes import ProcessNode
from mqpg.errors import ConfigurationError
from tests.support.waiting import eventually

pytestmark = pytest.mark.chaos

# It writes both clocks again and again, and waits as the library does.
WATCH = """
import sys, threading, time
while True:
    with open(sys.argv[1], "a") as file:
        file.write(f"{time.time()} {time.monotonic()}\\n")
    threading.Event().wait(0.02)
"""


@pytest.mark.rounds
@pytest.mark.parametrize("seconds", [7200, -7200])
def test_a_step_moves_the_wall_clock_of_a_running_process_only(tmp_path: Path, seconds: int) -> None:
    clocks = Clocks(tmp_path)
    (tmp_path / "watch.py").write_text(WATCH)
    (tmp_path / "times").touch()
    node = ProcessNode("watch", ["watch", str(tmp_path / "times")], tmp_path, os.environ | clocks.environment("watch"))
    node.start()

    def ahead() -> int | None:
        lines = (tmp_path / "times").read_text().splitlines(keepends=True)
        complete = [line.split() for line in lines if line.endswith("\n")]
        return round((float(complete[-1][0]) - time.time()) / 60) if complete else None

    try:
        eventually(lambda: ahead() == 0)
        clocks.step("watch", f"{seconds:+d}")
        eventually(lambda: ahead() == seconds / 60)
        clocks.step("watch", "+0")
        eventually(lambda: ahead() == 0)
    finally:
        node.kill()
    monotonic = [float(line.split()[1]) for line in (tmp_path / "times").read_text().splitlines()[:-1]]
    assert monotonic == sorted(monotonic)
    assert monotonic[-1] - monotonic[0] < 600


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_FOLDERS", (str(tmp_path),))


def test_without_the_library_the_kind_is_refused(nowhere: None, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="apt-get install faketime"):
        Clocks(tmp_path)
