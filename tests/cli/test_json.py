"""`--json` on every command: a listing prints an array, a change one object that says what was done."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mqpg.cli import main
from tests.support.commands import COMMANDS, takes
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
WITHOUT = {
    "consume": "it runs until it is stopped, and what it does is in its log",
    "mcp": "it runs until its input ends, and speaks MCP",
    "asyncapi": "it prints a JSON document anyway",
    "web": "it runs until it is stopped, and what it does is in its log",
    "worker": "it runs until it is stopped, and what it does is in its log",
    "migrate sql": "it prints a script for psql",
    "tables sql": "it prints statements for any program",
}

Run = Callable[..., tuple[int, Any, str]]


def test_each_command_takes_json_or_says_why_not() -> None:
    assert len(COMMANDS) > 50
    assert {name for name, command in COMMANDS.items() if not takes(command, "--json")} == set(WITHOUT)
    page = " ".join((ROOT / "docs" / "cli.md").read_text().split())
    excepted = page.partition("All commands take it but ")[2].partition(":")[0]
    assert set(re.findall(r"`(.*?)`", excepted)) == set(WITHOUT)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], dsn: str) -> Run:
    """`run("topic", "create", "t")` with --json: exit status, decoded stdout, stderr."""
    monkeypatch.setenv("MQPG_DATABASE_URL", dsn)

    def call(*arguments: str) -> tuple[int, Any, str]:
        monkeypatch.setattr(sys, "argv", ["mqpg", *arguments, "--json"])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), json.loads(out), err

    return call


def done(run: Run, *arguments: str) -> dict[str, Any]:
    status, found, err = run(*arguments)
    err = re.sub(r"^mqpg: .*, \d+ s\n", "", err, flags=re.M)  # of a slow machine
    assert (status, err) == (0, ""), err
    assert isinstance(found, dict)
    return found


def bury(db: psycopg.Connection[Any], count: int) -> list[int]:
    """Dead letters of g on orders."""
    db.execute("select mqpg.send('orders', '1') from generate_series(1, %s)", [count])
    db.execute("select mqpg.append()")
    found = []
    while rows := db.execute("select message_id, receipt from mqpg.receive('g', 'orders')").fetchall():
        found += [row[0] for row in rows]
        db.execute("select mqpg.nack(%s, %s, 'bad', final => true)", [rows[0][1], [row[0] for row in rows]])
    return found


def test_topics(run: Run, db: psycopg.Connection[Any]) -> None:
    assert done(run, "topic", "create", "orders", "--queues", "2") == {
        "action": "create_topic",
        "topic": "orders",
        "queues": 2,
        "retention": "7 days",
        "kind": "normal",
    }
    changed = done(run, "topic", "alter", "orders", "--retention", "3 days", "--no-checksums")
    assert changed == {"action": "alter_topic", "topic": "orders", "retention": "3 days", "checksums": False}
    for action in ("pause", "resume"):
        assert done(run, "topic", action, "orders") == {"action": action, "topic": "orders"}
    done(run, "subscription", "add", "g", "orders")
    db.execute("select mqpg.send('orders', '1')")
    db.execute("select mqpg.append()")
    assert done(run, "topic", "purge", "orders") == {"action": "purge_topic", "topic": "orders", "skipped": 1}
    assert done(run, "topic", "drop", "orders", "--force") == {"action": "drop_topic", "topic": "orders", "force": True}


def test_subscriptions(run: Run, db: psycopg.Connection[Any]) -> None:
    done(run, "topic", "create", "orders", "--queues", "2")
    both = {"consumer_group": "g", "topic": "orders"}
    added = done(run, "subscription", "add", "g", "orders", "--mode", "pinned", "--tag", "a")
    assert added == both | {
        "action": "subscribe",
        "mode": "pinned",
        "start": "earliest",
        "tags": ["a"],
        "max_attempts": 16,
        "retry_delay": "10 s",
        "on_failure": "skip",
    }
    changed = done(run, "subscription", "alter", "g", "orders", "--any-tag", "--max-attempts", "3")
    assert changed == both | {"action": "alter_subscription", "tags": [], "max_attempts": 3}
    for action in ("pause", "resume"):
        assert done(run, "subscription", action, "g", "orders") == both | {"action": action}
    unpinned = done(run, "subscription", "unpin", "g", "orders", "--queue", "0")
    assert unpinned == both | {"action": "unpin", "queue_id": 0}
    db.execute("select mqpg.send('orders', '1', tag => 'a')")
    db.execute("select mqpg.append()")
    sought = done(run, "subscription", "seek", "g", "orders", "latest", "--dry-run")
    effect = both | {"action": "seek", "target": "latest", "skipped": 1, "repeated": 0, "queues": 1}
    assert sought == effect | {"moved": False}
    assert done(run, "subscription", "seek", "g", "orders", "latest", "--yes") == effect | {"moved": True}
    assert done(run, "subscription", "remove", "g", "orders") == both | {"action": "unsubscribe"}


def test_dead_letters(run: Run, db: psycopg.Connection[Any]) -> None:
    done(run, "topic", "create", "orders")
    done(run, "subscription", "add", "g", "orders")
    first = bury(db, 3)[0]
    both = {"consumer_group": "g", "topic": "orders"}
    assert done(run, "dead-letters", "redrive", "g", "orders", "--id", str(first)) == both | {
        "action": "redrive",
        "messages": 1,
        "message_ids": [first],
    }
    assert done(run, "dead-letters", "discard", "g", "orders", "--all") == both | {
        "action": "discard_dead_letters",
        "messages": 2,
    }


def test_groups_and_halves(run: Run, db: psycopg.Connection[Any]) -> None:
    done(run, "topic", "create", "orders")
    created = done(run, "group", "create", "shop", "--max-checks", "1")
    assert (created["action"], created["producer_group"], created["max_checks"]) == ("create_producer_group", "shop", 1)
    changed = done(run, "group", "alter", "shop", "--expire-after", "never")
    assert changed == {"action": "alter_producer_group", "producer_group": "shop", "expire_after": "100 years"}
    query = b"select mqpg.prepare('orders', '1', 'shop', check_after => '10 ms')"
    handle, parked = (str(db.execute(query).fetchall()[0][0]) for _ in range(2))
    settled = {"action": "settle", "handle": handle, "verdict": "commit", "reason": "seen"}
    command = ("half", "settle", handle, "commit", "--reason", "seen")
    assert done(run, *command) == settled | {"outcome": "committed"}
    assert done(run, *command) == settled | {"outcome": "already_committed"}
    status, found, _ = run("half", "settle", handle, "rollback", "--reason", "seen")
    assert (status, found["outcome"]) == (1, "already_committed")

    def is_parked() -> bool:
        db.execute("select mqpg.due_checks('shop', lease => '10 ms')")
        return db.execute("select from mqpg.half_parked").rowcount == 1

    eventually(is_parked)
    assert done(run, "half", "rearm", parked) == {"action": "rearm", "handle": parked}
    done(run, "half", "settle", parked, "rollback", "--reason", "seen")
    assert done(run, "group", "drop", "shop") == {"action": "drop_producer_group", "producer_group": "shop"}


@pytest.mark.parametrize(
    ("right", "names"),
    [
        ("send", {"topic": "*"}),
        ("produce", {"producer_group": "*"}),
        ("receive", {"consumer_group": "*", "topic": "*"}),
        ("operator", {}),
        ("auditor", {}),
        ("worker", {}),
    ],
)
def test_rights(run: Run, right: str, names: dict[str, str]) -> None:
    facts = names | {"role": "pg_monitor"}
    assert done(run, "grant", right, *facts.values()) == {"action": f"grant_{right}"} | facts
    revoked = {"action": f"revoke_{right}"} | facts
    assert done(run, "revoke", right, *facts.values()) == revoked | {"revoked": True}
    status, found, err = run("revoke", right, *facts.values())
    assert (status, found) == (1, revoked | {"revoked": False})
    assert "did not have" in err


def test_schema(run: Run, dsn: str, db: psycopg.Connection[Any]) -> None:
    for command in (("migrate",), ("migrate", "up")):
        found = done(run, *command)
        assert (found["action"], found["problems"]) == ("migrate", [])
        assert {"database", "release", "migration"} < set(found)
    adopted = done(run, "migrate", "adopt", "--promoted")
    assert (adopted["action"], adopted["adopted"]) == ("adopt", False)
    removed = done(run, "uninstall", "--yes")
    assert removed["action"] == "uninstall"
    assert removed["done"]
    assert db.execute("select 1 from pg_namespace where nspname = 'mqpg'").fetchall() == []


def test_json_before_a_command_counts_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], dsn: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["mqpg", "migrate", "--dsn", dsn, "--json", "up"])
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out)["problems"] == []


def test_the_server(run: Run, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    started = done_quietly(run, "up", "--data", data, "--no-workers")
    assert (started["action"], started["data"], started["workers"]) == ("up", data, False)
    try:
        with psycopg.connect(started["dsn"]) as connection:
            assert connection.execute("select count(*) from mqpg.topics").fetchone() == (0,)
    finally:
        stopped = done_quietly(run, "down", "--data", data, "--remove")
    assert stopped == {"action": "down", "stopped": True, "data": data, "removed": True}


def done_quietly(run: Run, *arguments: str) -> dict[str, Any]:
    """Its steps go to stderr, so stdout is the object alone."""
    status, found, err = run(*arguments)
    assert status == 0, err
    assert isinstance(found, dict)
    return found
