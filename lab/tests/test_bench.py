"""The benchmark: what it counts, and runs of small cells."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lab.bench import pgbench
from lab.bench.cells import CELLS, Kind, choose, quick
from lab.bench.measure import run_all
from lab.bench.report import Failure, Run, check_ranges, collect, reached
from lab.bench.server import Server
from lab.bench.sides.base import ranges_of
from lab.bench.sides.pgmq_side import PgmqSide
from lab.bench.targets import TARGETS, Target


def run(cell: str, side: str, rate: float, **measures: float) -> Run:
    return Run(cell, side, 1, rate, 100, 100, 1.0, True, (), measures)


def test_a_target_says_what_was_reached() -> None:
    figures = collect([run("send-1", "mqpg", 120), run("send-1", "pgmq", 100), run("e2e-held", "mqpg", 9, dead=1.0)])
    targets = [
        Target("on 15", "send-1", "send-1", 1.3, servers=(15,)),
        Target("on all", "send-1", "send-1", 1.1),
        Target("at most", "e2e-held", "", 0, measure="dead", most=True),
        Target("alone", "half-1", "half-1", 1),
    ]
    verdicts = [one.verdict for one in reached(figures, targets, 15)]
    assert verdicts == ["not reached", "reached", "not reached", "not measured"]
    assert [one.target.what for one in reached(figures, targets, 18)] == ["on all", "at most", "alone"]


def test_ids_become_ranges_and_what_is_repeated_stays_visible() -> None:
    assert ranges_of([7, 1, 3, 2], 4) == [(4, 1, 3), (4, 7, 7)]
    assert check_ranges(ranges_of([1, 2, 2, 3])) == (3, 1)
    assert check_ranges([(1, 0, 9), (0, 0, 4), (0, 5, 9)]) == (20, 0)
    assert check_ranges([(0, 0, 9), (0, 5, 14)]) == (15, 5)
    assert check_ranges([(0, 0, 9), (0, 2, 3), (0, 8, 8)]) == (10, 3)


def test_the_script_of_make_bench_starts_the_command() -> None:
    script = Path(__file__).parents[1] / "bench" / "bench.sh"
    asked = subprocess.run([script, "18", "--help"], capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    assert "--quick" in asked.stdout


def test_every_target_is_measured_by_a_cell() -> None:
    by_name = {cell.name: cell for cell in CELLS}
    for target in TARGETS:
        assert target.side in by_name[target.cell].sides
        assert not target.base_cell or target.base_side in by_name[target.base_cell].sides
    assert {cell.kind for cell in CELLS} == set(Kind)


def test_pgbench_passes_documents_as_parameters(dsn: str, db: psycopg.Connection[Any]) -> None:
    """A literal would be parsed once for each statement, so that parsing JSON would cost nothing."""
    db.execute("create table said (body json)")
    document = """{"name": "Anne's :shop", "path": "a\\\\b"}"""
    done, _ = pgbench.drive(dsn, ["insert into said values (:body::json);\n"], 2, 1, {"body": document})
    rows = db.execute("select body::text, count(*) from said group by 1").fetchall()
    assert rows == [(document, done)]


@pytest.mark.timeout(400)
def test_a_run_that_fails_is_named_and_the_others_continue(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = choose(["receive-100", "e2e-100", "half-100", "append"])
    cells = [replace(quick(cell), seconds=1, backlog=min(2_000, cell.backlog), clients=2) for cell in chosen]
    monkeypatch.setattr(PgmqSide, "stored", lambda *_: 1 / 0)
    noted: list[Run | Failure] = []
    with Server(dsn, ["mqpg", "pgmq"]) as server:
        assert run_all(server, cells, ["pgmq", "mqpg"], 1, 3_600, noted.append)
        assert not run_all(server, cells, ["mqpg"], 1, 1, noted.append), "no cell begins that would end too late"
    failed = [one for one in noted if isinstance(one, Failure)]
    assert {(one.side, one.error.partition(":")[0]) for one in failed} == {("pgmq", "ZeroDivisionError")}
    assert [one.cell for one in failed] == [cell.name for cell in cells if "pgmq" in cell.sides]
    done = [one for one in noted if isinstance(one, Run)]
    assert [(one.cell, one.side, one.problems) for one in done] == [(cell.name, "mqpg", ()) for cell in cells]
    assert all(one.rate > 0 for one in done)
