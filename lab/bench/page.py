"""The result: one object for --json, a markdown page for the docs, tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from .cells import Cell, Kind
from .report import Collected, Failure, Figures, Reached, Run, collect, ratio, reached
from .targets import TARGETS

__all__ = ["Outcome", "figure_text"]

_SIDES = ("mqpg", "pgmq", "pgq", "bare")
_HEADINGS = ("cell", *_SIDES, *(f"mqpg / {side}" for side in _SIDES[1:]))
_TARGETS = ("target", "bound", "measured", "")


@dataclass(frozen=True)
class Outcome:
    """All runs of one benchmark, and what they ran on."""

    machine: dict[str, str]
    cells: Sequence[Cell]
    runs: Sequence[Run]
    seconds: float
    quick: bool
    server: int = 0  # the major version of PostgreSQL
    missing: Mapping[str, str] = field(default_factory=dict)  # why a side is not there
    failures: Sequence[Failure] = ()

    @property
    def problems(self) -> list[str]:
        """The counts that are wrong, and the runs that failed."""
        wrong = [
            f"{run.cell}, {run.side}, round {run.round_no}: {problem}" for run in self.runs for problem in run.problems
        ]
        return wrong + [f"{one.cell}, {one.side}, round {one.round_no}: {one.error}" for one in self.failures]

    def as_dict(self) -> dict[str, Any]:
        """The whole result for JSON. Rates are messages per second."""
        figures = collect(self.runs)
        return {
            "machine": self.machine,
            "quick": self.quick,
            "seconds": round(self.seconds, 1),
            "rounds": _rounds(self.runs),
            "cells": [_cell_dict(cell, figures) for cell in self.cells],
            "missing": dict(self.missing),
            "targets": [_target_dict(one) for one in reached(figures, TARGETS, self.server)],
            "problems": self.problems,
            "runs": [asdict(run) for run in self.runs],
        }

    def markdown(self) -> str:
        """The result page."""
        figures = collect(self.runs)
        parts = [_HEAD.format(rounds=_rounds(self.runs), seconds=self.seconds)]
        if self.quick:
            parts.append("> A quick run: short cells, few rounds. Do not quote these figures.\n")
        parts.append(_table(_HEADINGS, _lines(self.cells, figures)))
        parts.extend(f"{side}: {reason}.\n" for side, reason in self.missing.items())
        parts.append("## Targets\n")
        parts.append(_table(_TARGETS, _target_lines(reached(figures, TARGETS, self.server))))
        parts.append("## Machine and settings\n")
        parts.append(_table(("", ""), list(self.machine.items())))
        parts.append("## Counts\n")
        parts.append("".join(f"- {line}\n" for line in self.problems) or _ALL_THERE)
        return "\n".join(parts)

    def show(self, console: Console) -> None:
        """Print the result on a terminal."""
        figures = collect(self.runs)
        console.print(_rich("messages per second, median of rounds ± half the range",
                            _HEADINGS, _lines(self.cells, figures)))  # fmt: skip
        for side, reason in self.missing.items():
            console.print(f"{side}: {reason}")
        console.print(_rich("targets", _TARGETS,
                            _target_lines(reached(figures, TARGETS, self.server))))  # fmt: skip
        console.print(", ".join(f"{name} {value}" for name, value in self.machine.items()), style="dim")
        for line in self.problems:
            console.print(line, style="bold red")


_HEAD = """\
# Benchmark

mqpg, pgmq, PgQ and a bare INSERT or SELECT ran side by side, on one server in one run: {rounds} interleaved
rounds, with a fresh database for every run, in {seconds:.0f} s. A figure is messages per second: the
median of the rounds ± half their range over the median. Latencies are the medians of the rounds.

The clients ran on the same machine, with prepared statements. Where one message is sent at a time
they were pgbench, so that the driver takes next to nothing of the processor. Otherwise they were
Python processes on libpq, which warm up with a few calls. mqpg's appender ran beside the clients at
the pace of `mqpg worker`, and PgQ's ticker every 10 ms, so their cost is included. In cells that
receive, the backlog was sent in thousands and appended before the measurement. The bare side
acknowledges nothing: it is a floor for the cost of a send, and a ceiling for reads. Payloads are JSON
of 227 bytes on average. Noise of 20–40 % is common on small machines, so compare figures within one
table only.
"""
_ALL_THERE = (
    "Everything that was sent is stored once. Nothing was received twice. Where a queue was drained, everything"
    " that was sent was received.\n"
)


def _rounds(runs: Sequence[Run]) -> int:
    return max((run.round_no for run in runs), default=0)


def _cell_dict(cell: Cell, figures: Collected) -> dict[str, Any]:
    sides = {
        side: {
            "median": round(found.median),
            "spread": round(found.spread, 3),
            "rates": [round(rate) for rate in found.rates],
            "drained": found.drained,
            "measures": {name: round(value, 2) for name, value in found.measures.items()},
        }
        for side in _SIDES
        if (found := figures.get((cell.name, side)))
    }
    ratios = {
        f"mqpg/{base}": round(value, 3) for base in _SIDES[1:] if (value := _compared(cell, figures, base)) is not None
    }
    return {"cell": cell.name, "title": cell.title, "sides": sides, "ratios": ratios}


def _target_dict(one: Reached) -> dict[str, Any]:
    measured = None if one.ratio is None else round(one.ratio, 3)
    return {"target": one.target.what, "bound": one.target.text, "measured": measured, "verdict": one.verdict}


def _compared(cell: Cell, figures: Collected, base: str) -> float | None:
    """The ratio of the p50 in a cell with latencies, else of the rates."""
    measure = "p50" if cell.kind is Kind.LATENCY else "rate"
    return ratio(figures, (cell.name, "mqpg"), (cell.name, base), measure)


def _lines(cells: Sequence[Cell], figures: Collected) -> list[tuple[str, ...]]:
    return [
        (
            cell.title,
            *(_figure(cell, figures.get((cell.name, side))) for side in _SIDES),
            *(_ratio(_compared(cell, figures, base)) for base in _SIDES[1:]),
        )
        for cell in cells
    ]


def _target_lines(all_of_them: Sequence[Reached]) -> list[tuple[str, ...]]:
    return [(one.target.what, one.target.text, _ratio(one.ratio), one.verdict) for one in all_of_them]


def _figure(cell: Cell, figures: Figures | None) -> str:
    if figures is None:
        return "–"
    return figure_text(cell.kind is Kind.LATENCY, figures.median, figures.spread, figures.drained, figures.measures)


def figure_text(timed: bool, rate: float, spread: float, drained: bool, measures: Mapping[str, float]) -> str:
    """What a cell of the table says.

    Args:
        timed: Whether the latencies are what was measured, and not the rate.
        rate: Messages per second.
        spread: Half the range of the rates over their median.
        drained: Whether everything that was sent was received.
        measures: What else was measured.
    """
    if timed:
        return f"p50 {measures['p50']:.1f}, p99 {measures['p99']:.1f} ms" if "p50" in measures else "–"
    text = f"{rate:,.0f} ±{spread:.0%}" + ("" if drained else " (not drained)")
    return "; ".join([text, *(f"{name} {value:,.0f}" for name, value in measures.items())])


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def _rich(title: str, head: Sequence[str], lines: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title)
    for number, name in enumerate(head):
        table.add_column(name, justify="left" if number == 0 else "right")
    for line in lines:
        table.add_row(*line)
    return table
