"""What the figures were measured on: processor, memory, versions, server settings."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from .server import Server

__all__ = ["SETTINGS", "describe"]

SETTINGS = (
    "fsync", "synchronous_commit", "full_page_writes", "wal_level", "shared_buffers", "max_wal_size",
    "checkpoint_timeout", "autovacuum", "autovacuum_naptime", "jit", "max_connections",
)  # fmt: skip


def describe(server: Server) -> dict[str, str]:
    """Describe the machine and the server: names and values, in the order of the report."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "fdatasync of 8 kB": f"{_sync_time() * 1000:.2f} ms in {tempfile.gettempdir()}",
        "PostgreSQL": server.scalar("show server_version"),
        "connection": "Unix socket" if "host=/" in server.dsn else "TCP",
        "Python": platform.python_version(),
        **{package: _version(package) for package in ("psycopg", "pgmq")},
        "PgQ": server.scalar("select default_version from pg_available_extensions where name = 'pgq'")
        or "not installed",
        **{name: server.scalar(f"select current_setting('{name}', true)") for name in SETTINGS},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") if Path("/proc/cpuinfo").exists() else open(os.devnull) as info:
        for line in info:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _sync_time() -> float:
    """Median time of one write and sync of 8 kB, in seconds."""
    times = []
    sync = getattr(os, "fdatasync", os.fsync)
    with tempfile.TemporaryFile() as file:
        for _ in range(40):
            began = time.perf_counter()
            file.write(bytes(8192))
            file.flush()
            sync(file.fileno())
            times.append(time.perf_counter() - began)
    return median(times)
