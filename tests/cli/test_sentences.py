"""Every change says what it did, and hints of the broker name commands instead of SQL functions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mqpg.cli.sentences import sentence
from tests.support.commands import COMMANDS, changes_something
from tests.support.in_process import Run
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
MUTE = re.compile(r'print_result\(\s*"(\w+)", as_json')


@pytest.fixture
def role(db: psycopg.Connection[Any]) -> Any:
    name = f"mqpg_said_{db.info.backend_pid}"
    db.execute(f"create role {name} login password 'x'")
    yield name
    db.execute(f"drop owned by {name}")
    db.execute(f"drop role {name}")


def test_each_change_says_what_it_did(run: Run, role: str) -> None:
    said = {
        "topic create orders --queues 2": "topic orders is there: queues 2, retention 7 days, kind normal",
        "topic alter orders --no-checksums": "topic orders: checksums no",
        "topic alter orders": "topic orders: nothing was given, nothing changed",
        "topic pause orders": "paused topic orders for all groups",
        "topic resume orders": "resumed topic orders",
        "subscription add billing orders --start latest": "group billing reads topic orders: mode exclusive, start "
        "latest, max_attempts 16, retry_delay 10 s, on_failure skip",
        "subscription alter billing orders --any-tag": "group billing of topic orders: tags any",
        "subscription pause billing orders": "paused group billing on topic orders",
        "subscription resume billing orders": "resumed group billing on topic orders",
        "dead-letters redrive billing orders": "group billing gets 0 dead letters of topic orders again",
        "dead-letters discard billing orders --id 7": "deleted 0 dead letters of group billing on topic orders",
        "topic purge orders": "the groups of topic orders skip 0 messages in all",
        "subscription add stock orders --mode pinned --start latest": "group stock reads topic orders: mode pinned, "
        "start latest, max_attempts 16, retry_delay 10 s, on_failure skip",
        "subscription unpin stock orders": "took all queues of topic orders from the consumers of group stock",
        "subscription unpin stock orders --queue 1 --consumer gone": "took queue 1 of topic orders from consumer gone "
        "of group stock",
        "group create shop --max-checks 2": "producer group shop is there: check_after 60 s, max_checks 2, on_exhausted "
        "park, checker due_checks, expire_after 7 days",
        "group alter shop --max-checks 3": "producer group shop: max_checks 3",
        f"grant send orders {role}": f"role {role} may send to topic orders",
        f"revoke send orders {role}": f"role {role} may no longer send to topic orders",
        f"grant produce shop {role}": f"role {role} may prepare and decide as producer group shop",
        f"revoke produce shop {role}": f"role {role} may no longer prepare and decide as producer group shop",
        f"grant receive billing orders {role}": f"role {role} may receive as group billing from topic orders",
        f"revoke receive billing orders {role}": f"role {role} may no longer receive as group billing from topic orders",
        f"grant operator {role}": f"role {role} may operate",
        f"revoke operator {role}": f"role {role} may no longer operate",
        f"grant auditor {role}": f"role {role} may audit",
        f"revoke auditor {role}": f"role {role} may no longer audit",
        f"grant worker {role}": f"role {role} may run workers",
        f"revoke worker {role}": f"role {role} may no longer run workers",
        "group drop shop": "dropped producer group shop",
        "subscription remove billing orders": "group billing no longer reads topic orders",
        "topic drop orders --force": "dropped topic orders",
    }
    for command, line in said.items():
        assert run(*command.split()) == (0, f"{line}\n", ""), command
    elsewhere = {
        "subscription seek": "test_seek_says_that_it_moved",
        "half settle": "test_half_messages of test_admin.py",
        "half rearm": "test_rearm_names_the_half_message",
        "migrate": "test_the_schema_is_named",
        "migrate up": "test_the_schema_is_named",
        "migrate adopt": "test_the_schema_is_named",
        "uninstall": "test_the_schema_is_named",
        "up": "test_home.py",
        "down": "test_home.py",
    }
    changes = {name for name, command in COMMANDS.items() if changes_something(command)}
    tested = {name for name in changes if any(command.startswith(f"{name} ") for command in said)}
    assert tested | elsewhere.keys() == changes


def test_rearm_names_the_half_message(run: Run, db: psycopg.Connection[Any]) -> None:
    db.execute("select mqpg.create_topic('orders')")
    db.execute("select mqpg.create_producer_group('shop', check_after => '10 ms', max_checks => 1)")
    (row,) = db.execute("select mqpg.prepare('orders', '1'::text, 'shop')").fetchall()

    def is_parked() -> bool:
        db.execute("select mqpg.due_checks('shop', lease => '10 ms')")
        return db.execute("select from mqpg.half_parked").rowcount == 1

    eventually(is_parked)
    assert run("half", "rearm", row[0]) == (0, f"the check-backs of {row[0]} start again\n", "")


def test_the_schema_is_named(run: Run, db: psycopg.Connection[Any]) -> None:
    name = db.info.dbname
    for command in ("migrate", "migrate up"):
        assert re.search(rf"dbname={name}: schema of mqpg \d", run(*command.split())[1])
    assert f"dbname={name}: the server was not promoted" in run("migrate", "adopt", "--promoted")[1]
    assert f"dbname={name}:\ndropped the schema mqpg\n" in run("uninstall", "--yes")[1]


def test_a_right_that_was_not_there(run: Run, role: str, db: psycopg.Connection[Any]) -> None:
    db.execute("select mqpg.create_topic('orders')")
    assert run("revoke", "send", "orders", role)[:2] == (1, "")


def test_seek_says_that_it_moved(run: Run, db: psycopg.Connection[Any]) -> None:
    db.execute("select mqpg.create_topic('orders'), mqpg.subscribe('billing', 'orders')")
    moved = "moved group billing on topic orders to latest"
    assert run("subscription", "seek", "billing", "orders", "latest", "--yes")[1].splitlines()[-1] == moved
    one_queue = run("subscription", "seek", "billing", "orders", "0", "--queue", "3")[1]
    assert one_queue.splitlines()[-1] == "moved group billing on queue 3 of topic orders to 0"
    assert moved not in run("subscription", "seek", "billing", "orders", "latest", "--dry-run")[1]


def test_every_action_has_its_sentence() -> None:
    actions = {name for path in (ROOT / "mqpg" / "cli").glob("*.py") for name in MUTE.findall(path.read_text())}
    assert len(actions) > 20
    facts: dict[str, Any] = dict.fromkeys(
        ("topic", "consumer_group", "producer_group", "role", "handle", "target"), "x"
    )
    facts |= {"revoked": True, "outcome": "committed", "messages": 1, "skipped": 1}
    assert {name for name in actions if sentence(name, facts) is None} == {"down"}  # it says so on stderr


def test_hints_name_commands(run: Run) -> None:
    assert "(mqpg topic create nothing creates it.)" in run("send", "nothing", "1")[2]
    run("topic", "create", "orders")
    assert "(mqpg topic alter orders changes it.)" in run("topic", "create", "orders", "--queues", "3")[2]
    assert "(mqpg subscription add billing orders creates it.)" in run("subscription", "pause", "billing", "orders")[2]
    run("send", "orders", "1")
    status, _, err = run("topic", "drop", "orders")
    assert (status, "(mqpg topic drop orders --force drops it with them.)" in err) == (1, True)


def test_a_missing_right_names_the_command(run: Run, role: str, dsn: str) -> None:
    run("topic", "create", "orders")
    run("topic", "create", "bills")
    run("grant", "send", "bills", role)
    other = psycopg.conninfo.make_conninfo(dsn, user=role, password="x")
    _, _, err = run("send", "orders", "1", "--dsn", other)
    assert f"The owner gives it with mqpg grant send orders {role}." in err


def test_the_command_line_starts_without_sqlalchemy() -> None:
    code = "import sys, mqpg.cli; print('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
