"""Every change says what it did, in one line or as one object, and a listing prints an array (--json)."""

import json
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.commands import COMMANDS, changes_something, takes
from tests.support.in_process import Run
from tests.support.roles import Roles
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


def test_each_command_takes_json_or_says_why_not() -> None:
    assert len(COMMANDS) > 50
    assert {name for name, command in COMMANDS.items() if not takes(command, "--json")} == set(WITHOUT)
    page = " ".join((ROOT / "docs" / "cli.md").read_text().split())
    excepted = page.partition("All commands take it but ")[2].partition(":")[0]
    assert set(re.findall(r"`(.*?)`", excepted)) == set(WITHOUT)


TOPIC = {"topic": "orders"}
BILLING = {"consumer_group": "billing", "topic": "orders"}
STOCK = {"consumer_group": "stock", "topic": "orders"}
SHOP = {"producer_group": "shop"}
ROLE = {"role": "ROLE"}
SUBSCRIBED = {"start": "latest", "max_attempts": 16, "retry_delay": "10 s", "on_failure": "skip"}
GROUP = {"checker": "due_checks", "check_after": "60 s", "on_exhausted": "park", "expire_after": "7 days"}
# A command, what it does, and about what.
CHANGES: list[tuple[str, str, dict[str, Any]]] = [
    ("topic create orders --queues 2", "create_topic", TOPIC | {"queues": 2, "retention": "7 days", "kind": "normal"}),
    ("topic alter orders --retention 3days --no-checksums", "alter_topic",
     TOPIC | {"retention": "3days", "checksums": False}),
    ("topic alter orders", "alter_topic", TOPIC),
    ("topic pause orders", "pause", TOPIC),
    ("topic resume orders", "resume", TOPIC),
    ("subscription add billing orders --start latest", "subscribe", BILLING | SUBSCRIBED | {"mode": "exclusive"}),
    ("subscription alter billing orders --any-tag --max-attempts 3", "alter_subscription",
     BILLING | {"tags": [], "max_attempts": 3}),
    ("subscription pause billing orders", "pause", BILLING),
    ("subscription resume billing orders", "resume", BILLING),
    ("dead-letters redrive billing orders", "redrive", BILLING | {"messages": 0}),
    ("dead-letters discard billing orders --id 7", "discard_dead_letters",
     BILLING | {"messages": 0, "message_ids": [7]}),
    ("topic purge orders", "purge_topic", TOPIC | {"skipped": 1}),
    ("subscription add stock orders --mode pinned --start latest --tag a", "subscribe",
     STOCK | SUBSCRIBED | {"mode": "pinned", "tags": ["a"]}),
    ("subscription unpin stock orders", "unpin", STOCK),
    ("subscription unpin stock orders --queue 1 --consumer gone", "unpin", STOCK | {"queue_id": 1, "consumer": "gone"}),
    ("group create shop --max-checks 2", "create_producer_group",
     SHOP | GROUP | {"max_checks": 2, "max_undecided": 100000}),
    ("group alter shop --expire-after never", "alter_producer_group", SHOP | {"expire_after": "100 years"}),
    ("grant send orders ROLE", "grant_send", TOPIC | ROLE),
    ("grant produce shop ROLE", "grant_produce", SHOP | ROLE),
    ("grant receive billing orders ROLE", "grant_receive", BILLING | ROLE),
    *((f"grant {right} ROLE", f"grant_{right}", ROLE) for right in ("operator", "auditor", "worker")),
    ("revoke send orders ROLE", "revoke_send", TOPIC | ROLE | {"revoked": True}),
    ("revoke produce shop ROLE", "revoke_produce", SHOP | ROLE | {"revoked": True}),
    ("revoke receive billing orders ROLE", "revoke_receive", BILLING | ROLE | {"revoked": True}),
    *((f"revoke {right} ROLE", f"revoke_{right}", ROLE | {"revoked": True})
      for right in ("operator", "auditor", "worker")),
    ("group drop shop", "drop_producer_group", SHOP),
    ("subscription remove billing orders", "unsubscribe", BILLING),
    ("topic drop orders --force", "drop_topic", TOPIC | {"force": True}),
]  # fmt: skip
ELSEWHERE = {
    "subscription seek": "test_seek",
    "half settle": "test_half_messages",
    "half rearm": "test_half_messages",
    "ledger create": "test_ledger.py",
    "ledger purge": "test_ledger.py",
    "subscription purge-journal": "test_purged_journals.py",
    "migrate": "test_the_schema_is_named of test_sentences.py",
    "migrate up": "test_the_schema_is_named of test_sentences.py",
    "migrate adopt": "test_the_schema_is_named of test_sentences.py",
    "uninstall": "test_the_schema_is_named of test_sentences.py",
    "up": "test_home.py",
    "down": "test_home.py",
}


