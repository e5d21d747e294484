"""What the board must show, and what counts as proven."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from lab.audits import Audit
from lab.demo.counts import Counts, Decisions
from lab.demo.flights import ALL, JANUARY, Cell, expected_board, known_flights, share_of
from lab.demo.result import Mismatch, Result, differing
from lab.demo.run import _require_the_same
from lab.processes import LabError


def audited(verdict: str, **anomalies: int) -> Audit:
    return Audit("broker", "spark", "drained", 0, {"verdict": verdict, "anomalies": {"by_kind": anomalies}})


GOOD = Result(
    flights=1_000,
    cancelled=10,
    seed=7,
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
    assert GOOD.as_json()["ok"]
    assert "NOT PROVEN" not in page(GOOD)


@pytest.mark.parametrize("name", BAD)
def test_anything_else_is_not_proven(name: str) -> None:
    assert not BAD[name].ok
    assert "NOT PROVEN" in page(BAD[name])


def test_the_board_of_january_is_the_file_without_cancelled_flights() -> None:
    assert len(known_flights(ALL)) == 336_776
    board = expected_board(known_flights(JANUARY))
    assert len(board) == 3 * 31
    assert sum(cell.departures for cell in board.values()) == 27_004 - 521
    other = board | {("JFK", "2013-01-01"): Cell(2, 0)}
    assert differing(board, board) == []
    assert differing(board, other) == [Mismatch("JFK", "2013-01-01", board["JFK", "2013-01-01"], Cell(2, 0))]


def test_threads_get_whole_aircraft_and_equally_many_flights() -> None:
    flights = known_flights(JANUARY)
    parts = [part for share in range(2) for part in share_of(flights, share, 2, 12)]
    assert sorted(flight.number for part in parts for flight in part) == list(range(1, JANUARY + 1))
    assert all(part == sorted(part, key=lambda flight: flight.number) for part in parts)
    tails = [{flight.tail for flight in part if flight.tail} for part in parts]
    assert sum(map(len, tails)) == len(set.union(*tails))
    assert max(map(len, parts)) < 1.02 * JANUARY / 24


def test_an_audit_that_failed_says_why() -> None:
    """It is no verdict of the other engine."""
    failed = Audit("broker", "spark", "drained", 2, {"verdict": "unknown", "reasons": ["no space left on device"]})
    with pytest.raises(LabError, match="the audit by spark failed with status 2: no space left on device"):
        _require_the_same(audited("valid"), failed)
    with pytest.raises(LabError, match="the engines differ: SQL says valid and Spark invalid"):
        _require_the_same(audited("valid"), audited("invalid", lost=1))
    _require_the_same(audited("valid"), audited("valid"))
