"""The benchmark: the arithmetic of its report, and runs of small cells."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lab.bench import pgbench
from lab.bench.cells import CELLS, Kind, choose, quick
from lab.bench.client import bodies
from lab.bench.measure import run_all
from lab.bench.report import Failure, Outcome, Run, check_ranges, collect, percentiles, ratio, reached, spread
from lab.bench.server import Server
from lab.bench.sides.base import Seen, ranges_of, stamped
from lab.bench.sides.pgmq_side import PgmqSide
from lab.bench.targets import TARGETS, Target


def run(cell: str, side: str, rate: float, round_no: int = 1, problems: tuple[str, ...] = (), **measures: float) -> Run:
    return Run(cell, side, round_no, rate, 100, 100, 1.0, True, problems, measures)


def test_median_spread_and_ratio() -> None:
    figures = collect([run("send-1", "mqpg", rate, no) for no, rate in enumerate((90, 200, 110), 1)])
    assert figures["send-1", "mqpg"].median == 110
    assert spread([90, 200, 110]) == pytest.approx(0.5)
    assert spread([0.0, 0.0]) == 0
    figures |= collect([run("send-1", "pgmq", 55), run("half-1", "pgmq", 0)])
    assert ratio(figures, ("send-1", "mqpg"), ("send-1", "pgmq")) == 2
    assert ratio(figures, ("send-1", "mqpg"), ("send-1", "bare")) is None
    assert ratio(figures, ("send-1", "mqpg"), ("half-1", "pgmq")) is None


@pytest.mark.parametrize(
    ("rates", "verdict"), [((130, 100), "reached"), ((129, 100), "not reached"), ((None, 100), "not measured")]
)
def test_target_says_what_was_reached(rates: tuple[float | None, float], verdict: str) -> None:
    found = collect(
        run("send-1", side, rate) for side, rate in zip(("mqpg", "pgmq"), rates, strict=True) if rate is not None
    )
    assert [one.verdict for one in reached(found, [Target("x", "send-1", "send-1", 1.3)])] == [verdict]


def test_targets_are_of_one_version_of_the_server_or_of_all() -> None:
    figures = collect([run("send-1", "mqpg", 120), run("send-1", "pgmq", 100)])
    targets = [Target("old", "send-1", "send-1", 1.3, servers=(15,)), Target("all", "send-1", "send-1", 1.1)]
    found = [(one.target.what, one.verdict) for one in reached(figures, targets, 15)]
    assert found == [("old", "not reached"), ("all", "reached")]
    assert [one.target.what for one in reached(figures, targets, 18)] == ["all"]


def test_a_target_may_bound_another_measure_or_a_value_from_above() -> None:
    runs_ = [run("latency-sql", "mqpg", 200, p50=6.0), run("latency-sql", "pgmq", 200, p50=4.0)]
    held = replace(run("e2e-held", "mqpg", 9), measures={"dead rows": 1.0})
    runs_ += [held, run("append", "mqpg", 400_000)]
    slow = Target("p50", "latency-sql", "latency-sql", 1.6, measure="p50", most=True)
    dead = Target("dead", "e2e-held", "", 0, measure="dead rows", most=True)
    rows = Target("rows", "append", "", 300_000)
    found = reached(collect(runs_), [slow, replace(slow, bound=1.4), dead, rows])
    assert [one.verdict for one in found] == ["reached", "not reached", "not reached", "reached"]
    assert [one.target.text for one in found[2:]] == ["≤ 0", "≥ 300,000"]


def test_percentiles_are_values_that_were_seen() -> None:
    assert percentiles([]) == {}
    assert percentiles(map(float, range(1, 201))) == {"p50": 100.0, "p99": 198.0}


def test_waits_are_read_from_the_payload_in_any_order_of_its_keys() -> None:
    seen = Seen()
    document = stamped(b'{"a": 1}')
    assert json.loads(document)["a"] == 1
    seen.note_waits([document, b'\x01{"a": 1, "sent_at": 0.5}', b"{}"])
    assert 0 <= seen.waits[0] < 60 < seen.waits[1]


def test_ids_become_ranges_and_what_is_repeated_stays_visible() -> None:
    assert ranges_of([]) == []
    assert ranges_of([7, 1, 3, 2], 4) == [(4, 1, 3), (4, 7, 7)]
    assert check_ranges(ranges_of([1, 2, 2, 3])) == (3, 1)
    assert check_ranges([(1, 0, 9), (0, 0, 4), (0, 5, 9)]) == (20, 0)
    assert check_ranges([(0, 0, 9), (0, 5, 14)]) == (15, 5)
    assert check_ranges([(0, 0, 9), (0, 2, 3), (0, 8, 8)]) == (10, 3)


def test_payloads_are_json_of_about_the_stated_size() -> None:
    found = bodies(0, 500)
    assert sum(map(len, found)) / len(found) == pytest.approx(227, abs=3)
    assert all(json.loads(document)["flight_id"] >= 0 for document in found)
    assert bodies(1, 3) == bodies(1, 3) != bodies(2, 3)


def test_cells_are_chosen_by_name_in_table_order() -> None:
    assert [cell.name for cell in choose(["half-1", "send-1"])] == ["send-1", "half-1"]
    assert choose([]) == tuple(cell for cell in CELLS if not cell.extra)
    assert choose(["all"]) == CELLS
    with pytest.raises(ValueError, match="unknown cell nonsense; there are: send-1"):
        choose(["nonsense"])


def test_every_target_is_measured_by_a_cell_and_quick_cells_are_shorter() -> None:
    by_name = {cell.name: cell for cell in CELLS}
    for target in TARGETS:
        assert target.side in by_name[target.cell].sides
        assert not target.base_cell or target.base_side in by_name[target.base_cell].sides
    assert all(quick(cell).seconds < cell.seconds and quick(cell).batch == cell.batch for cell in CELLS)
    assert {cell.kind for cell in CELLS} == set(Kind)


def test_the_object_holds_figures_verdicts_and_problems() -> None:
    runs_ = [run("send-1", "mqpg", 13_000), run("send-1", "pgmq", 10_000, problems=("3 sent, 2 stored",))]
    missing, failures = {"pgq": "there is none"}, [Failure("send-1", "bare", 2, "RuntimeError: full")]
    outcome = Outcome({"processor": "some"}, choose(["send-1"]), runs_, 12.3, True, 18, missing, failures)
    data = json.loads(json.dumps(outcome.as_json()))
    assert data["cells"][0]["ratios"] == {"mqpg/pgmq": 1.3}
    assert data["targets"][0]["target"] == "send one by one, 16 clients, PostgreSQL 18: mqpg / pgmq"
    assert (data["targets"][0]["measured"], data["targets"][0]["verdict"]) == (1.3, "reached")
    assert data["missing"] == missing
    assert data["problems"] == ["send-1, pgmq, round 1: 3 sent, 2 stored", "send-1, bare, round 2: RuntimeError: full"]


def test_latencies_stand_in_the_table_in_place_of_rates() -> None:
    (cell,) = choose(["latency-sql"])
    figures = collect([run("latency-sql", "mqpg", 200, p50=3.0, p99=9.0), run("send-1", "mqpg", 2000)])
    assert figures["latency-sql", "mqpg"].text(cell) == "p50 3.0, p99 9.0 ms"
    assert figures["send-1", "mqpg"].text(CELLS[0]) == "2,000 ±0%"


def test_pgbench_is_that_of_the_named_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("postgres", "pgbench"):
        (tmp_path / program).touch()
    monkeypatch.setenv("MQPG_POSTGRES_BIN", str(tmp_path))
    assert pgbench.find() == str(tmp_path / "pgbench")


def test_pgbench_passes_documents_as_parameters(dsn: str, db: psycopg.Connection[Any]) -> None:
    """A literal would be parsed once for each statement, so that parsing JSON would cost nothing."""
    db.execute("create table said (body json)")
    document = """{"name": "Anne's :shop", "path": "a\\\\b"}"""
    done, _ = pgbench.drive(dsn, ["insert into said values (:body::json);\n"], 2, 1, {"body": document})
    rows = db.execute("select body::text, count(*) from said group by 1").fetchall()
    assert rows == [(document, done)]


@pytest.mark.timeout(400)
def test_a_run_that_fails_is_named_and_the_others_continue(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = choose(["receive-100", "e2e-100", "ledger-1", "append"])
    cells = [replace(quick(cell), seconds=1, backlog=min(2_000, cell.backlog), clients=2) for cell in chosen]
    monkeypatch.setattr(PgmqSide, "stored", lambda *_: 1 / 0)
    noted: list[Run | Failure] = []
    with Server(dsn, ["mqpg", "pgmq"]) as server:
        assert run_all(server, cells, ["pgmq", "mqpg"], 1, 3_600, noted.append)
    failed = [one for one in noted if isinstance(one, Failure)]
    assert {(one.side, one.error.partition(":")[0]) for one in failed} == {("pgmq", "ZeroDivisionError")}
    assert [one.cell for one in failed] == [cell.name for cell in cells if "pgmq" in cell.sides]
    done = [one for one in noted if isinstance(one, Run)]
    assert [(one.cell, one.side, one.problems) for one in done] == [(cell.name, "mqpg", ()) for cell in cells]
    assert all(one.rate > 0 for one in done)


def test_no_cell_begins_that_would_end_too_late(dsn: str) -> None:
    noted: list[Run | Failure] = []
    with Server(dsn, ["bare"]) as server:
        assert not run_all(server, choose(["receive-100"]), ["bare"], 1, 1, noted.append)
    assert noted == []
