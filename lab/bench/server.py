"""The server under test, existing or embedded.

Every run has a database of its own, dropped afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from mqpg.connection.dsn import to_libpq
from mqpg.errors import ConnectionFailed

from .link import Link
from .sides import SIDES
from .sides.base import Unavailable

__all__ = ["Server"]


class Server:
    """Creates databases from a template in which every side is installed.

    Args:
        dsn: The server, as a role that may create databases.
        sides: The names of the sides to install.

    Attributes:
        missing: Why a side is not installed, by its name.
        major: The major version of PostgreSQL.
    """

    def __init__(self, dsn: str, sides: Sequence[str] = tuple(SIDES)) -> None:
        self.dsn = _by_socket(to_libpq(dsn))
        self._link = Link(self.dsn)
        self._sides = sides
        self.missing: dict[str, str] = {}
        self.major = int(self.scalar("show server_version_num")) // 10_000
        self._template = f"mqpg_bench_{os.getpid()}"
        self._number = 0

    def __enter__(self) -> Server:
        self._link.execute(f"create database {self._template}")
        try:
            for side in self._sides:
                try:
                    SIDES[side].install(self._dsn_of(self._template))
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
        """Create a database, which is dropped at the end of the block.

        Yields:
            Its DSN.
        """
        self._number += 1
        name = f"{self._template}_{self._number}"
        self._link.execute(f"create database {name} template {self._template}")
        try:
            yield self._dsn_of(name)
        finally:
            self._drop(name)

    def checkpoint(self) -> None:
        """Begin the run after a checkpoint, where the role has the right to make one."""
        with suppress(RuntimeError):
            self._link.execute("checkpoint")

    def scalar(self, sql: str) -> str:
        """The single value of a query."""
        return self._link.scalar(sql)

    def _drop(self, name: str) -> None:
        self._link.execute(f"drop database if exists {name} with (force)")

    def _dsn_of(self, database: str) -> str:
        return make_conninfo(self.dsn, dbname=database)


def _by_socket(dsn: str) -> str:
    """The DSN of the same server over its Unix socket.

    Unchanged where the socket cannot be reached.
    """
    link = Link(dsn)
    try:
        identity = _identity(link)
        folder = link.scalar("show unix_socket_directories").partition(",")[0].strip()
        port = link.scalar("show port")
    finally:
        link.close()
    host = str(conninfo_to_dict(dsn).get("host") or "")
    if not folder or host.startswith("/") or host not in ("", "localhost", "127.0.0.1", "::1"):
        return dsn
    local = make_conninfo(dsn, host=folder, port=port)
    with suppress(ConnectionFailed):
        link = Link(local)
        try:
            return local if _identity(link) == identity else dsn
        finally:
            link.close()
    return dsn


def _identity(link: Link) -> str:
    return link.scalar("select pg_postmaster_start_time() || ' ' || current_setting('port')")
