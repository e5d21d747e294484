"""Every command says that the disk is full. None of them says to start a consumer then."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import mqpg
from lab.chaos.disk import small_disk
from mqpg import migrate
from mqpg.embedded import EmbeddedServer
from mqpg.errors import ConfigurationError, DatabaseError
from mqpg.metrics.families import families
from mqpg.metrics.reading import read_metrics
from mqpg.status import findings, read_overview
from mqpg.workers import worker_of
from mqpg.workers.worker import Options
from tests.support.in_process import Run
from tests.support.servers import server_folder
from tests.support.waiting import eventually
from tests.support.working import at_work

SMALL: dict[str, str | int] = {"shared_buffers": "16MB", "max_wal_size": "64MB", "min_wal_size": "64MB"}


class Disk:
    """A small disk with a broker on it."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.dsn, self._ballast = dsn, folder / "ballast"

    def fill(self) -> None:
        """Leave no room. PostgreSQL panics without a new file for its log of writes, so that gets one before."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            conn.execute("select pg_switch_wal()")
            conn.execute("select mqpg.send('t', '0')")
        with self._ballast.open("wb") as file:
            for size in (1 << 20, 1 << 12):
                with suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)

    def free(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk() -> Iterator[Disk]:
    folder = server_folder()
    try:
        with small_disk(folder), EmbeddedServer(folder, settings=SMALL) as server:
            dsn = server.create_database("broker")
            migrate.upgrade(dsn)
            yield Disk(folder, dsn)
    except ConfigurationError as error:
        pytest.skip(f"this user may mount no small disk: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def dsn(disk: Disk) -> str:
    return disk.dsn


def fill_by_sends(mq: mqpg.Client) -> tuple[int, str | None]:
    """Send until it is refused: how many were acknowledged, and the SQLSTATE."""
    for number in range(100_000):
        try:
            mq.send("t", {"n": number, "body": "x" * 1000})
        except DatabaseError as error:
            return number, error.sqlstate
    raise AssertionError("the disk never gets full")


def said(dsn: str) -> list[str]:
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as conn:
        found = read_overview(lambda query: conn.execute(query.encode()).fetchall())
    return [one.found for one in findings(found) if one.check == "disk"]


def metrics(dsn: str) -> dict[str, float]:
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as conn:
        found = read_metrics(lambda query: conn.execute(query.encode()).fetchall())
    return {one.name: one.samples[0].value for one in families(found) if one.samples}


def test_a_full_disk_is_said_everywhere(disk: Disk, run: Run) -> None:
    with mqpg.connect(disk.dsn) as mq:
        mq.create_topic("t", queues=1)
        mq.subscribe("g", "t")
        with at_work(worker_of("keeper"), Options(disk.dsn, heartbeat=0.2)):
            _check(disk, mq, run)


def _check(disk: Disk, mq: mqpg.Client, run: Run) -> None:
    eventually(lambda: run("worker", "keeper", "--health")[0] == 0)
    disk.fill()
    acknowledged, sqlstate = fill_by_sends(mq)
    assert sqlstate == "53100"
    (sentence,) = eventually(lambda: [one for one in said(disk.dsn) if "since 2" in one])
    assert "the disk of the database is full" in sentence
    assert "mqpg keeper on 127.0.0.1" in sentence
    for words in (["worker", "keeper", "--health"], ["status"], ["doctor"], ["why"], ["why", "g", "t"]):
        status, out, err = run(*words)
        assert status == 1, words
        assert "is full" in out + err, words
        assert words == ["why", "g", "t"] or "mqpg consume" not in out + err, words
    assert metrics(disk.dsn)["mqpg_disk_full"] == 1
    disk.free()
    eventually(lambda: not said(disk.dsn))
    eventually(lambda: run("worker", "keeper", "--health")[0] == 0)
    assert metrics(disk.dsn)["mqpg_disk_full"] == 0
    mq.send("t", "later")
    mq.append()
    received: list[Any] = []
    while batch := mq.receive("g", "t", max_messages=10_000):
        received += batch
        batch.ack()
    assert len(received) == acknowledged + 2  # and one that was sent before, and one later
