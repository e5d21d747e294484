"""Processes of the demo: kept alive, struck by pid, stopped in order."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.demo.fleet import DemoError, Fleet, environment

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, environment({}))
    yield fleet
    fleet.stop(patience=2)


def tend_until(fleet: Fleet, condition: object, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        fleet.tend()
        time.sleep(0.02)


def test_a_killed_process_is_started_again_after_its_pause(fleet: Fleet) -> None:
    fleet.start("appender", "appender", SLEEP)
    (member,) = fleet.members
    first = member.process
    assert first is not None
    assert fleet.kill("appender", 5, pause=0.2) == f"appender (pid {first.pid})"
    assert first.returncode == -9
    assert fleet.kill("appender", 5, pause=0.2) is None, "nobody of the role lives now"
    fleet.tend()
    assert not member.alive, "the pause is not over"
    tend_until(fleet, lambda: member.alive)
    assert member.process is not first
    assert fleet.crashes == 0


def test_a_producer_that_ends_well_is_finished(fleet: Fleet) -> None:
    fleet.start("producer", "one", [sys.executable, "-c", ""])
    fleet.start("producer", "two", [sys.executable, "-c", "import time; time.sleep(0.3)"])
    tend_until(fleet, lambda: fleet.finished("producer"))
    assert fleet.crashes == 0


def test_a_process_that_ends_by_itself_is_a_crash_and_is_started_again(fleet: Fleet, tmp_path: Path) -> None:
    once = f"import pathlib, sys, time; p = pathlib.Path({str(tmp_path / 'seen')!r})\n"
    once += "if not p.exists(): p.touch(); print('first words', file=sys.stderr); sys.exit(4)\ntime.sleep(60)"
    fleet.start("consumer", "consumer", [sys.executable, "-c", once])
    tend_until(fleet, lambda: fleet.crashes == 1)
    assert "first words" in fleet.tail()
    tend_until(fleet, lambda: fleet.members[0].alive)


def test_a_process_that_keeps_crashing_ends_the_demo(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.demo.fleet._CRASH_PAUSE", 0.0)
    fleet.start("keeper", "keeper", [sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(DemoError, match="keeper keeps ending with status 3"):
        tend_until(fleet, lambda: False)


def test_stop_asks_first_and_kills_what_does_not_listen(fleet: Fleet) -> None:
    fleet.start("keeper", "kind", SLEEP)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(60)"
    fleet.start("appender", "deaf", [sys.executable, "-c", deaf])
    tend_until(fleet, lambda: "deaf" in (fleet.folder / "deaf.log").read_text())
    assert fleet.stop(patience=0.5) == ["deaf"]
    assert not any(member.alive for member in fleet.members)
