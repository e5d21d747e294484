"""A file system of its own for a broker's data, small enough to be filled.

It is a tmpfs, because mounting one needs no device. Mounting needs root, or a user namespace.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

from mqpg.embedded import EmbeddedServer
from mqpg.errors import ConfigurationError

__all__ = ["SETTINGS", "recover", "run_full", "small_disk"]

_SIZE = "512m"
_PATIENCE = 90.0  # seconds
_BLOCK = bytes(1 << 16)
_REFUSED = (
    "--faults disk mounts a small file system, which this user may not: run it as root, or behind "
    "`unshare --user --map-current-user --keep-caps --mount` ({reason})"
)
# The log of writes must fit beside the data.
SETTINGS: dict[str, str | int] = {"max_wal_size": "96MB", "min_wal_size": "32MB"}


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a small file system at a folder, which is made.

    Args:
        folder: The folder.

    Raises:
        ConfigurationError: This user may not mount.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={_SIZE},mode=0711"
    try:
        command = ["mount", "-t", "tmpfs", "-o", options, "mqpg-chaos", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ConfigurationError(_REFUSED.format(reason=error.strerror)) from error
    if done.returncode != 0:
        raise ConfigurationError(_REFUSED.format(reason=" ".join(done.stderr.split())))
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)


def run_full(server: EmbeddedServer, dsn: str, seconds: float) -> bool:
    """Fill the file system of a server for some seconds, and free it.

    What is written to tables fails at once. The log of writes has space of its own until its next
    file has to be made, so the last third of the time uses that up. PostgreSQL then panics.

    Args:
        server: The server.
        dsn: One of its databases.
        seconds: For how long.

    Returns:
        Whether the server broke off.
    """
    ballast = server.directory / "ballast"
    filler = threading.Thread(target=_fill, args=(ballast, seconds))
    filler.start()
    try:
        time.sleep(seconds * 2 / 3)
        return _use_up_wal(dsn, seconds / 3)
    finally:
        filler.join()
        ballast.unlink(missing_ok=True)


def recover(server: EmbeddedServer) -> None:
    """Start the server again where it ended, and wait until it accepts connections.

    Args:
        server: The server.

    Raises:
        ConfigurationError: It does not, within a minute and a half.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            server.start()
            psycopg.connect(server.dsn(), connect_timeout=5).close()
            return
        except (ConfigurationError, psycopg.Error):
            if time.monotonic() > until:
                raise
            time.sleep(0.3)


def _fill(ballast: Path, seconds: float) -> None:
    """Take all of the space, and what becomes free."""
    until = time.monotonic() + seconds
    with ballast.open("wb", buffering=0) as file:
        while time.monotonic() < until:
            try:
                file.write(_BLOCK)
            except OSError:  # full
                with suppress(OSError):
                    file.write(_BLOCK[:4096])
                time.sleep(0.02)


def _use_up_wal(dsn: str, seconds: float) -> bool:
    """Fill one file of the log of writes after the other."""
    until = time.monotonic() + seconds
    try:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as conn:
            while time.monotonic() < until:
                with suppress(psycopg.errors.DiskFull):
                    conn.execute("select pg_logical_emit_message(false, 'chaos', repeat('x', 1000000))")
                    conn.execute("select pg_switch_wal()")
    except psycopg.OperationalError:
        return True
    return False
