"""The main job from the command line, with all its kills, judged by its own JSON."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.servers import server_folder

DEMO = [sys.executable, "-m", "lab.demo"]


@pytest.mark.chaos
@pytest.mark.spark
@pytest.mark.timeout(420)
def test_everything_is_killed_and_nothing_is_lost_or_doubled() -> None:
    command = [*DEMO, "--flights", "1500", "--seed", "7", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    cancelled = 4
    assert done.returncode == 0, found
    assert found["flights"] == 1_500
    assert found["committed"] == found["consumed"] == 1_500 - cancelled
    assert found["rolled_back"] == cancelled
    assert found["halves_rolled_back"] >= cancelled
    assert found["kills"] == {"producer": 1, "consumer": 1, "appender": 1, "compensator": 1}
    assert (found["restarts"], found["spared"]) == (1, 0)
    assert found["crashes"] == 0, "workers and consumers survive a restart of PostgreSQL by themselves"
    assert (found["verdict"], found["anomalies"], found["sums_match"]) == ("valid", {}, True)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for everything temporary, which the server's user may enter."""
    made = server_folder()
    yield made
    shutil.rmtree(made)


def start_and_wait_for_a_kill(seed: int, folder: Path) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """A demo at work, and its processes."""
    demo = subprocess.Popen(
        [*DEMO, "--flights", "3000", "--seed", str(seed)],
        env=os.environ | {"TMPDIR": str(folder)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert demo.stderr is not None
    said = ""
    for line in demo.stderr:
        said += line
        if "SIGKILL" in line:
            break
    workers = psutil.Process(demo.pid).children(recursive=True)
    assert len(workers) >= 5, said
    return demo, workers


@pytest.mark.chaos
def test_ctrl_c_stops_every_process_and_removes_the_data(folder: Path) -> None:
    demo, workers = start_and_wait_for_a_kill(1, folder)
    demo.send_signal(signal.SIGINT)
    said = demo.communicate(timeout=60)[1]
    assert demo.returncode == 130, said
    assert not [worker for worker in workers if worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE]
    assert not list(folder.iterdir()), "logs go too"


@pytest.mark.chaos
def test_no_process_outlives_a_killed_demo(folder: Path) -> None:
    demo, workers = start_and_wait_for_a_kill(2, folder)
    demo.kill()
    demo.communicate(timeout=60)
    assert not psutil.wait_procs(workers, timeout=120)[1]
