"""How much memory the processes take that run all day: what they share is divided among them (PSS)."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import psycopg
import pytest

from tests.support.waiting import eventually

Connection = psycopg.Connection[Any]

MB = 1_000_000


@pytest.fixture
def start(dsn: str) -> Iterator[Callable[..., psutil.Process]]:
    """Starts `mqpg` as a user does, so that it shares nothing with the tests."""
    started: list[subprocess.Popen[bytes]] = []

    def call(*arguments: str) -> psutil.Process:
        command = [sys.executable, "-m", "mqpg", *arguments, "--heartbeat", "0.2"]
        started.append(subprocess.Popen(command, env=os.environ | {"MQPG_DATABASE_URL": dsn}))
        return psutil.Process(started[-1].pid)

    yield call
    for process in started:
        process.terminate()
        assert process.wait(60) == 0


def pss(process: psutil.Process) -> int:
    return sum(one.memory_full_info().pss for one in [process, *process.children(recursive=True)])


def test_the_three_roles_and_their_supervisor(start: Callable[..., psutil.Process], db: Connection) -> None:
    process = start("worker")
    eventually(lambda: db.execute("select count(*) from mqpg.worker where state = 'active'").fetchone() == (3,))
    assert pss(process) < 70 * MB
