"""tools/results.py: the runs in benchmarks/results, and the tables that it makes of them."""

from __future__ import annotations

import io
import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = {
    "kind": "demo",
    "date": "2026-01-02T03:04Z",
    "command": "mqpg demo --json",
    "seed": 7,
    "machine": "2 cores",
    "conditions": "",
    "ok": True,
    "figures": {"flights": 27004, "kills": {"producer": 3}, "sums_match": True},
    "notes": "",
}


@pytest.fixture
def tool() -> Any:
    spec = spec_from_file_location("results", ROOT / "tools" / "results.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stored(folder: Path, **changed: Any) -> Path:
    """A folder of results with one run."""
    results = folder / "benchmarks" / "results"
    results.mkdir(parents=True)
    (results / "one.json").write_text(json.dumps(RUN | changed))
    return results


def test_tables_are_up_to_date(tool: Any) -> None:
    assert tool.main(["--check"]) == 0


def test_a_run_is_a_line(tool: Any, tmp_path: Path) -> None:
    *_, line = tool.run_table(tool.load(stored(tmp_path)))
    assert line == (
        "| [2026-01-02 03:04](../benchmarks/results/one.json) | demo | `mqpg demo --json`, seed 7 | 2 cores"
        " | flights 27,004; kills: producer 3; sums match: yes |"
    )


def test_a_run_that_failed_says_so(tool: Any, tmp_path: Path) -> None:
    *_, line = tool.run_table(tool.load(stored(tmp_path, ok=False)))
    assert "| **not as it should be.** flights" in line


@pytest.mark.parametrize(
    ("changed", "mention"),
    [
        ({"kind": "race"}, "kind must be one of"),
        ({"date": "yesterday"}, "date must look like"),
        ({"ok": 1}, "ok has the wrong type"),
        ({"more": 1}, "the keys"),
    ],
)
def test_a_wrong_file_is_named(tool: Any, tmp_path: Path, changed: dict[str, Any], mention: str) -> None:
    with pytest.raises(ValueError, match=rf"one\.json: .*{mention}"):
        tool.load(stored(tmp_path, **changed))


def test_check_notices_a_changed_table(
    tool: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "docs" / "benchmarks.md"
    page.parent.mkdir()
    page.write_text(tool.PAGE.read_text().replace("| not reached |", "| reached |", 1))
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(tool, "PAGE", page)
    assert tool.main(["--check"]) == 1
    assert "run python tools/results.py" in capsys.readouterr().err
    assert tool.main([]) == 0
    assert tool.main(["--check"]) == 0


def test_add_keeps_what_a_command_printed(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "page.md").write_text(tool.PAGE.read_text())
    results = tmp_path / "benchmarks" / "results"
    results.mkdir(parents=True)
    for path in tool.RESULTS.glob("*.json"):
        (results / path.name).write_text(path.read_text())
    monkeypatch.setattr(tool, "RESULTS", results)
    monkeypatch.setattr(tool, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(tool.load, "__defaults__", (results,))
    monkeypatch.setattr("sys.stdin", io.StringIO('{"seed": 5, "flights": 12, "audit": {"long": 1}}'))
    assert tool.main(["--add", "demo", "--command", "mqpg demo"]) == 0
    run = json.loads(Path(capsys.readouterr().out.strip()).read_text())
    assert (run["kind"], run["command"], run["seed"], run["figures"]) == ("demo", "mqpg demo", 5, {"flights": 12})
    assert "`mqpg demo`, seed 5 |" in (tmp_path / "page.md").read_text()


def test_what_calls_cost_comes_from_the_newest_run_of_each_server(tool: Any, tmp_path: Path) -> None:
    sides = {"mqpg": {"receive": 1000, "ack": 200, "sum": 1200}, "pgmq": {"read": 2400, "sum": 2400}}
    figures = {"PostgreSQL": "18.6", "a hundred": {**sides, "bare": {"read": 100, "sum": 100}}}
    runs = tool.load(stored(tmp_path, kind="calls", figures=figures))
    *_, line = tool.calls_table(runs)
    assert line == (
        "| a hundred | 18.6 | 1,000 + 200 | 2,400 | 100 | 2.00 | [2026-01-02](../benchmarks/results/one.json) |"
    )


def test_job_queues_are_compared_with_the_newest_run(tool: Any, tmp_path: Path) -> None:
    sides = {"mqpg": {"median": 3000, "spread": 0.1}, "pgqueuer": {"median": 1500, "spread": 0.25}}
    cell = {"cell": "c", "title": "consumer", "sides": sides, "ratios": {"pgqueuer": 2.0}}
    figures = {"cells": [cell], "versions": {"pgqueuer": "1.6.0"}}
    cell["cell"] = "consume-c1"
    lines = list(tool.peers_table(tool.load(stored(tmp_path, kind="peers", figures=figures))))
    assert "| consumer: mqpg / pgqueuer | 2 | 2.00 | reached |" in lines
    assert lines[2] == "| consumer | 3,000 ±10% | – | – | 1,500 ±25% | – | – | 2.00 |"
    assert lines[-1].endswith("pgqueuer 1.6.0.")


def test_recovery_by_the_kind_of_fault_counts_the_rounds_of_all_runs(tool: Any) -> None:
    def run(seed: int, **recoveries: list[float | None]) -> dict[str, Any]:
        history = [{"kind": kind, "recovery": one} for kind, found in recoveries.items() for one in found]
        return RUN | {"kind": "chaos", "seed": seed, "file": f"{seed}.json", "figures": {"history": history}}

    lines = list(tool.chaos_kinds_table([run(1, kill=[2.0, None, 9.0], cut=[1.0]), run(2, kill=[3.0]), RUN]))
    assert lines[2:] == [
        "| `cut` | 1 | 1.0 s | 1.0 s | [2026-01-02, seed 1](../benchmarks/results/1.json) |",
        "| `kill` | 3 | 3.0 s | 9.0 s | [2026-01-02, seed 1](../benchmarks/results/1.json) |",
    ]


def test_each_cell_is_of_the_newest_run_of_its_server_that_measured_it(tool: Any, tmp_path: Path) -> None:
    def figures(version: str, cells: dict[str, tuple[int, int]]) -> dict[str, Any]:
        found = [
            {
                "cell": cell,
                "sides": {
                    side: {"median": rate, "spread": 0.1, "drained": True}
                    for side, rate in zip(("mqpg", "pgmq"), rates, strict=True)
                },
                "ratios": {"mqpg/pgmq": rates[0] / rates[1]},
            }
            for cell, rates in cells.items()
        ]
        return {"machine": {"PostgreSQL": version, "jit": "on"}, "cells": found, "missing": {"pgq": "there is none"}}

    results = stored(tmp_path, kind="bench", figures=figures("18.6", {"send-1": (120, 100), "half-1": (10, 20)}))
    for name, found in {
        "two": figures("18.6", {"half-1": (60, 20)}),
        "three": figures("15.18", {"send-1": (7, 7)}),
    }.items():
        run = RUN | {"kind": "bench", "date": "2026-02-02", "figures": found}
        (results / f"{name}.json").write_text(json.dumps(run))
    tables = tool.bench_tables(tool.load(results))
    assert [line for line in tables["bench"] if "×1" in line] == [
        "| send ×1, 16 clients | 120 ±10% | 100 ±10% | 1.20 | [2026-01-02](../benchmarks/results/one.json) |",
        "| half+commit ×1, 16 clients | 60 ±10% | 20 ±10% | 3.00 | [2026-02-02](../benchmarks/results/two.json) |",
        "| send ×1, 16 clients | 7 ±10% | 7 ±10% | 1.00 | [2026-02-02](../benchmarks/results/three.json) |",
    ]
    assert "PgQ is not in this table: there is none." in tables["bench"]
    assert (
        tables["targets"][4] == "| send one by one, 16 clients, PostgreSQL 18: mqpg / pgmq | ≥ 1.1 | 1.20 | reached |"
    )
    assert tables["machine"][-1] == "| jit | on | on |"


def test_brokers_are_compared_with_one(tool: Any, tmp_path: Path) -> None:
    figures = {"brokers": {"2": {"median": 1500, "spread": 0.04, "ratio": 1.1}}}
    *_, line = tool.brokers_table(tool.load(stored(tmp_path, kind="brokers", figures=figures)))
    assert line == "| 2 | 1,500 ±4% | 1.10 | [2026-01-02](../benchmarks/results/one.json) |"
    assert list(tool.brokers_table([])) == ["No run has been recorded yet."]
