"""A file system of its own for a broker's data, small enough to be filled.

It is a tmpfs, because mounting one needs no device. Mounting needs root, or a user namespace.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from lab.processes import LabError, persist
from mqpg.embedded import EmbeddedServer
from mqpg.errors import ConfigurationError

__all__ = ["SETTINGS", "enlarge", "recover", "run_full", "small_disk"]

_SIZE = "512m"
_LARGER = "8g"
_PATIENCE = 90.0  # seconds
_REFUSED = (
    "--faults disk mounts a small file system, which this user may not: run it as root, or behind "
    "`unshare --user --map-current-user --keep-caps --mount` ({reason})"
)
# The log of writes must fit beside the data.
SETTINGS: dict[str, str | int] = {"max_wal_size": "96MB", "min_wal_size": "32MB"}


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a small file system at a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={_SIZE},mode=0711"
    try:
        command = ["mount", "-t", "tmpfs", "-o", options, "mqpg-chaos", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ConfigurationError(_REFUSED.format(reason=error.strerror)) from error
    if done.returncode != 0:
        raise ConfigurationError(_REFUSED.format(reason=done.stderr.partition("\n")[0]))
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)


def enlarge(folder: Path) -> None:
    """Give a small file system more room, for what is read and judged at the end."""
    subprocess.run(["mount", "-o", f"remount,size={_LARGER}", str(folder)], capture_output=True, check=True)


def run_full(folder: Path, dsn: str, seconds: float) -> None:
    """Fill the file system at the folder of a server until the server breaks off, and free it.

    What is written to tables fails at once. The log of writes has space of its own until its next
    file has to be made, so in the end that is used up. PostgreSQL then panics.
    """
    ballast, enough = folder / "ballast", threading.Event()
    filler = threading.Thread(target=_fill, args=(ballast, enough))
    filler.start()
    try:
        time.sleep(seconds)
        _use_up_wal(dsn)
    finally:
        enough.set()
        filler.join()
        ballast.unlink(missing_ok=True)


def recover(server: EmbeddedServer) -> None:
    """Start the server again where it ended, and wait until it accepts connections."""

    def start() -> None:
        server.start()
        psycopg.connect(server.dsn(), connect_timeout=5).close()

    persist(start)


def _fill(ballast: Path, enough: threading.Event) -> None:
    """Take all of the space, and what becomes free."""
    with ballast.open("wb", buffering=0) as file:
        while not enough.wait(0.01):
            found = os.statvfs(ballast)
            with suppress(OSError):  # others are faster, or nothing is left
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, found.f_bavail * found.f_frsize)


def _use_up_wal(dsn: str) -> None:
    """Fill one file of the log of writes after the other, until the server breaks off."""
    until = time.monotonic() + _PATIENCE
    with suppress(psycopg.OperationalError), psycopg.connect(dsn, autocommit=True, connect_timeout=5) as conn:
        while time.monotonic() < until:
            with suppress(psycopg.errors.DiskFull):
                conn.execute("select pg_logical_emit_message(false, 'chaos', repeat('x', 1000000))")
                conn.execute("select pg_switch_wal()")
        raise LabError(f"the server did not break off within {_PATIENCE:g} seconds on a full disk")
