"""An audit that breaks off proves nothing: one line on stderr, and never the status of a fault."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from tests.audit.story import Trio
from tests.support.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.audits]

# Spark does not start with a heap below 450 MiB. This setting makes it believe in a larger one.
_PRETENDED = "-Dspark.testing.memory=2147483648"


def start(trio: Trio, stdout: int = subprocess.PIPE, **environment: str) -> subprocess.Popen[str]:
    broker, ledger, consumer = (make_url(dsn) for dsn in (trio.broker, trio.ledger, trio.consumer))
    if broker.password:
        environment["PGPASSWORD"] = str(broker.password)
    shown = [one._replace(password=None).render_as_string() for one in (broker, ledger, consumer)]
    arguments = ("--dsn", shown[0], "--ledger", f"shop={shown[1]}", "--applied", f"board={shown[2]}")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MQPG_", "PG", "DATABASE"))}
    return subprocess.Popen(
        [sys.executable, "-m", "mqpg", "audit", "--engine", "spark", "--local-threads", "1", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=inherited | {"COLUMNS": "160"} | environment,
    )


def one_line(process: subprocess.Popen[str]) -> str:
    """Wait for the end, require status 2 and one line on stderr, and return that line."""
    out, err = process.communicate(timeout=500)
    lines = err.splitlines()
    assert process.returncode == 2, err
    assert not out
    assert len(lines) == 1, err
    assert lines[0].startswith("mqpg: ")
    return lines[0]


def jvm_of(process: subprocess.Popen[str]) -> int | None:
    """Return the process id of the audit's JVM, once it runs."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            name = (folder / "comm").read_text().strip()
        except OSError:
            continue
        if parent == process.pid and name == "java":
            return int(folder.name)
    return None


def is_reading(process: subprocess.Popen[str], trio: Trio) -> bool:
    """Say whether the JVM runs and a snapshot of the broker is pinned."""
    assert process.poll() is None
    if jvm_of(process) is None:
        return False
    with psycopg.connect(trio.broker) as connection:
        query = "select from pg_stat_activity where application_name = 'mqpg audit' and backend_xmin is not null"
        return connection.execute(query).fetchone() is not None


@pytest.mark.parametrize(
    "options",
    ["-Xmx200m", "-Xmx8m", f"-Xmx64m {_PRETENDED}"],
    ids=["refused by Spark", "too small to start", "exhausted while it runs"],
)
def test_heap_that_is_too_small(trio: Trio, options: str) -> None:
    assert "out of memory" in one_line(start(trio, _JAVA_OPTIONS=options))


def test_jvm_that_is_killed(trio: Trio) -> None:
    process = start(trio)
    eventually(lambda: is_reading(process, trio), timeout=120)
    jvm = jvm_of(process)
    assert jvm is not None
    os.kill(jvm, signal.SIGKILL)
    assert "no verdict" in one_line(process)


def test_interruption(trio: Trio) -> None:
    process = start(trio)
    eventually(lambda: is_reading(process, trio), timeout=120)
    process.send_signal(signal.SIGINT)
    assert "interrupted" in one_line(process)


def test_database_that_goes_away(trio: Trio) -> None:
    process = start(trio)
    eventually(lambda: is_reading(process, trio), timeout=120)
    with psycopg.connect(trio.consumer, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'mqpg audit'"
        )
    assert "mqpg: " in one_line(process)


def test_report_that_cannot_be_written(trio: Trio) -> None:
    with open("/dev/full", "w") as full:
        process = start(trio, stdout=full.fileno())
        assert "No space left" in one_line(process)
