"""The fixtures of mqpg.testing."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import mqpg
from mqpg.embedded import EmbeddedServer
from mqpg.schema import migrate
from mqpg.schema.copies import settle_in

__all__ = ["Databases", "mqpg_client", "mqpg_databases", "mqpg_dsn", "mqpg_server"]

# A test does not survive a crash of its server, so nothing has to be flushed to disk.
_SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}


class Databases:
    """Copies of a migrated database. Each of them is a broker of its own.

    `server` is the DSN of the server, as a user who may create databases.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._mark = f"mqpg_test_{os.getpid()}_{secrets.token_hex(3)}"
        self._numbers = itertools.count(1)
        self._template: str | None = None

    def create(self) -> str:
        """Create a database and return its DSN."""
        if self._template is None:
            name = f"{self._mark}_template"
            self._execute(sql.SQL("create database {}").format(sql.Identifier(name)))
            self._template = name
            migrate.upgrade(self._dsn(name))
        name = f"{self._mark}_{next(self._numbers)}"
        pair = sql.Identifier(name), sql.Identifier(self._template)
        self._execute(sql.SQL("create database {} template {}").format(*pair))
        with psycopg.connect(self._dsn(name)) as connection:
            connection.execute("update mqpg.broker set broker_id = default")
            settle_in(connection)
        return self._dsn(name)

    def drop(self, dsn: str) -> None:
        """Drop a database that `create` returned, and cut the connections to it."""
        self._drop(str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]))

    def close(self) -> None:
        """Drop the template."""
        if self._template is not None:
            self._drop(self._template)

    def _drop(self, name: str) -> None:
        self._execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))

    def _dsn(self, name: str) -> str:
        return make_conninfo(self._server, dbname=name)

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self._server, autocommit=True) as connection:
            connection.execute(statement)


@pytest.fixture(scope="session")
def mqpg_server() -> Iterator[str]:
    """The DSN of the run's server: MQPG_TEST_DSN, or else an embedded one.

    Its user may create databases.
    """
    given = os.environ.get("MQPG_TEST_DSN")
    if given:
        yield given
        return
    with EmbeddedServer(settings=_SETTINGS) as server:
        yield server.dsn()


@pytest.fixture(scope="session")
def mqpg_databases(mqpg_server: str) -> Iterator[Databases]:
    """Creates migrated databases, for tests that need several brokers."""
    databases = Databases(mqpg_server)
    yield databases
    databases.close()


@pytest.fixture
def mqpg_dsn(mqpg_databases: Databases) -> Iterator[str]:
    """The DSN of this test's own database: migrated, empty, and dropped after the test."""
    dsn = mqpg_databases.create()
    yield dsn
    mqpg_databases.drop(dsn)


@pytest.fixture
def mqpg_client(mqpg_dsn: str) -> Iterator[mqpg.Client]:
    """A client of this test's own broker. No worker runs: call `drain` to append."""
    with mqpg.connect(mqpg_dsn) as client:
        yield client
