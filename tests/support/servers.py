"""Temporary servers, whose data are in memory where there is room.

Only a crash of the whole machine loses what a server wrote to a file, and no test makes one. A
killed server therefore finds the same files in memory as on a disk. What it did not write or flush
is lost in both (`tests/support/losing.py`).
"""

import os
import random
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from mqpg import migrate
from mqpg.embedded import EmbeddedServer

__all__ = [
    "copied_broker",
    "copied_files",
    "drop_database",
    "free_port",
    "free_ports",
    "restart",
    "server_folder",
    "stopped_broker",
    "temporary_server",
]

_MEMORY = Path("/dev/shm")
_ROOM = 6 << 30  # bytes that are free when a server starts; one takes 100 MB to 1 GB


@contextmanager
def temporary_server(**options: Any) -> Iterator[EmbeddedServer]:
    """Start a server with the options of EmbeddedServer; its data are deleted at the end."""
    server = EmbeddedServer(server_folder(), **options)
    try:
        server.start()
        _quick_logins(server.dsn())
        yield server
    finally:
        server.destroy()


@contextmanager
def stopped_broker() -> Iterator[EmbeddedServer]:
    """Make a server for `copied_broker`: it has stopped, and its database `broker` has the schema."""
    with temporary_server() as server:
        migrate.upgrade(server.create_database("broker"))
        server.stop()
        yield server


@contextmanager
def copied_broker(origin: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """Start a copy of a server that has stopped, which takes a fifth of the time of a new one."""
    server = EmbeddedServer(copied_files(origin))
    try:
        server.start()
        with psycopg.connect(server.dsn("broker")) as connection:
            connection.execute("update mqpg.broker set broker_id = default")
        yield server
    finally:
        server.destroy()


def copied_files(origin: EmbeddedServer) -> Path:
    """A new folder with the data of a server that has stopped."""
    folder = server_folder()
    subprocess.run(["cp", "-a", str(origin.pgdata), str(origin.directory / "password"), str(folder)], check=True)
    return folder


def _quick_logins(dsn: str) -> None:
    """Hash the password once instead of 4,096 times, which was most of what a connection cost its client."""
    with psycopg.connect(dsn) as connection:
        if connection.info.server_version >= 160000:
            connection.execute("set local scram_iterations = 1")
            change = sql.SQL("alter role current_user password {}").format(connection.info.password)
            connection.execute(change)


def free_ports(number: int) -> list[int]:
    """Ports of this machine that nothing listens on, nor will before they are used.

    Outgoing connections and listeners that leave the choice to the system get ports from 32768 on, and servers
    of `mqpg` those from 15000 on. Processes that run at the same time hardly choose the same ones; those of
    pytest-xdist share the seed of `random`.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(range(10_000, 15_000), 5_000):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == number:
            break
    return found


def free_port() -> int:
    """One of `free_ports`."""
    return free_ports(1)[0]


def server_folder() -> Path:
    """A new folder for the data of one server, which its account may enter."""
    folder = Path(tempfile.mkdtemp(prefix="mqpg-", dir=_MEMORY if _has_room() else None))
    folder.chmod(0o711)
    return folder


def restart(server: EmbeddedServer) -> None:
    """Stop a server as a crash does, and start it on the same port."""
    server.stop("immediate")
    server.start()


def drop_database(server: EmbeddedServer, name: str) -> None:
    """Drop a database, and cut the connections to it."""
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


def _has_room() -> bool:
    if not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _ROOM:
        return False
    found = [line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:")]
    return bool(found) and int(found[0].split()[1]) << 10 >= _ROOM
