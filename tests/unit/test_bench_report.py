"""The arithmetic of the benchmark's report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mqpg.bench import pgbench
from mqpg.bench.cells import CELLS, Kind, choose, quick
from mqpg.bench.page import Outcome
from mqpg.bench.payload import documents
from mqpg.bench.report import Run, check_ranges, collect, ratio, reached, spread
from mqpg.bench.sides.base import runs
from mqpg.bench.targets import TARGETS, Target


def run(cell: str, side: str, rate: float, round_no: int = 1, problems: tuple[str, ...] = ()) -> Run:
    return Run(cell, side, round_no, rate, 100, 100, 1.0, True, problems)


def test_median_and_spread_over_rounds() -> None:
    figures = collect([run("send-1", "mqpg", rate, no) for no, rate in enumerate((90, 200, 110), 1)])
    found = figures["send-1", "mqpg"]
    assert found.median == 110
    assert found.spread == pytest.approx(0.5)


def test_spread_of_nothing_is_nothing() -> None:
    assert spread([5.0]) == 0
    assert spread([0.0, 0.0]) == 0


def test_ratio_divides_medians_and_is_none_without_a_divisor() -> None:
    figures = collect([run("send-1", "mqpg", 300), run("send-1", "pgmq", 200), run("half-1", "pgmq", 0)])
    assert ratio(figures, ("send-1", "mqpg"), ("send-1", "pgmq")) == 1.5
    assert ratio(figures, ("send-1", "mqpg"), ("send-1", "bare")) is None
    assert ratio(figures, ("send-1", "mqpg"), ("half-1", "pgmq")) is None


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [((130, 100), "reached"), ((129, 100), "not reached"), ((None, 100), "not measured")],
)
def test_target_says_what_was_reached(rates: tuple[float | None, float], verdict: str) -> None:
    target = Target("x", "send-1", "send-1", 1.3)
    figures = collect(
        run("send-1", side, rate) for side, rate in zip(("mqpg", "pgmq"), rates, strict=True) if rate is not None
    )
    assert [one.verdict for one in reached(figures, [target])] == [verdict]


def test_held_target_compares_mqpg_with_itself() -> None:
    figures = collect([run("e2e", "mqpg", 100), run("e2e-held", "mqpg", 90), run("e2e", "pgmq", 1)])
    held = next(one for one in reached(figures, TARGETS) if one.target.cell == "e2e-held")
    assert held.ratio == pytest.approx(0.9)
    assert held.verdict == "reached"


def test_ranges_are_counted_once_and_repeats_are_told() -> None:
    assert check_ranges([]) == (0, 0)
    assert check_ranges([(1, 0, 9), (0, 0, 4), (0, 5, 9)]) == (20, 0)
    assert check_ranges([(0, 0, 9), (0, 5, 14)]) == (15, 5)
    assert check_ranges([(0, 0, 9), (0, 2, 3), (0, 8, 8)]) == (10, 3)


def test_ids_become_ranges_and_a_repeated_id_stays_visible() -> None:
    assert runs([]) == []
    assert runs([7, 1, 3, 2]) == [(0, 1, 3), (0, 7, 7)]
    assert check_ranges(runs([1, 2, 2, 3])) == (3, 1)


def test_payloads_are_json_of_about_the_stated_size() -> None:
    found = documents(500)
    assert sum(map(len, found)) / len(found) == pytest.approx(227, abs=3)
    assert all(json.loads(document)["flight_id"] >= 0 for document in found)
    assert documents(3) == documents(3)


def test_cells_are_chosen_by_name_in_table_order() -> None:
    assert [cell.name for cell in choose(["half-1", "send-1"])] == ["send-1", "half-1"]
    assert choose([]) == CELLS
    with pytest.raises(ValueError, match="unknown cell nonsense; there are: send-1"):
        choose(["nonsense"])


def test_every_target_is_measured_by_a_cell() -> None:
    by_name = {cell.name: cell for cell in CELLS}
    for target in TARGETS:
        assert target.side in by_name[target.cell].sides
        assert target.base_side in by_name[target.base_cell].sides


def test_quick_cells_are_shorter_and_otherwise_the_same() -> None:
    for cell in CELLS:
        assert quick(cell).seconds < cell.seconds
        assert quick(cell).batch == cell.batch
    assert {cell.kind for cell in CELLS} == set(Kind)


def test_page_and_object_hold_figures_verdicts_and_problems() -> None:
    cells = choose(["send-1"])
    runs_ = [run("send-1", "mqpg", 13_000), run("send-1", "pgmq", 10_000, problems=("3 sent, 2 stored",))]
    outcome = Outcome({"processor": "some"}, cells, runs_, 12.3, quick=True)
    page = outcome.markdown()
    assert "| send ×1, 16 clients | 13,000 ±0% | 10,000 ±0% | – | 1.30 | – |" in page
    assert "| 1.3 | 1.30 | reached |" in page
    assert "send-1, pgmq, round 1: 3 sent, 2 stored" in page
    data = json.loads(json.dumps(outcome.as_dict()))
    assert data["cells"][0]["ratios"] == {"mqpg/pgmq": 1.3}
    assert data["targets"][0]["verdict"] == "reached"
    assert data["problems"] == ["send-1, pgmq, round 1: 3 sent, 2 stored"]


def test_pgbench_is_that_of_the_named_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("postgres", "pgbench"):
        (tmp_path / program).touch()
    monkeypatch.setenv("MQPG_POSTGRES_BIN", str(tmp_path))
    assert pgbench.find() == str(tmp_path / "pgbench")
