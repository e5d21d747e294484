"""The command: its output, its exit status, and what it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from mqpg.crashtest.scratch import Scratch
from tests.fixtures.server import Server
from tests.support.forking import run_mqpg

APPS = Path(__file__).with_name("apps")
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(600)]


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run_mqpg("crashtest", *arguments, cwd=APPS, timeout=500, env=os.environ | environment)


@pytest.fixture
def creator(server: Server) -> Iterator[str]:
    """The DSN of a role that may create databases and nothing else."""
    name = f"creator_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server.dsn(), autocommit=True) as conn:
        conn.execute(sql.SQL("create role {} login createdb password 'x'").format(sql.Identifier(name)))
        yield make_conninfo(server.dsn(), user=name, password="x")
        conn.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def test_a_session_that_the_role_may_not_end_delays_a_drop_and_does_not_stop_it(creator: str, server: Server) -> None:
    """Autovacuum is such a session. Here it is one of a superuser, which ends after a second."""
    with Scratch(creator) as scratch:
        copy = scratch.copy()
        other = psycopg.connect(server.dsn(), dbname=copy.broker)
        timer = threading.Timer(1.0, other.close)
        timer.start()
        scratch.drop(copy)
        timer.join()
        assert scratch.dsns(copy) == []


def test_json_as_a_role_that_may_create_databases(creator: str) -> None:
    done = command(
        "right:bill", "--setup", "bill.sql", "--message", '{"id": 7}', "--points", "3", "--json", "--dsn", creator
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["outcomes"]["once"] == 3
    assert result["left_out"] > 0
    with psycopg.connect(creator) as conn:  # the role can be dropped only if it owns nothing any more
        left = "select datname from pg_database where pg_get_userbyid(datdba) = current_user"
        assert conn.execute(left).fetchall() == []


def test_the_table_and_a_repetition_that_is_accepted(server: Server) -> None:
    arguments = ["wrong:mail", "--message", '{"id": 7}', "--points", "3", "--dsn", server.dsn(), "--allow-doubled"]
    refused = command(*arguments)  # there is no terminal on which it could ask
    assert (refused.returncode, "each of its runs really sends" in refused.stderr) == (2, True), refused.stderr
    arguments += ["--yes"]
    done = command(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "file mails.txt: 1 doubled, for instance line=to 7" in done.stdout
    assert "advice: effect='external' happens at least once" in done.stdout
    assert not (APPS / "mails.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["right:bill", "--message", "{"], "a message must be JSON"),
        (["right:bill", "--setup", "absent.sql"], "--setup absent.sql: [Errno 2] No such file"),
        (["right:bill", "--message", '{"id": 7}', "--setup", "right:create_topic"], "Make your tables by --setup"),
    ],
)
def test_what_cannot_be_tried(arguments: list[str], words: str, server: Server) -> None:
    """The other reasons are tried in test_wrong.py."""
    done = command(*arguments, MQPG_CRASHTEST_DSN=server.dsn())
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert len([line for line in done.stderr.splitlines() if not line.startswith("mqpg: crash test of ")]) == 1


def test_no_server() -> None:
    assert command("right:bill", "--dsn", "postgresql://127.0.0.1:1/x").returncode == 3
