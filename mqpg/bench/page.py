"""The result: one object for --json, a markdown page for the docs, tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from .cells import Cell
from .report import Figures, Reached, Run, collect, ratio, reached
from .targets import TARGETS

__all__ = ["Outcome"]

_SIDES = ("mqpg", "pgmq", "bare")


@dataclass(frozen=True)
class Outcome:
    """All runs of one benchmark, and what they ran on."""

    machine: dict[str, str]
    cells: Sequence[Cell]
    runs: Sequence[Run]
    seconds: float
    quick: bool

    @property
    def problems(self) -> list[str]:
        """The counts that are wrong; empty where every message was where it should be."""
        return [
            f"{run.cell}, {run.side}, round {run.round_no}: {problem}" for run in self.runs for problem in run.problems
        ]

    def as_dict(self) -> dict[str, Any]:
        """The whole result for JSON. Rates are messages per second."""
        figures = collect(self.runs)
        return {
            "machine": self.machine,
            "quick": self.quick,
            "seconds": round(self.seconds, 1),
            "rounds": _rounds(self.runs),
            "cells": [_cell_dict(cell, figures) for cell in self.cells],
            "targets": [_target_dict(one) for one in reached(figures, TARGETS)],
            "problems": self.problems,
            "runs": [asdict(run) for run in self.runs],
        }

    def markdown(self) -> str:
        """The result page."""
        figures = collect(self.runs)
        parts = [_HEAD.format(rounds=_rounds(self.runs), seconds=self.seconds)]
        if self.quick:
            parts.append("> A quick run: short cells, few rounds. Do not quote these figures.\n")
        parts.append(_table(("cell", *_SIDES, "mqpg / pgmq", "mqpg / bare"), _lines(self.cells, figures)))
        parts.append("## Targets\n")
        parts.append(_table(("target", "at least", "measured", ""), _target_lines(reached(figures, TARGETS))))
        parts.append("## Machine and settings\n")
        parts.append(_table(("", ""), list(self.machine.items())))
        parts.append("## Counts\n")
        parts.append("".join(f"- {line}\n" for line in self.problems) or _ALL_THERE)
        return "\n".join(parts)

    def show(self, console: Console) -> None:
        """Print the result on a terminal."""
        figures = collect(self.runs)
        console.print(_rich("messages per second, median of rounds ± half the range",
                            ("cell", *_SIDES, "mqpg / pgmq", "mqpg / bare"), _lines(self.cells, figures)))  # fmt: skip
        console.print(_rich("targets", ("target", "at least", "measured", ""),
                            _target_lines(reached(figures, TARGETS))))  # fmt: skip
        console.print(", ".join(f"{name} {value}" for name, value in self.machine.items()), style="dim")
        for line in self.problems:
            console.print(line, style="bold red")


_HEAD = """\
# Benchmark

mqpg, pgmq and a bare INSERT or SELECT ran side by side, on one server in one run: {rounds} interleaved
rounds, with a fresh database for every run, in {seconds:.0f} s. A figure is messages per second: the
median of the rounds ± half their range over the median.

The clients ran on the same machine, with prepared statements. Where one message is sent at a time
they were pgbench, so that the driver takes next to nothing of the processor. Otherwise they were
Python processes on libpq, which warm up with a few calls. mqpg's appender ran beside the clients at
the pace of `mqpg worker`, so its cost is included. In cells that receive, the backlog was sent in
thousands and appended before the measurement. A bare end-to-end run lasts at most 10 s. The bare side
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


def _cell_dict(cell: Cell, figures: dict[tuple[str, str], Figures]) -> dict[str, Any]:
    sides = {
        side: {
            "median": round(found.median),
            "spread": round(found.spread, 3),
            "rates": [round(rate) for rate in found.rates],
            "drained": found.drained,
        }
        for side in _SIDES
        if (found := figures.get((cell.name, side)))
    }
    ratios = {
        f"mqpg/{base}": round(value, 3)
        for base in ("pgmq", "bare")
        if (value := ratio(figures, (cell.name, "mqpg"), (cell.name, base))) is not None
    }
    return {"cell": cell.name, "title": cell.title, "sides": sides, "ratios": ratios}


def _target_dict(one: Reached) -> dict[str, Any]:
    measured = None if one.ratio is None else round(one.ratio, 3)
    return {"target": one.target.what, "at_least": one.target.at_least, "measured": measured, "verdict": one.verdict}


def _lines(cells: Sequence[Cell], figures: dict[tuple[str, str], Figures]) -> list[tuple[str, ...]]:
    return [
        (
            cell.title,
            *(_figure(figures.get((cell.name, side))) for side in _SIDES),
            *(_ratio(ratio(figures, (cell.name, "mqpg"), (cell.name, base))) for base in ("pgmq", "bare")),
        )
        for cell in cells
    ]


def _target_lines(all_of_them: Sequence[Reached]) -> list[tuple[str, ...]]:
    return [(one.target.what, f"{one.target.at_least:g}", _ratio(one.ratio), one.verdict) for one in all_of_them]


def _figure(figures: Figures | None) -> str:
    if figures is None:
        return "–"
    return f"{figures.median:,.0f} ±{figures.spread:.0%}" + ("" if figures.drained else " (not drained)")


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


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
