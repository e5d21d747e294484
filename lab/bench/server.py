"""The server under test, and the machine. Every run has a database of its own, dropped afterwards."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from statistics import median

import psycopg
from psycopg.conninfo import make_conninfo

from mqpg.connection.dsn import to_libpq
from mqpg.schema.copies import settle_in

from .client import Link
from .sides import SIDES
from .sides.base import Unavailable

__all__ = ["SETTINGS", "Server"]

# As a server is configured for load. Everything else keeps PostgreSQL's default, above all fsync
# and synchronous_commit.
SETTINGS = {"max_wal_size": "8GB", "checkpoint_timeout": "30min", "autovacuum_naptime": "5s", "shared_buffers": "1GB",
    "unix_socket_directories": tempfile.gettempdir()}  # fmt: skip
_SHOWN = (
    "fsync", "synchronous_commit", "full_page_writes", "wal_level", "shared_buffers", "max_wal_size",
    "checkpoint_timeout", "autovacuum", "autovacuum_naptime", "jit", "max_connections",
)  # fmt: skip


class Server:
    """Creates databases from a template in which every side is installed.
    Attributes:
        missing: Why a side is not installed, by its name.
    """

    def __init__(self, dsn: str, sides: Sequence[str] = tuple(SIDES)) -> None:
        self.dsn = to_libpq(dsn)
        self._link, self._sides = Link(self.dsn), sides
        if folder := self.scalar("show unix_socket_directories").partition(",")[0].strip():
            self.dsn = make_conninfo(self.dsn, host=folder, port=self.scalar("show port"))
        self.missing: dict[str, str] = {}
        self.major = int(self.scalar("show server_version_num")) // 10_000
        self._template, self._number = f"mqpg_bench_{os.getpid()}", 0

    def __enter__(self) -> Server:
        self._link.execute(f"create database {self._template}")
        try:
            for side in self._sides:
                try:
                    SIDES[side].install(make_conninfo(self.dsn, dbname=self._template))
                except Unavailable as reason:
                    self.missing[side] = str(reason)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._drop(self._template)
        self._link.close()

    @contextmanager
    def database(self) -> Iterator[str]:
        """Create a database, which is dropped at the end of the block; its DSN."""
        self._number += 1
        name = f"{self._template}_{self._number}"
        self._link.execute(f"create database {name} template {self._template}")
        with psycopg.connect(make_conninfo(self.dsn, dbname=name)) as connection:
            settle_in(connection)
        try:
            yield make_conninfo(self.dsn, dbname=name)
        finally:
            self._drop(name)

    def checkpoint(self) -> None:
        """Begin the run after a checkpoint, if the role has the right to make one."""
        with suppress(RuntimeError):
            self._link.execute("checkpoint")

    def scalar(self, sql: str) -> str:
        """The single value of a query."""
        return self._link.scalar(sql)

    def describe(self) -> dict[str, str]:
        """The machine and the server: names and values, in the order of the report."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        pgq = self.scalar("select default_version from pg_available_extensions where name = 'pgq'")
        return {
            "processor": f"{_processor()}, {os.cpu_count()} cores",
            "memory": f"{memory:.0f} GiB",
            "system": f"{platform.system()} {platform.release()}",
            "load before": f"{os.getloadavg()[0]:.1f}",
            "fdatasync of 8 kB": f"{_sync_time() * 1000:.2f} ms in {tempfile.gettempdir()}",
            "PostgreSQL": self.scalar("show server_version"),
            "connection": "Unix socket" if "host=/" in self.dsn else "TCP",
            "Python": platform.python_version(),
            **{package: version(package) for package in ("psycopg", "pgmq")},
            "PgQ": pgq or "not installed",
            **{name: self.scalar(f"select current_setting('{name}', true)") for name in _SHOWN},
        }

    def _drop(self, name: str) -> None:
        self._link.execute(f"drop database if exists {name} with (force)")


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _sync_time() -> float:
    """Median time of one write and sync of 8 kB, in seconds."""
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(40):
            began = time.perf_counter()
            file.write(bytes(8192))
            file.flush()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return median(times)
