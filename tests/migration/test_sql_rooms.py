"""The folders of sql/functions: which one may call which, and that a function lies with its only user."""

import graphlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SQL = ROOT / "sql"

# Who calls whom. A new arrow belongs here only if the room it comes from stays above the room it goes to.
ALLOWED = {
    "append": {"access", "check", "cursor", "common", "segment", "store", "validate"},
    "adopt": {"access", "cursor", "common", "merge", "segment", "validate"},
    "keep": {"access", "append", "cursor", "drop", "common", "merge", "segment", "validate", "watch"},
    "merge": {"drop", "common", "segment"},
    "drop": {"access", "cursor", "half", "common", "segment"},
    "segment": {"cursor", "common", "store"},
    "why": {"access", "append", "check", "consume", "cursor", "find", "half", "common", "validate", "watch"},
    "reconcile": {"access", "half", "common", "validate"},
    "transact": {"access", "half", "common", "store", "validate"},
    "client": {"access", "consume", "cursor", "find", "half", "common", "validate"},
    "worker": {"access", "append", "check", "common", "keep", "rights", "watch"},
    "watch": {"access", "check", "cursor", "half", "common"},
    "check": {"access", "half", "common", "store", "validate"},
    "consume": {"access", "cursor", "find", "common", "validate"},
    "topic": {"access", "cursor", "common", "validate", "watch"},
    "produce": {"access", "half", "common", "store", "validate"},
    "find": {"access", "cursor", "common", "validate"},
    "half": {"access", "common", "store", "validate"},
    "cursor": {"common"},
    "store": {"find", "common"},
    "rights": {"access", "common", "validate"},
    "access": {"common", "validate"},
    "common": {"validate"},
    "validate": set(),
}

Calls = dict[str, set[str]]
Rooms = dict[str, str]


def read() -> tuple[Calls, Rooms]:
    """Which function names which, and the room of each; a call is a name behind `mqpg.` outside of comments."""
    files = {path.stem: path for path in (SQL / "functions").rglob("*.sql")}
    rooms = {name: path.parent.name for name, path in files.items()}
    calls = {}
    for name, path in files.items():
        code = _code(path)
        calls[name] = {callee for callee in re.findall(r"\bmqpg\.(\w+) *\(", code) if callee in files} - {name}
    return calls, rooms


def _code(path: Path) -> str:
    return re.sub(r"--[^\n]*", "", path.read_text("utf-8"))


def arrows(calls: Calls, rooms: Rooms) -> set[tuple[str, str]]:
    """The calls from one room to another."""
    found = {(rooms[caller], rooms[callee]) for caller, callees in calls.items() for callee in callees}
    return {(caller, callee) for caller, callee in found if caller != callee}


def misplaced(calls: Calls, rooms: Rooms) -> dict[str, str]:
    """Internal functions that only one other room calls, with that room."""
    users: dict[str, set[str]] = {}
    for caller, callees in calls.items():
        for callee in callees:
            users.setdefault(callee, set()).add(rooms[caller])
    return {
        callee: user
        for callee, (user, *others) in ((callee, sorted(found)) for callee, found in users.items())
        if callee.startswith("_") and not others and user != rooms[callee]
    }


def test_a_call_back_and_a_misplaced_function_are_seen() -> None:
    calls = {"send": {"_store"}, "_store": {"_topic"}, "_topic": {"send"}}
    rooms = {"send": "produce", "_store": "store", "_topic": "common"}
    assert arrows(calls, rooms) == {("produce", "store"), ("store", "common"), ("common", "produce")}
    assert misplaced(calls, rooms) == {"_store": "produce", "_topic": "store"}


def test_the_calls_are_read() -> None:
    calls, rooms = read()
    assert rooms["_runs"] == "cursor"
    assert {"_claim_next", "_require_subscription", "_runs"} <= calls["receive"]


def test_rooms_call_only_the_rooms_below_them() -> None:
    calls, rooms = read()
    wanted = {(caller, callee) for caller, callees in ALLOWED.items() for callee in callees}
    assert set(rooms.values()) == set(ALLOWED)
    assert arrows(calls, rooms) == wanted, "an arrow that is not used is to be taken out of ALLOWED"


def test_no_room_calls_back() -> None:
    graphlib.TopologicalSorter(ALLOWED).prepare()
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(ALLOWED | {"validate": {"keep"}}).prepare()


def test_a_function_lies_with_its_only_user() -> None:
    """The steps of keep() lie in the rooms of what they do: make and close segments, merge, drop."""
    assert set(misplaced(*read()).values()) <= {"keep"}


def test_every_internal_function_is_called() -> None:
    """By another function, a view, a trigger, the first segments, or (where it is named) by Python."""
    calls, rooms = read()
    others = [*(SQL / "views").glob("*.sql"), *(SQL / "triggers").glob("*.sql"), SQL / "first_segments.sql"]
    called = set().union(*calls.values(), *(re.findall(r"\bmqpg\.(\w+) *\(", _code(path)) for path in others))
    internal = {name for name in rooms if name.startswith("_")}
    python = "".join(
        path.read_text("utf-8") for folder in ("mqpg", "workers", "spark") for path in (ROOT / folder).rglob("*.py")
    )
    from_python = {call or name for call, name in re.findall(r"\bmqpg\.(_\w+)\(|\bfunction\(\s*\"(_\w+)\"", python)}
    assert internal - called - from_python == set()
