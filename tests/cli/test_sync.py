"""`mqpg subscription sync`: subscriptions get the options of their decorators."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

import mqpg
from tests.support.in_process import Run

HEAD = "import mqpg\n\ndef handle(message, conn): ...\n\n"
Module = Callable[[str], str]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dsn: str) -> Module:
    """Write a module with consumers, and return its name."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made: list[str] = []

    def write(text: str) -> str:
        made.append(f"shop_{tmp_path.name}_{len(made)}".replace("-", "_"))
        (tmp_path / f"{made[-1]}.py").write_text(HEAD + text)
        return made[-1]

    with mqpg.connect(dsn) as mq:
        mq.create_topic("orders", queues=1)
    return write


def subscriptions(db: psycopg.Connection[Any]) -> dict[str, tuple[Any, ...]]:
    query = "select consumer_group, mode, filter::text, tags, max_attempts, on_failure from mqpg.subscription"
    return {row[0]: row[1:] for row in db.execute(query)}


def synced(run: Run, *arguments: str) -> list[dict[str, Any]]:
    status, out, err = run("subscription", "sync", *arguments, "--json")
    assert (status, err) == (0, ""), err
    found: list[dict[str, Any]] = json.loads(out)
    return found


def test_options_of_a_module_are_applied(run: Run, db: psycopg.Connection[Any], module: Module, dsn: str) -> None:
    with mqpg.connect(dsn) as mq:
        mq.subscribe("bill", "orders", filter="$.qty > 2", tags=["a"], max_attempts=3)
        mq.subscribe("mail", "orders")
        mq.subscribe("same", "orders", retry_delay="1 min")
        mq.subscribe("theirs", "orders", max_attempts=3)
    name = module("""
bill = mqpg.consumer("orders", group="bill", on_failure="block_key")(handle)
mail = mqpg.consumer("orders", group="mail", effect="external", mode="shared", retry_delay="1 min")(lambda message: 0)
new = mqpg.consumer("orders", group="new", filter="$.qty > 9")(handle)
same = mqpg.consumer("orders", group="same", retry_delay=60)(handle)
theirs = mqpg.consumer("orders", group="theirs", subscribe=False)(handle)
also_bill = bill
""")
    before = subscriptions(db)
    planned = synced(run, name, "--dry-run")
    assert subscriptions(db) == before
    changed = synced(run, name)
    assert changed == planned
    assert {(one["consumer_group"], one["option"], one["before"], one["now"]) for one in changed} == {
        ("bill", "filter", '($."qty" > 2)', "not set"),
        ("bill", "tags", "{a}", "{}"),
        ("bill", "max_attempts", "3", "16"),
        ("bill", "on_failure", "skip", "block_key"),
        ("mail", "retry_delay", "00:00:10", "00:01:00"),
        ("mail", "mode", "exclusive", "shared"),
        ("new", "mode", "not subscribed", "exclusive"),
    }
    assert {one["handler"] for one in changed} == {f"{name}:bill", f"{name}:mail", f"{name}:new"}
    assert subscriptions(db) == {
        "bill": ("exclusive", None, None, 16, "block_key"),
        "mail": ("shared", None, None, 16, "skip"),
        "new": ("exclusive", '($."qty" > 9)', None, 16, "skip"),
        "same": before["same"],
        "theirs": before["theirs"],
    }
    assert synced(run, name) == []
    assert "every subscription is as its decorator" in run("subscription", "sync", name)[1]


def test_one_consumer(run: Run, db: psycopg.Connection[Any], module: Module) -> None:
    name = module("""
one = mqpg.consumer("orders", group="one")(handle)
other = mqpg.consumer("orders", group="other")(handle)
""")
    status, out, _ = run("subscription", "sync", f"{name}:one")
    assert (status, list(subscriptions(db))) == (0, ["one"])
    assert "changed 1 option" in out


WRONG: dict[str, tuple[str, int, str]] = {
    "no topic": ('b = mqpg.consumer("gone", group="b")(handle)', 2, "topic 'gone' does not exist"),
    "no consumer": ("b = 1", 2, "has no consumer"),
    "mode": ('b = mqpg.consumer("orders", group="b", mode="pinned")(handle)', 2, "mode may change only between"),
    "two that differ": (
        'b = mqpg.consumer("orders", group="c")(handle)\nd = mqpg.consumer("orders", group="c", tags=["x"])(handle)',
        2,
        "have other options for group c",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_all_or_nothing(case: str, run: Run, db: psycopg.Connection[Any], module: Module, dsn: str) -> None:
    text, status, said = WRONG[case]
    with mqpg.connect(dsn) as mq:
        mq.subscribe("b", "orders")
        mq.subscribe("a", "orders")
    first = "" if case == "no consumer" else 'a = mqpg.consumer("orders", group="a", max_attempts=2)(handle)\n'
    found = run("subscription", "sync", module(first + text))
    assert found[0] == status
    assert said in found[2]
    assert subscriptions(db)["a"][3] == 16
