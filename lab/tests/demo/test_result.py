"""The result page and the JSON object."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from lab.audits import Audit
from lab.demo.counts import Counts, Decisions
from lab.demo.flights import Cell
from lab.demo.result import Mismatch, Result, differing


def audited(verdict: str, **anomalies: int) -> Audit:
    return Audit("broker", "spark", "drained", 0, {"verdict": verdict, "anomalies": {"by_kind": anomalies}})


GOOD = Result(
    flights=1_000,
    cancelled=10,
    seed=7,
    server="embedded PostgreSQL",
    counts=Counts(990, 10, 990),
    decisions=Decisions(990, 13, 2, 3),
    cells=6,
    mismatches=[],
    audit=audited("valid", lost=0),
    kills={"producer": 1, "consumer": 1, "appender": 1, "compensator": 1},
    restarts=1,
    spared=0,
    crashes=0,
    drained=True,
    seconds=50.04,
    flying_seconds=20.0,
)
BAD = {
    "invalid": replace(GOOD, audit=audited("invalid", lost=1)),
    "unknown": replace(GOOD, audit=audited("unknown")),
    "cell": replace(GOOD, mismatches=[Mismatch("JFK", "2013-01-01", Cell(3, 5), None)]),
    "lost at the broker": replace(GOOD, decisions=Decisions(989, 13, 2, 3)),
    "lost at the airline": replace(GOOD, counts=Counts(989, 10, 990)),
    "doubled on the board": replace(GOOD, counts=Counts(990, 10, 991)),
    "cancelled not rolled back": replace(GOOD, counts=Counts(990, 9, 990)),
    "not drained": replace(GOOD, drained=False),
    "a kill that did not fall": replace(GOOD, spared=1),
}


def page(result: Result) -> str:
    console = Console(width=110, force_terminal=False)
    with console.capture() as capture:
        result.show(console)
    return capture.get()


def test_a_good_run_is_proven() -> None:
    assert GOOD.ok
    text = page(GOOD)
    assert "NOT PROVEN" not in text
    for words in (
        " PROVEN ",
        "1,000 flights, seed 7",
        "valid",
        "6 of 6",
        "producer killed",
        "2 committed, 3 rolled back",
    ):
        assert words in text


def test_the_json_object_has_the_promised_fields() -> None:
    assert GOOD.as_json() == {
        "flights": 1_000, "committed": 990, "rolled_back": 10, "consumed": 990,
        "kills": {"producer": 1, "consumer": 1, "appender": 1, "compensator": 1}, "restarts": 1,
        "verdict": "valid", "anomalies": {}, "sums_match": True, "seconds": 50.0, "seed": 7, "ok": True,
        "counts_match": True, "drained": True, "cells": 6, "mismatches": 0, "halves_rolled_back": 13,
        "check_backs": {"committed": 2, "rolled_back": 3}, "disconnects": 0, "spared": 0, "crashes": 0,
        "flying_seconds": 20.0, "audit_seconds": 0.0, "server": "embedded PostgreSQL", "audit": GOOD.audit.report,
    }  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_anything_else_is_not_proven(name: str) -> None:
    assert not BAD[name].ok
    assert "NOT PROVEN" in page(BAD[name])


def test_every_difference_between_boards_is_found_and_shown() -> None:
    expected = {("EWR", "2013-01-01"): Cell(1, 5), ("JFK", "2013-01-01"): Cell(2, 0), ("LGA", "2013-01-01"): Cell(1, 1)}
    shown = {("EWR", "2013-01-01"): Cell(1, 6), ("JFK", "2013-01-01"): Cell(2, 0), ("LGA", "2013-01-02"): Cell(1, 1)}
    assert differing(expected, expected) == []
    assert differing(expected, shown) == [
        Mismatch("EWR", "2013-01-01", Cell(1, 5), Cell(1, 6)),
        Mismatch("LGA", "2013-01-01", Cell(1, 1), None),
        Mismatch("LGA", "2013-01-02", None, Cell(1, 1)),
    ]
    assert "JFK 2013-01-01" in page(BAD["cell"])
