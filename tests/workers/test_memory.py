"""How much memory the processes take that run all day: what they share is divided among them (PSS)."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

import mqpg
from tests.support.waiting import eventually

Connection = psycopg.Connection[Any]

MB = 1_000_000
HANDLERS = {
    "broker": "@mqpg.consumer('t', group='g')\ndef handle(message, conn): ...",
    "external": "@mqpg.consumer('t', group='g', effect='external')\ndef handle(message): ...",
    "database": "@mqpg.consumer('t', group='g', consumer='c', database='sqlite:///own.db')\n"
    "def handle(message, conn): ...",
}


@pytest.fixture
def start(dsn: str, tmp_path: Path) -> Iterator[Callable[..., psutil.Process]]:
    """Starts `mqpg` as a user does, so that it shares nothing with the tests."""
    for name, handler in HANDLERS.items():
        (tmp_path / f"{name}.py").write_text(f"import mqpg\n{handler}\n")
    started: list[subprocess.Popen[bytes]] = []

    def call(*arguments: str) -> psutil.Process:
        command = [sys.executable, "-m", "mqpg", *arguments, "--heartbeat", "0.2"]
        started.append(subprocess.Popen(command, env=os.environ | {"MQPG_DATABASE_URL": dsn}, cwd=tmp_path))
        return psutil.Process(started[-1].pid)

    yield call
    for process in started:
        process.terminate()
        assert process.wait(60) == 0


def pss(process: psutil.Process) -> int:
    return sum(one.memory_full_info().pss for one in [process, *process.children(recursive=True)])


def assert_no_command_line(process: psutil.Process) -> None:
    """Typer reads options by means of pydantic, whose core is a file in C."""
    for one in [process, *process.children(recursive=True)]:
        assert [file.path for file in one.memory_maps() if "pydantic" in file.path] == []


def test_the_three_roles_and_their_supervisor(start: Callable[..., psutil.Process], db: Connection) -> None:
    process = start("worker")
    eventually(lambda: db.execute("select count(*) from mqpg.worker where state = 'active'").fetchone() == (3,))
    assert pss(process) < 60 * MB
    assert_no_command_line(process)


@pytest.mark.parametrize("handler", HANDLERS)
def test_a_consumer(start: Callable[..., psutil.Process], dsn: str, db: Connection, handler: str) -> None:
    with mqpg.connect(dsn) as mq:
        mq.create_topic("t")
    process = start("consume", f"{handler}:handle")
    eventually(lambda: db.execute("select count(*) from mqpg.worker where role = 'consumer'").fetchone() == (1,))
    assert pss(process) < (50 if handler == "database" else 40) * MB  # the first has to load SQLAlchemy
    assert_no_command_line(process)
