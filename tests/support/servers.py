"""Temporary servers, whose data are in memory where there is room (`memory.py`).

What a killed server did not write or flush is lost there, too (`losing.py`).
"""

import random
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
from tests.support.memory import MEMORY, has_room

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
    folder = Path(tempfile.mkdtemp(prefix="mqpg-", dir=MEMORY if has_room() else None))
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
