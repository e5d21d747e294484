"""Generate tables of docs/benchmarks.md, audit.md and chaos.md from benchmarks/results.

    python tools/results.py                    write the tables
    python tools/results.py --check            exit 1 if a file is invalid or a table is out of date
    mqpg demo --json | python tools/results.py --add demo --command "mqpg demo --json"

A file has the keys of RUN. `figures` holds the names and numbers that the command reported, perhaps
nested. For a benchmark it is the object that `mqpg bench --json` prints. `ok` says whether the run
ended as expected.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from textwrap import wrap
from typing import Any

from mqpg.bench.cells import CELLS, Cell, Kind
from mqpg.bench.page import figure_text
from mqpg.bench.report import Reached
from mqpg.bench.targets import PEER_TARGETS, TARGETS, Target

__all__ = [
    "audit_table",
    "bench_tables",
    "brokers_table",
    "calls_table",
    "chaos_kinds_table",
    "chaos_table",
    "failover_table",
    "load",
    "main",
    "peers_table",
    "run_table",
]

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks.md"

AUDIT_PAGE = ROOT / "docs" / "audit.md"
OPERATIONS_PAGE = ROOT / "docs" / "operations.md"
PERFORMANCE_PAGE = ROOT / "docs" / "performance.md"
CHAOS_PAGE = ROOT / "docs" / "chaos.md"

KINDS = (
    "audit-scale",
    "bench",
    "brokers",
    "calls",
    "chaos",
    "ci",
    "demo",
    "failover",
    "fuzz",
    "histories",
    "idle",
    "peers",
    "soak",
    "tests",
    "years",
)
RUN: dict[str, type | tuple[type, ...]] = {
    "kind": str,  # one of KINDS
    "date": str,  # UTC, ISO 8601 to the minute, or only the day
    "command": str,  # empty if it was not recorded
    "seed": (int, type(None)),
    "machine": str,
    "conditions": str,  # what else ran on the machine; may be empty
    "ok": bool,
    "figures": dict,
    "notes": str,  # what the figures do not show; may be empty
}
_DATE = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\dZ)?")
_SIDES = ("mqpg", "pgmq", "pgq", "bare")
_NAMES = {"pgq": "PgQ"}
PEERS = ("mqpg", "mqpg, no group commit", "procrastinate", "pgqueuer")
_DROPPED = ("audit", "kept", "runs")  # --add omits these long reports


def load(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Read all recorded runs.

    Args:
        folder: The folder with the JSON files.

    Returns:
        The runs, newest first, each with the name of its file under the key `file`.

    Raises:
        ValueError: A file is invalid; the message names it.
    """
    runs = []
    for path in sorted(folder.glob("*.json")):
        run = json.loads(path.read_text(encoding="utf-8"))
        if problem := _problem(run):
            raise ValueError(f"{path.relative_to(folder.parent.parent)}: {problem}")
        runs.append(run | {"file": path.name})
    return sorted(runs, key=lambda run: (run["date"], run["kind"]), reverse=True)


