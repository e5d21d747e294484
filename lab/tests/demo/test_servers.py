"""The three databases, on a server that is not the demo's."""

from __future__ import annotations

import psycopg
import pytest

from lab.demo.servers import Databases, ExistingHost, temporary_databases
from mqpg.errors import ConnectionFailed
from tests.fixtures.server import Server
from tests.support.demo_databases import demo_databases


def test_three_fresh_databases_are_dropped_at_the_end(server: Server) -> None:
    with temporary_databases(ExistingHost(server.dsn()), keep=False) as (databases, names):
        assert set(names) <= demo_databases(server)
        dsns = {databases.broker, databases.airline, databases.board}
        found = set()
        for dsn in dsns:
            with psycopg.connect(dsn) as conn:
                found.add(conn.info.dbname)
        assert found == set(names)
    assert not set(names) & demo_databases(server)


def test_they_are_dropped_after_a_failure_too(server: Server) -> None:
    with (
        pytest.raises(RuntimeError, match="boom"),
        temporary_databases(ExistingHost(server.dsn()), keep=False) as (_, names),
    ):
        raise RuntimeError("boom")
    assert not set(names) & demo_databases(server)


def test_an_existing_server_loses_connections_of_the_demo_only(server: Server, db: psycopg.Connection) -> None:
    host = ExistingHost(server.dsn())
    with temporary_databases(host, keep=False) as (databases, names):
        conn = psycopg.connect(databases.airline, autocommit=True)
        assert host.shake(names) == "disconnect"
        with pytest.raises(psycopg.OperationalError):
            conn.execute("select 1")
        conn.close()
        assert db.execute("select 1").fetchone() == (1,)


def test_urls_are_for_sqlalchemy_and_keep_the_password() -> None:
    databases = Databases(
        broker="host=h dbname=b", airline="postgresql://u:p%40ss@h:5433/a", board="host=/tmp port=5433 dbname=c user=u"
    )
    assert databases.airline_url == "postgresql+psycopg://u:p%40ss@h:5433/a"
    assert databases.board_url.startswith("postgresql+psycopg://u@/c?")


def test_a_server_that_does_not_answer_is_one_clear_line() -> None:
    host = ExistingHost("postgresql://nobody@127.0.0.1:1/none")
    with (
        pytest.raises(ConnectionFailed, match=r"host=127\.0\.0\.1 port=1 dbname=none does not answer"),
        temporary_databases(host, keep=False),
    ):
        pass
