"""The main job from the command line, with all its kills, judged by its own JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from lab.demo.servers import ExistingHost
from tests.fixtures.server import Server
from tests.support.demo_databases import demo_databases

DEMO = [sys.executable, "-m", "lab.demo"]


def environment(dsn: str | None) -> dict[str, str]:
    """Without the variables that would name a server, then with `dsn` if one is given."""
    env = {name: value for name, value in os.environ.items() if name not in ("MQPG_DATABASE_URL", "DATABASE_URL")}
    return env | ({"MQPG_DATABASE_URL": dsn} if dsn else {})


def own_server(server: Server) -> str | None:
    """None where the demo can start a server of its own, as this run did."""
    return None if server.origin in ("embedded", "distribution") else server.dsn()


@pytest.mark.chaos
@pytest.mark.spark
@pytest.mark.timeout(420)
def test_everything_is_killed_and_nothing_is_lost_or_doubled(server: Server) -> None:
    dsn = own_server(server)
    done = subprocess.run(
        [*DEMO, "--flights", "1500", "--seed", "7", "--json"],
        env=environment(dsn),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    cancelled = 4
    assert done.returncode == 0, found
    assert found["flights"] == 1_500
    assert found["committed"] == found["consumed"] == 1_500 - cancelled
    assert found["rolled_back"] == cancelled
    assert found["halves_rolled_back"] >= cancelled
    assert found["kills"] == {"producer": 1, "consumer": 1, "appender": 1, "compensator": 1}
    assert (found["restarts"], found["disconnects"]) == ((1, 0) if dsn is None else (0, 1))
    assert found["spared"] == 0
    assert found["crashes"] == 0, "workers and consumers survive a restart of PostgreSQL by themselves"
    assert found["verdict"] == "valid"
    assert found["anomalies"] == {}
    assert found["sums_match"] is True
    assert found["seed"] == 7
    assert found["seconds"] > 0


def start_and_wait_for_a_kill(
    server: Server, seed: int, folder: Path
) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """A demo at work on the test server, and its processes."""
    demo = subprocess.Popen(
        [*DEMO, "--flights", "3000", "--seed", str(seed)],
        env=environment(server.dsn()) | {"TMPDIR": str(folder)},
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


def wait_until_gone(workers: list[psutil.Process], seconds: float) -> list[psutil.Process]:
    return psutil.wait_procs(workers, timeout=seconds)[1]


@pytest.mark.chaos
def test_ctrl_c_stops_every_process_and_drops_the_databases(server: Server, tmp_path: Path) -> None:
    before = demo_databases(server)
    demo, workers = start_and_wait_for_a_kill(server, seed=1, folder=tmp_path)
    demo.send_signal(signal.SIGINT)
    said = demo.communicate(timeout=60)[1]
    assert demo.returncode == 130, said
    assert not [worker for worker in workers if worker.is_running()]
    assert demo_databases(server) <= before
    assert not list(tmp_path.iterdir()), "logs go too"


@pytest.mark.chaos
def test_no_process_outlives_a_killed_demo(server: Server, tmp_path: Path) -> None:
    before = demo_databases(server)
    demo, workers = start_and_wait_for_a_kill(server, seed=2, folder=tmp_path)
    demo.kill()
    demo.communicate(timeout=60)
    assert not wait_until_gone(workers, seconds=60)
    left = demo_databases(server) - before
    assert len(left) == 3
    ExistingHost(server.dsn()).drop(sorted(left))


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["--flights", "0"], 2, "--flights"),
        (["--flights", "336777"], 2, "--flights"),
        (["--dsn", "postgresql://nobody@127.0.0.1:1/none"], 3, "does not answer"),
        (["--dsn", "mysql://root@localhost/x"], 2, "the DSN must begin with postgresql://"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: list[str], status: int, words: str) -> None:
    done = subprocess.run([*DEMO, *arguments], env=environment(None), capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