def run_table(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines of the table of all runs.

    Args:
        runs: The runs, in the order of the table.
    """
    yield from _table(
        ("when (UTC)", "kind", "command", "machine", "result"),
        (
            (
                f"[{run['date'].replace('T', ' ').rstrip('Z')}](../benchmarks/results/{run['file']})",
                run["kind"],
                (f"`{run['command']}`" if run["command"] else "–")
                + (f", seed {run['seed']}" if run["seed"] is not None else ""),
                ", ".join(filter(None, (run["machine"], run["conditions"]))),
                ("" if run["ok"] else "**not as it should be.** ")
                + "; ".join(filter(None, (_words(run), run["notes"]))),
            )
            for run in runs
        ),
    )


def bench_tables(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Tables of benchmarks on each major version of PostgreSQL: cells, targets and machines.

    Each cell is from the newest run that measured it. A line's figures are therefore of one run.

    Args:
        runs: All runs, newest first.

    Returns:
        The lines of each table, by the name of its markers on the page.
    """
    by_server: dict[int, list[Mapping[str, Any]]] = {}
    for run in runs:
        if run["kind"] == "bench" and "machine" in run["figures"]:
            by_server.setdefault(int(run["figures"]["machine"]["PostgreSQL"].partition(".")[0]), []).append(run)
    servers = sorted(by_server, reverse=True)
    machines = [by_server[server][0]["figures"]["machine"] for server in servers]
    return {
        "bench": [line for server in servers for line in _cells(server, by_server[server])],
        "targets": [line for server in servers for line in _targets(server, by_server[server])],
        "machine": list(
            _table(
                ("", *("" for _ in servers)),
                ((name, *(one.get(name, "–") for one in machines)) for name in machines[0]),
            )
        ),
    }


def _cells(server: int, runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    found = [(cell, *one) for cell in CELLS if (one := _newest_cell(cell.name, runs))]
    sides = [side for side in _SIDES if any(side in measured["sides"] for _, measured, _ in found)]
    names = [_NAMES.get(side, side) for side in sides]
    yield f"**PostgreSQL {server}**"
    yield ""
    yield from _table(
        ("cell", *names, *(f"mqpg / {name}" for name in names[1:]), "recorded"),
        (
            (
                cell.title,
                *(_side(cell, measured["sides"].get(side)) for side in sides),
                *(_number(measured["ratios"].get(f"mqpg/{side}")) for side in sides[1:]),
                _link(run),
            )
            for cell, measured, run in found
        ),
    )
    yield ""
    for side, reason in runs[0]["figures"].get("missing", {}).items():
        yield from (*wrap(f"{_NAMES.get(side, side)} is not in this table: {reason}.", 100), "")


def _newest_cell(name: str, runs: Sequence[Mapping[str, Any]]) -> tuple[Any, Mapping[str, Any]] | None:
    for run in runs:
        for cell in run["figures"]["cells"]:
            if cell["cell"] == name and "mqpg" in cell["sides"]:
                return cell, run
    return None


def _targets(server: int, runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    wanted = [target for target in TARGETS if not target.servers or server in target.servers]
    yield f"**PostgreSQL {server}**"
    yield ""
    yield from _table(
        ("target", "bound", "measured", "verdict"),
        (
            (target.what, target.text, _number(measured), Reached(target, measured).verdict)
            for target in wanted
            for measured in [_newest_target(target, runs)]
        ),
    )
    yield ""


def _newest_target(target: Target, runs: Sequence[Mapping[str, Any]]) -> float | None:
    for run in runs:
        cells = {cell["cell"]: cell["sides"] for cell in run["figures"]["cells"]}
        above = _measured(cells, target.cell, target.side, target.measure)
        if above is not None and not target.base_cell:
            return above
        below = _measured(cells, target.base_cell, target.base_side, target.measure)
        if above is not None and below:
            return above / below
    return None


def _measured(cells: Mapping[str, Any], cell: str, side: str, measure: str) -> float | None:
    found = cells.get(cell, {}).get(side)
    if found is None:
        return None
    value = found["median"] if measure == "rate" else found.get("measures", {}).get(measure)
    return None if value is None else float(value)


def brokers_table(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines of the table of several brokers on one machine: the newest recorded run.

    Args:
        runs: All runs, newest first.
    """
    run = next((run for run in runs if run["kind"] == "brokers"), None)
    if run is None:
        yield "No run has been recorded yet."
        return
    yield from _table(
        ("brokers", "messages a second, end to end", "beside one broker", "recorded"),
        (
            (brokers, f"{found['median']:,} ±{found['spread']:.0%}", _number(found["ratio"]), _link(run))
            for brokers, found in run["figures"]["brokers"].items()
        ),
    )


def _link(run: Mapping[str, Any]) -> str:
    return f"[{run['date'].partition('T')[0]}](../benchmarks/results/{run['file']})"


def audit_table(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines of the table of how the audit grows: the newest run of each size and engine.

    The name of a run is "1000 messages", perhaps followed by a comma and the engine if that is not
    Spark.

    Args:
        runs: All runs, newest first.
    """
    newest: dict[tuple[str, int], tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
    for run in runs:
        if run["kind"] == "audit-scale":
            for name, figures in run["figures"].items():
                size, _, engine = name.partition(" messages")
                newest.setdefault((engine.removeprefix(", ") or "spark", int(size)), (run, figures))
    columns = ("rows", "seconds", "read_seconds", "judge_seconds", "cpu_seconds")
    yield from _table(
        ("engine", "messages", "verdict", "rows", "seconds", "of these reading", "judging", "CPU seconds", "JVM MiB",
         "Python MiB", "temporary MiB", "load", "when"),
        (
            (
                engine,
                f"{messages:,}",
                one["verdict"],
                *(f"{one[column]:,}" for column in (*columns, "jvm_mib", "python_mib", "temporary_mib", "load")),
                f"[{run['date'].partition('T')[0]}](../benchmarks/results/{run['file']})",
            )
            for (engine, messages), (run, one) in sorted(newest.items())
        ),
    )  # fmt: skip


def failover_table(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines of the table of failovers: each recorded run.

    Args:
        runs: All runs, newest first.
    """
    spans = [f"seconds_until_{name}" for name in ("promoted", "send", "effect")]
    yield from _table(
        ("when", "failovers", "seed", "acknowledged sends", "seconds until promoted, p50 / most",
         "until the first send", "until the first effect", "verdict", "beside"),
        (
            (
                f"[{run['date'].partition('T')[0]}](../benchmarks/results/{run['file']})",
                str(run["figures"]["failovers"]),
                str(run["seed"]),
                f"{run['figures']['acknowledged']:,}",
                *(f"{run['figures'][span]['p50']} / {run['figures'][span]['most']}" for span in spans),
                run["figures"]["verdict"] if run["ok"] else "**wrong**",
                run["conditions"],
            )
            for run in runs
            if run["kind"] == "failover"
        ),
    )  # fmt: skip


def peers_table(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines of the table of Python job queues: the newest recorded run.

    Args:
        runs: All runs, newest first.
    """
    run = next((run for run in runs if run["kind"] == "peers"), None)
    cells = run["figures"]["cells"] if run else []
    yield from _table(
        ("cell", *PEERS, *(f"mqpg / {side.removeprefix('mqpg, ')}" for side in PEERS[1:])),
        (
            (
                cell["title"],
                *(
                    f"{found['median']:,} ±{found['spread']:.0%}" if (found := cell["sides"].get(side)) else "–"
                    for side in PEERS
                ),
                *(_number(cell["ratios"].get(side)) for side in PEERS[1:]),
            )
            for cell in cells
        ),
    )
    if run:
        yield ""
        yield from _table(
            ("target", "at least", "measured", "verdict"),
            (
                (
                    f"{cell['title']}: mqpg / {target.base_side.removeprefix('mqpg, ')}",
                    f"{target.bound:g}",
                    _number(cell["ratios"][target.base_side]),
                    "reached" if cell["ratios"][target.base_side] >= target.bound else "not reached",
                )
                for target in PEER_TARGETS
                for cell in cells
                if cell["cell"] == target.cell and target.base_side in cell["ratios"]
            ),
        )
        versions = ", ".join(f"{name} {version}" for name, version in run["figures"]["versions"].items())
        yield ""
        yield from wrap(f"{run['date'].partition('T')[0]}, {run['machine']}, {run['conditions']}: {versions}.", 100)


def calls_table(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines of the table of what a call costs the server: the newest run of each PostgreSQL.

    Args:
        runs: All runs, newest first.
    """
    newest: dict[str, Mapping[str, Any]] = {}
    for run in runs:
        if run["kind"] == "calls":
            newest.setdefault(run["figures"]["PostgreSQL"].partition(".")[0], run)
    yield from _table(
        ("step", "PostgreSQL", "mqpg", "pgmq", "bare", "pgmq / mqpg", "recorded"),
        (
            (
                step,
                run["figures"]["PostgreSQL"].partition(" ")[0],
                *(_calls(sides[side]) for side in ("mqpg", "pgmq", "bare")),
                _number(sides["pgmq"]["sum"] / sides["mqpg"]["sum"]),
                f"[{run['date'].partition('T')[0]}](../benchmarks/results/{run['file']})",
            )
            for run in newest.values()
            for step, sides in run["figures"].items()
            if isinstance(sides, dict)
        ),
    )


def _calls(found: Mapping[str, int]) -> str:
    parts = [f"{time:,}" for name, time in found.items() if name != "sum"]
    return " + ".join(parts) if len(parts) > 1 else parts[0]


def chaos_table(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines of the table of all recorded runs of `mqpg chaos`.

    Args:
        runs: All runs, newest first.
    """
    yield from _table(
        ("when", "seed", "rounds", "faults", "messages", "recovery p50 / p99 / max", "audits", "verdict", "conditions"),
        (
            (
                f"[{run['date'].partition('T')[0]}](../benchmarks/results/{run['file']})",
                str(run["seed"]),
                str(figures["rounds"]),
                ", ".join(f"{count} × {kind}" for kind, count in figures["strikes"].items()),
                f"{figures['messages']:,}",
                " / ".join(f"{figures['recovery_seconds']['all'][name]:.1f} s" for name in ("p50", "p99", "max")),
                ", ".join(sorted({one["engine"] for one in figures["audits"]})),
                figures["verdict"] if run["ok"] else f"**{figures['verdict']}**",
                run["conditions"] if run["ok"] else f"{run['conditions']}. {run['notes']}",
            )
            for run in runs
            if run["kind"] == "chaos"
            for figures in [run["figures"]]
        ),
    )


def chaos_kinds_table(runs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines of the table of how long recovery takes by the kind of fault, over all recorded runs.

    Args:
        runs: All runs, newest first.
    """
    found: dict[str, list[tuple[float, Mapping[str, Any]]]] = {}
    for run in runs:
        if run["kind"] == "chaos":
            for one in run["figures"].get("history", []):
                if one["recovery"] is not None:
                    found.setdefault(one["kind"], []).append((one["recovery"], run))
    yield from _table(
        ("kind", "rounds", "recovery p50", "max", "the longest was in"),
        (
            (
                f"`{kind}`",
                str(len(rounds)),
                f"{sorted(seconds for seconds, _ in rounds)[(len(rounds) - 1) // 2]:.1f} s",
                f"{longest:.1f} s",
                f"[{run['date'].partition('T')[0]}, seed {run['seed']}](../benchmarks/results/{run['file']})",
            )
            for kind, rounds in sorted(found.items())
            for longest, run in [max(rounds, key=lambda one: one[0])]
        ),
    )


def main(arguments: list[str]) -> int:
    """Write the tables, check them, or add a run.

    Args:
        arguments: Arguments of the command line.

    Returns:
        The exit status: 1 if a file is invalid or --check found a table out of date, else 0.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a table is out of date")
    parser.add_argument("--add", choices=KINDS, help="first record a run from the JSON on standard input")
    parser.add_argument("--name", default="", help="with --add: the end of the file's name; default: the kind")
    parser.add_argument("--command", default="", help="with --add: the command that was run")
    parser.add_argument("--conditions", default="", help="with --add: what else ran on the machine")
    parser.add_argument("--notes", default="", help="with --add: what the figures do not show")
    parser.add_argument("--failed", action="store_true", help="with --add: the run did not end as expected")
    options = parser.parse_args(arguments)
    if options.add:
        print(_add(options, json.load(sys.stdin)))
    try:
        runs = load()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    stale = 0
    tables = {"runs": list(run_table(runs)), "peers": list(peers_table(runs))} | bench_tables(runs)
    for page, found in (
        (PAGE, tables),
        (AUDIT_PAGE, {"audit-scale": list(audit_table(runs))}),
        (OPERATIONS_PAGE, {"failover": list(failover_table(runs))}),
        (PERFORMANCE_PAGE, {"calls": list(calls_table(runs)), "brokers": list(brokers_table(runs))}),
        (CHAOS_PAGE, {"chaos": list(chaos_table(runs)), "chaos-kinds": list(chaos_kinds_table(runs))}),
    ):
        before = after = page.read_text(encoding="utf-8")
        for name, lines in found.items():
            after = _replace(after, page, name, "\n".join(lines))
        if after == before:
            continue
        if options.check:
            stale = 1
            print(f"{page.relative_to(ROOT)} is out of date: run python tools/results.py", file=sys.stderr)
        else:
            page.write_text(after, encoding="utf-8")
    return stale


def _problem(run: Any) -> str | None:
    if not isinstance(run, dict) or set(run) != set(RUN):
        return f"must be an object with the keys {', '.join(RUN)}"
    for key, kind in RUN.items():
        if not isinstance(run[key], kind):
            return f"{key} has the wrong type"
    if run["kind"] not in KINDS:
        return f"kind must be one of {', '.join(KINDS)}"
    if not _DATE.fullmatch(run["date"]):
        return "date must look like 2026-11-21T19:36Z or 2026-11-21"
    return None


def _add(options: argparse.Namespace, figures: dict[str, Any]) -> Path:
    now = datetime.now(UTC)
    run = {
        "kind": options.add,
        "date": f"{now:%Y-%m-%dT%H:%MZ}",
        "command": options.command,
        "seed": figures.pop("seed", None),
        "machine": f"{os.cpu_count()} cores",
        "conditions": options.conditions,
        "ok": not options.failed,
        "figures": {name: value for name, value in figures.items() if name not in _DROPPED},
        "notes": options.notes,
    }
    path = RESULTS / f"{now:%Y-%m-%dT%H%MZ}-{options.name or options.add}.json"
    path.write_text(json.dumps(run, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _command(run: Mapping[str, Any]) -> str:
    command = f"`{run['command']}`" if run["command"] else "–"
    return command if run["seed"] is None else f"{command}, seed {run['seed']}"


def _words(run: Mapping[str, Any]) -> str:
    figures = dict(run["figures"])
    targets = figures.get("targets")
    if isinstance(targets, list):
        reached = sum(one["verdict"] == "reached" for one in targets)
        figures["targets"] = f"{reached} of {len(targets)} reached"
        figures.pop("machine", None)
    return _listed(figures)


def _listed(figures: Mapping[str, Any]) -> str:
    parts = []
    for name, value in figures.items():
        what = name.replace("_", " ")
        if name == "seed":
            value = str(value)
        if isinstance(value, dict):
            parts.append(f"{what}: {_listed(value) or 'none'}")
        elif isinstance(value, bool):
            parts.append(f"{what}: {'yes' if value else 'no'}")
        elif isinstance(value, int | float):
            parts.append(f"{what} {value:,}")
        elif isinstance(value, str):
            parts.append(f"{what}: {value}")
    nested = any(isinstance(value, dict) for value in figures.values())
    return ("; " if nested else ", ").join(parts)


def _side(cell: Cell, found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "–"
    measures = found.get("measures", {})
    return figure_text(cell.kind is Kind.LATENCY, found["median"], found["spread"], found["drained"], measures)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"


def _table(head: Sequence[str], lines: Any) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for line in lines:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |"


def _replace(text: str, page: Path, name: str, content: str) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    head, marker, rest = text.partition(begin)
    if not marker or end not in rest:
        raise SystemExit(f"{page}: markers {begin.strip()} and {end} are missing")
    return f"{head}{begin}{content}\n{end}{rest.partition(end)[2]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
