"""Clock steps: a node's wall clock jumps and comes back, its monotonic clock does not, and it can sleep."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.chaos import clock
from lab.chaos.clock import Clocks
from lab.chaos.options import Options
from lab.chaos.run import run
from lab.chaos.schedule import STEPS
from lab.processes import LabError, Process
from mqpg.errors import ConfigurationError
from tests.support.waiting import eventually

pytestmark = pytest.mark.chaos

# It writes both clocks again and again, and sleeps as handlers do.
WATCH = """
import sys, time
while True:
    with open(sys.argv[1], "a") as file:
        file.write(f"{time.time()} {time.monotonic()}\\n")
    time.sleep(0.02)
"""


@contextmanager
def watching(clocks: Clocks, folder: Path) -> Iterator[None]:
    (folder / "watch.py").write_text(WATCH)
    (folder / "times").touch()
    environment = os.environ | clocks.environment("watch")
    node = Process("watch", [sys.executable, "watch.py", "times"], folder, environment)
    node.start()
    try:
        yield
        assert node.ended() is None, node.tail
    finally:
        node.kill()


@pytest.mark.rounds
@pytest.mark.parametrize("seconds", [7200, -7200])
def test_a_step_moves_the_wall_clock_of_a_running_process_only(tmp_path: Path, seconds: int) -> None:
    clocks = Clocks(tmp_path)

    def ahead() -> int | None:
        lines = (tmp_path / "times").read_text().splitlines(keepends=True)
        complete = [line.split() for line in lines if line.endswith("\n")]
        return round((float(complete[-1][0]) - time.time()) / 60) if complete else None

    with watching(clocks, tmp_path):
        eventually(lambda: ahead() == 0)
        clocks.step("watch", f"{seconds:+d}")
        eventually(lambda: ahead() == seconds / 60)
        clocks.step("watch", "+0")
        eventually(lambda: ahead() == 0)
    monotonic = [float(line.split()[1]) for line in (tmp_path / "times").read_text().splitlines()[:-1]]
    assert monotonic == sorted(monotonic)
    assert monotonic[-1] - monotonic[0] < 600


@pytest.mark.rounds
@pytest.mark.timeout(900)
def test_a_run_whose_clocks_are_stepped_is_valid() -> None:
    result = run(Options(rounds=4, interval=2.0, seed=12, rate=100.0, faults=("clock",)), print)
    assert result.verdict == "valid", result.as_json()
    assert {one.how for one in result.rounds} == {(step,) for step in STEPS}
    assert result.ended_by_themselves == []


@pytest.fixture
def no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that has the name of the library, and changes no clock."""
    (tmp_path / "faketime").mkdir()
    (tmp_path / "faketime" / "libfaketimeMT.so.1").touch()
    monkeypatch.setattr(clock, "_FOLDERS", (str(tmp_path),))


def test_a_step_that_no_process_feels_is_not_claimed(
    no_library: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = Clocks(tmp_path)
    with watching(clocks, tmp_path):
        clocks.step("watch", "+0")  # it is seen to be right
        monkeypatch.setattr(clock, "_PATIENCE", 0.5)
        with pytest.raises(LabError, match=r"watch did not feel a clock step to \+30 .*its clock is \+0 seconds"):
            clocks.step("watch", "+30")
        with pytest.raises(LabError, match=r"nobody did not feel .*: it notes no clock"):
            clocks.step("nobody", "+30")


def test_a_clock_a_little_behind_is_not_called_minus_zero(
    no_library: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "_PATIENCE", 0.0)
    (tmp_path / "clock-late.noted").write_text(f"{time.time() - time.monotonic() - 0.3}\n")
    with pytest.raises(LabError, match=r"its clock is \+0 seconds ahead"):
        Clocks(tmp_path).step("late", "+30")


def test_a_node_sleeps_by_select_and_the_other_sitecustomize_is_not_hidden(no_library: None, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("hidden = False")
    environment = os.environ | Clocks(tmp_path).environment("node") | {"LD_PRELOAD": ""}
    environment["PYTHONPATH"] += f"{os.pathsep}{tmp_path}"
    code = "import sys, time, sitecustomize as s; time.sleep(0); print(s.hidden, time.sleep.__module__)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "sitecustomize"]


def test_without_the_library_the_kind_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "_FOLDERS", (str(tmp_path),))
    with pytest.raises(ConfigurationError, match="apt-get install faketime"):
        Clocks(tmp_path)