def test_each_command_that_changes_something_is_in_a_test() -> None:
    commands = {name for name, command in COMMANDS.items() if changes_something(command)}
    tested = {name for name in commands if any(change.startswith(f"{name} ") for change, *_ in CHANGES)}
    assert tested | ELSEWHERE.keys() == commands


@pytest.mark.parametrize("as_json", [False, True])
def test_each_change_says_what_it_changed(run: Run, roles: Roles, db: psycopg.Connection[Any], as_json: bool) -> None:
    role = roles("said").name
    for change, action, facts in CHANGES:
        if action == "purge_topic":
            db.execute("select mqpg.send('orders', '1')")
            db.execute("select mqpg.append()")
        words = change.replace("ROLE", role).split()
        if as_json:
            expected = {"action": action} | {name: role if fact == "ROLE" else fact for name, fact in facts.items()}
            assert done(run, *words) == expected, change
            continue
        status, said, err = run(*words)
        assert (status, said.count("\n"), err) == (0, 1, ""), change
        names = [word for word in change.partition(" --")[0].split()[1:] if word != "ROLE"]
        assert {*names[1:], *[role] * ("ROLE" in change)} <= set(re.findall(r"[\w-]+", said)), f"{change}: {said}"
    status, out, err = run("revoke", "operator", role, *["--json"] * as_json)
    assert (status, "did not have" in err) == (1, True)
    assert json.loads(out)["revoked"] is False if as_json else out == ""


def done(run: Run, *arguments: str) -> Any:
    """What a command prints with --json."""
    status, out, err = run(*arguments, "--json")
    err = re.sub(r"^mqpg: .*, \d+ s\n", "", err, flags=re.M)  # of a slow machine
    assert (status, err) == (0, ""), err
    return json.loads(out)


def test_seek(run: Run, db: psycopg.Connection[Any]) -> None:
    db.execute("select mqpg.create_topic('orders'), mqpg.subscribe('billing', 'orders'), mqpg.send('orders', '1')")
    db.execute("select mqpg.append()")
    effect = BILLING | {"action": "seek", "target": "latest", "skipped": 1, "repeated": 0, "queues": 1}
    command = ("subscription", "seek", "billing", "orders", "latest")
    assert done(run, *command, "--dry-run") == effect | {"moved": False}
    assert done(run, *command, "--yes") == effect | {"moved": True}


def test_half_messages(run: Run, db: psycopg.Connection[Any]) -> None:
    db.execute("select mqpg.create_topic('orders'), mqpg.create_producer_group('shop', max_checks => 1)")
    query = b"select mqpg.prepare('orders', '1', 'shop', check_after => '10 ms')"
    handle, parked = (str(db.execute(query).fetchall()[0][0]) for _ in range(2))
    settled = {"action": "settle", "handle": handle, "verdict": "commit", "reason": "seen"}
    command = ("half", "settle", handle, "commit", "--reason", "seen")
    assert done(run, *command) == settled | {"outcome": "committed"}
    assert done(run, *command) == settled | {"outcome": "already_committed"}
    status, out, _ = run("half", "settle", handle, "rollback", "--reason", "seen", "--json")
    assert (status, json.loads(out)["outcome"]) == (1, "already_committed")

    def is_parked() -> bool:
        db.execute("select mqpg.due_checks('shop', lease => '10 ms')")
        return db.execute("select from mqpg.half_parked").rowcount == 1

    eventually(is_parked)
    assert done(run, "half", "rearm", parked) == {"action": "rearm", "handle": parked}
    eventually(is_parked)
    assert run("half", "rearm", parked) == (0, f"the check-backs of {parked} start again\n", "")


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


def test_json_before_a_command_counts_too(run: Run, dsn: str) -> None:
    assert json.loads(run("migrate", "--dsn", dsn, "--json", "up")[1])["problems"] == []


def test_the_server(run: Run, tmp_path: Path) -> None:
    """Its steps go to stderr, so stdout is the object alone."""
    data = str(tmp_path / "data")
    started = json.loads(run("up", "--data", data, "--no-workers", "--json")[1])
    assert (started["action"], started["data"], started["workers"]) == ("up", data, False)
    try:
        with psycopg.connect(started["dsn"]) as connection:
            assert connection.execute("select count(*) from mqpg.topics").fetchone() == (0,)
    finally:
        stopped = json.loads(run("down", "--data", data, "--remove", "--json")[1])
    assert stopped == {"action": "down", "stopped": True, "data": data, "removed": True}
