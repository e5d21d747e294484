"""Every change says what it did, and hints of the broker name commands instead of SQL functions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer import Context
from typer.main import get_command

from mqpg.cli import app
from mqpg.cli.sentences import HINTS, hint_in_commands, sentence
from tests.support.in_process import Run

ROOT = Path(__file__).parents[2]
RAISED = re.compile(r"hint\s*=\s*('(?:[^']|'')*'(?:\s+'(?:[^']|'')*')*)")
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
        "subscription alter billing orders --any-tag": "group billing of topic orders: tags any",
        "subscription pause billing orders": "paused group billing on topic orders",
        "subscription resume billing orders": "resumed group billing on topic orders",
        "subscription remove billing orders": "group billing no longer reads topic orders",
        f"grant send orders {role}": f"role {role} may send to topic orders",
        f"revoke send orders {role}": f"role {role} may no longer send to topic orders",
        f"grant worker {role}": f"role {role} may run workers",
        "group alter shop --max-checks 3": "producer group shop: max_checks 3",
        "group drop shop": "dropped producer group shop",
        "topic drop orders": "dropped topic orders",
    }
    for command, line in said.items():
        if command == "subscription alter billing orders --any-tag":
            _, out, _ = run("subscription", "add", "billing", "orders")
            assert out.startswith("group billing reads topic orders: mode exclusive, start "), out
        if command == "group alter shop --max-checks 3":
            assert run("group", "create", "shop")[1].startswith("producer group shop is there: ")
        assert run(*command.split()) == (0, f"{line}\n", "")


def test_a_right_that_was_not_there(run: Run, role: str, db: psycopg.Connection[Any]) -> None:
    db.execute("select mqpg.create_topic('orders')")
    assert run("revoke", "send", "orders", role)[:2] == (1, "")


def test_seek_says_that_it_moved(run: Run, db: psycopg.Connection[Any]) -> None:
    db.execute("select mqpg.create_topic('orders'), mqpg.subscribe('billing', 'orders')")
    moved = "moved group billing on topic orders to latest"
    assert run("subscription", "seek", "billing", "orders", "latest", "--yes")[1].splitlines()[-1] == moved
    assert moved not in run("subscription", "seek", "billing", "orders", "latest", "--dry-run")[1]


def test_every_action_has_its_sentence() -> None:
    actions = {name for path in (ROOT / "mqpg" / "cli").glob("*.py") for name in MUTE.findall(path.read_text())}
    assert len(actions) > 20
    facts = dict.fromkeys(("topic", "consumer_group", "producer_group", "role", "handle", "target", "revoked"), "x")
    assert {name for name in actions if sentence(name, facts) is None} == {"down"}  # it says so on stderr


def test_hints_name_commands(run: Run) -> None:
    assert "(mqpg topic create TOPIC creates it.)" in run("send", "nothing", "1")[2]
    run("topic", "create", "orders")
    run("send", "orders", "1")
    status, _, err = run("topic", "drop", "orders")
    assert (status, "(mqpg topic drop TOPIC --force drops the topic with them.)" in err) == (1, True)


def test_a_missing_right_names_the_command(run: Run, role: str, dsn: str) -> None:
    run("topic", "create", "orders")
    run("topic", "create", "bills")
    run("grant", "send", "bills", role)
    other = psycopg.conninfo.make_conninfo(dsn, user=role, password="x")
    _, _, err = run("send", "orders", "1", "--dsn", other)
    assert f"The owner gives it with mqpg grant send orders {role}." in err


def raised_hints() -> set[str]:
    found = set()
    for path in (ROOT / "sql" / "functions").rglob("*.sql"):
        for literal in RAISED.findall(path.read_text()):
            found.add("".join(re.findall(r"'((?:[^']|'')*)'", literal)).replace("''", "'"))
    return found


def test_every_hint_that_names_a_function_has_its_command() -> None:
    hints = raised_hints()
    assert set(HINTS) <= hints, "the broker no longer says these"
    calls = {hint for hint in hints if re.search(r"\w\(\)|=>", hint)}
    others = {
        "A receipt stands for the whole delivery. ack() takes through or offsets for a part of it.",  # no command acks
        "exists($.total ? (@ > 100)) makes a predicate of a path.",
    }
    assert calls - set(HINTS) - others == set()
    assert all(hint_in_commands(hint) != hint for hint in HINTS)


def test_the_commands_of_the_hints_exist() -> None:
    top: Any = get_command(app)
    for text in HINTS.values():
        for words in re.findall(r"mqpg ([a-z]+(?: [a-z]+)?)", text):
            group, *rest = words.split()
            found = top.get_command(Context(top), group)
            assert found is not None, text
            if hasattr(found, "list_commands"):
                assert rest, text
                assert found.get_command(Context(found), rest[0]) is not None, text


def test_the_command_line_starts_without_sqlalchemy() -> None:
    code = "import sys, mqpg.cli; print('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
