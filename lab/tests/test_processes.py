"""Processes of a run: kept alive, killed by pid with all that they started, stopped in order."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from lab import processes
from lab.processes import Fleet, LabError, Process, environment
from tests.support.waiting import eventually

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
# A process with a child, both of which write their pids.
PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
with open("pids.new", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename("pids.new", "pids")
time.sleep(60)
"""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setattr(processes, "_PAUSE", 0.1)
    fleet = Fleet(tmp_path, environment(), most=5)
    yield fleet
    fleet.retire(fleet.names)


def tend_until(fleet: Fleet, condition: Callable[[], object]) -> None:
    def look() -> object:
        fleet.tend()
        return condition()

    eventually(look)


def test_a_killed_process_is_started_again_after_its_pause(fleet: Fleet) -> None:
    fleet.add("appender", SLEEP)
    first = fleet.pids["appender"]
    assert fleet.kill("appender", 0.2) == f"appender (pid {first})"
    assert fleet.kill("appender", 0.2) is None, "it does not run"
    fleet.tend()
    assert fleet.living("appender") == [], "the pause is not over"
    tend_until(fleet, lambda: fleet.living("appender"))
    assert fleet.pids["appender"] != first
    assert (fleet.kills, fleet.crashes) == ({"appender": 1}, [])


def test_a_process_that_may_end_is_finished(fleet: Fleet) -> None:
    fleet.add("producer-1", [sys.executable, "-c", ""], finishes=True)
    fleet.add("producer-2", [sys.executable, "-c", "import time; time.sleep(0.3)"], finishes=True)
    tend_until(fleet, lambda: fleet.finished("producer"))
    assert fleet.crashes == []


def test_a_process_that_ends_by_itself_is_a_crash_and_is_started_again(fleet: Fleet) -> None:
    once = "import pathlib, sys, time; p = pathlib.Path('seen')\n"
    once += "if not p.exists(): p.touch(); print('first words', file=sys.stderr); sys.exit(4)\ntime.sleep(60)"
    fleet.add("consumer-1", [sys.executable, "-c", once])
    tend_until(fleet, lambda: fleet.crashes)
    assert fleet.crashes == ["consumer-1 ended with status 4: first words"]
    tend_until(fleet, lambda: fleet.living("consumer"))


def test_a_process_that_keeps_ending_ends_the_run(fleet: Fleet) -> None:
    fleet.add("keeper", [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(LabError, match="keeper ended with status 3"):
        tend_until(fleet, lambda: False)


def test_stop_asks_first_and_kills_what_does_not_listen(fleet: Fleet) -> None:
    fleet.add("kind", SLEEP)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(60)"
    fleet.add("deaf", [sys.executable, "-c", deaf])
    eventually(lambda: "deaf" in (fleet.folder / "deaf.log").read_text())
    pids = list(fleet.pids.values())
    assert fleet.stop(patience=0.5) == ["deaf"]
    assert not any(map(psutil.pid_exists, pids))


def test_a_kill_takes_the_children_too(tmp_path: Path) -> None:
    process = Process("parent", [sys.executable, "-c", PARENT], tmp_path, os.environ)
    process.start()
    eventually((tmp_path / "pids").exists)
    both = [psutil.Process(int(pid)) for pid in (tmp_path / "pids").read_text().split()]
    assert process.kill() == -signal.SIGKILL
    eventually(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in both))
    assert process.ended() is None  # it was killed, and did not end by itself


def test_a_process_stops_while_it_is_paused(tmp_path: Path) -> None:
    count = "import time\nwhile True: print(1, flush=True); time.sleep(0.01)"
    process = Process("count", [sys.executable, "-c", count], tmp_path, os.environ)
    process.start()
    try:
        eventually(lambda: process.log.read_text())
        process.send(signal.SIGSTOP)
        time.sleep(0.3)
        size = process.log.stat().st_size
        time.sleep(0.3)
        assert process.log.stat().st_size == size
        process.send(signal.SIGCONT)
        eventually(lambda: process.log.stat().st_size > size)
    finally:
        process.kill()
