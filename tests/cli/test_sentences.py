"""What commands say, beside test_json.py: hints of the broker name commands instead of SQL functions."""

import re
from typing import Any

import psycopg
import pytest

from tests.support.in_process import Run
from tests.support.roles import Roles


@pytest.fixture
def role(roles: Roles) -> str:
    return roles("said").name


def test_the_schema_is_named(run: Run, db: psycopg.Connection[Any]) -> None:
    name = db.info.dbname
    for command in ("migrate", "migrate up"):
        assert re.search(rf"dbname={name}: schema of mqpg \d", run(*command.split())[1])
    assert f"dbname={name}: the server was not promoted" in run("migrate", "adopt", "--promoted")[1]
    assert f"dbname={name}:\ndropped the schema mqpg\n" in run("uninstall", "--yes")[1]


def test_hints_name_commands(run: Run) -> None:
    assert "(mqpg topic create nothing creates it.)" in run("send", "nothing", "1")[2]
    run("topic", "create", "orders")
    assert "(mqpg topic alter orders changes it.)" in run("topic", "create", "orders", "--queues", "16")[2]
    assert "(mqpg subscription add billing orders creates it.)" in run("subscription", "pause", "billing", "orders")[2]
    run("send", "orders", "1")
    status, _, err = run("topic", "drop", "orders")
    assert (status, "(mqpg topic drop orders --force drops it with them.)" in err) == (1, True)


def test_a_role_without_such_a_right_is_told_where_rights_come_from(run: Run, role: str, dsn: str) -> None:
    other = psycopg.conninfo.make_conninfo(dsn, user=role, password="x")
    for right in (False, True):
        status, out, err = run("topic", "list", "--dsn", other)
        assert (status, out) == (1, "")
        assert re.search("mqpg: permission denied for .*; the owner gives a role its rights with mqpg grant\n", err)
        if not right:
            run("topic", "create", "orders")
            run("grant", "send", "orders", role)


def test_the_doctor_of_a_role_says_what_it_may_look_at(run: Run, role: str, dsn: str) -> None:
    """Also that it does not see what sessions of other roles do."""
    run("topic", "create", "orders")
    run("grant", "send", "orders", role)
    with psycopg.connect(dsn):
        status, out, _ = run("doctor", "--dsn", psycopg.conninfo.make_conninfo(dsn, user=role, password="x"))
    assert status == 1
    assert "ok  PGMQ: " in out
    assert re.search(r"ok  old transactions: none .*, but this role does not see those of \d+ session", out)
    assert "!!  broker: permission denied for" in out
    assert "ask for the right operator or auditor" in out


def test_a_missing_right_names_the_command(run: Run, role: str, dsn: str) -> None:
    run("topic", "create", "orders")
    run("topic", "create", "bills")
    run("grant", "send", "bills", role)
    other = psycopg.conninfo.make_conninfo(dsn, user=role, password="x")
    _, _, err = run("send", "orders", "1", "--dsn", other)
    assert f"The owner gives it with mqpg grant send orders {role}." in err
