"""The result page and the JSON object."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from lab.demo.expected import Cell, Mismatch
from lab.demo.measure import Decisions
from lab.demo.page import show
from lab.demo.result import Audit, Result

GOOD = Result(
    flights=1_000,
    cancelled=10,
    seed=7,
    server="embedded PostgreSQL",
    departed=990,
    rolled_back=10,
    consumed=990,
    decisions=Decisions(990, 13, 2, 3),
    cells=6,
    mismatches=[],
    audit=Audit("valid", {}, {"verdict": "valid"}),
    kills={"producer": 1, "consumer": 1, "appender": 1, "compensator": 1},
    restarts=1,
    disconnects=0,
    spared=0,
    crashes=0,
    drained=True,
    seconds=50.04,
    flying_seconds=20.0,
    audit_seconds=25.0,
)


def page(result: Result) -> str:
    console = Console(width=110, record=True, file=None, quiet=False, force_terminal=False)
    with console.capture() as capture:
        show(result, console)
    return capture.get()


def test_a_good_run_is_proven() -> None:
    assert GOOD.ok
    text = page(GOOD)
    assert " PROVEN " in text
    assert "NOT PROVEN" not in text
    for words in ("1,000 flights, seed 7", "valid", "6 of 6 cells", "producer killed", "2 committed, 3 rolled back"):
        assert words in text


def test_the_json_object_has_the_promised_fields() -> None:
    found = GOOD.as_json()
    promised = {
        "flights": 1_000,
        "committed": 990,
        "rolled_back": 10,
        "consumed": 990,
        "kills": {"producer": 1, "consumer": 1, "appender": 1, "compensator": 1},
        "restarts": 1,
        "verdict": "valid",
        "anomalies": {},
        "sums_match": True,
        "seconds": 50.0,
        "seed": 7,
    }
    assert {name: found[name] for name in promised} == promised


BAD = {
    "invalid": replace(GOOD, audit=Audit("invalid", {"lost": 1}, {})),
    "unknown": replace(GOOD, audit=Audit("unknown", {}, {})),
    "cell": replace(GOOD, mismatches=[Mismatch("JFK", "2013-01-01", Cell(3, 5), None)]),
    "lost at the broker": replace(GOOD, decisions=Decisions(989, 13, 2, 3)),
    "lost at the airline": replace(GOOD, departed=989),
    "doubled on the board": replace(GOOD, consumed=991),
    "cancelled not rolled back": replace(GOOD, rolled_back=9),
    "not drained": replace(GOOD, drained=False),
    "a kill that did not fall": replace(GOOD, spared=1),
}


@pytest.mark.parametrize("name", BAD)
def test_anything_else_is_not_proven(name: str) -> None:
    assert not BAD[name].ok
    assert "NOT PROVEN" in page(BAD[name])


def test_cells_that_differ_are_shown() -> None:
    text = page(BAD["cell"])
    assert "JFK" in text
    assert "3 departures, 5 min" in text


def test_an_existing_server_says_that_it_was_not_restarted() -> None:
    text = page(replace(GOOD, restarts=0, disconnects=1))
    assert "connections cut" in text
