"""The report: medians, spreads, ratios, targets reached, and what is printed of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from .cells import Cell, Kind
from .sides.base import Range
from .targets import TARGETS, Target

__all__ = ["Failure", "Figures", "Outcome", "Reached", "Run", "check_ranges", "collect", "ratio",
           "reached", "spread"]  # fmt: skip

_SIDES = ("mqpg", "pgmq", "pgq", "bare")


@dataclass(frozen=True)
class Run:
    """One run of one cell on one side.

    Attributes:
        drained: Whether everything that was sent was received.
        measures: What else was measured: p50, p99 and max (ms), send (messages a second), dead rows, MiB.
    """

    cell: str
    side: str
    round_no: int
    rate: float
    sent: int
    received: int
    seconds: float
    drained: bool
    problems: tuple[str, ...] = ()
    measures: Mapping[str, float] = field(default_factory=dict)


class Failure(NamedTuple):
    """A run that ended with an error."""

    cell: str
    side: str
    round_no: int
    error: str


@dataclass(frozen=True)
class Figures:
    """What all rounds of one cell on one side measured."""

    rates: tuple[float, ...]
    drained: bool = True
    measures: Mapping[str, float] = field(default_factory=dict)  # medians

    @property
    def median(self) -> float:
        """Median rate, messages per second."""
        return float(median(self.rates))

    def measure(self, name: str) -> float | None:
        """The median of a measure, or of the rates for "rate"; None: there is none."""
        return self.median if name == "rate" else self.measures.get(name)

    def text(self, cell: Cell) -> str:
        """What a cell of the table says."""
        if cell.kind is Kind.LATENCY:
            return f"p50 {self.measures['p50']:.1f}, p99 {self.measures['p99']:.1f} ms" if self.measures else "–"
        text = f"{self.median:,.0f} ±{spread(self.rates):.0%}" + ("" if self.drained else " (not drained)")
        return "; ".join([text, *(f"{name} {value:,.0f}" for name, value in self.measures.items())])

    def as_dict(self) -> dict[str, Any]:
        """The figures for JSON."""
        return {
            "median": round(self.median),
            "spread": round(spread(self.rates), 3),
            "rates": [round(rate) for rate in self.rates],
            "drained": self.drained,
            "measures": {name: round(value, 2) for name, value in self.measures.items()},
        }


class Reached(NamedTuple):
    """A target and what was measured. `ratio` is None if the run lacks one of the two figures."""

    target: Target
    ratio: float | None

    @property
    def verdict(self) -> str:
        """'reached', 'not reached' or 'not measured'."""
        if self.ratio is None:
            return "not measured"
        bound = self.target.bound
        return "reached" if (self.ratio <= bound if self.target.most else self.ratio >= bound) else "not reached"


Collected = dict[tuple[str, str], Figures]


@dataclass
class Outcome:
    """All runs of one benchmark, and what they ran on.

    Attributes:
        missing: Why a side is not there.
    """

    machine: dict[str, str]
    cells: Sequence[Cell]
    quick: bool
    server: int
    missing: Mapping[str, str]
    runs: list[Run] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, one: Run | Failure, seconds: float) -> None:
        """Note a run, which ended after so many seconds."""
        self.seconds = seconds
        if isinstance(one, Run):
            self.runs.append(one)
        else:
            self.failures.append(one)

    @property
    def problems(self) -> list[str]:
        """The counts that are wrong, and the runs that failed."""
        wrong = [(run.cell, run.side, run.round_no, problem) for run in self.runs for problem in run.problems]
        return [f"{cell}, {side}, round {number}: {what}" for cell, side, number, what in (*wrong, *self.failures)]

    def as_json(self) -> dict[str, Any]:
        """The whole result for JSON. Rates are messages per second."""
        figures = collect(self.runs)
        return {
            "machine": self.machine,
            "quick": self.quick,
            "seconds": round(self.seconds, 1),
            "rounds": max((run.round_no for run in self.runs), default=0),
            "cells": [_cell_dict(cell, figures) for cell in self.cells],
            "missing": dict(self.missing),
            "targets": [
                {
                    "target": one.target.what,
                    "bound": one.target.text,
                    "measured": None if one.ratio is None else round(one.ratio, 3),
                    "verdict": one.verdict,
                }
                for one in reached(figures, TARGETS, self.server)
            ],
            "problems": self.problems,
            "runs": [asdict(run) for run in self.runs],
        }

    def show(self, console: Console) -> None:
        """Print the result on a terminal."""
        figures = collect(self.runs)
        table = Table("cell", *_SIDES, *(f"mqpg / {side}" for side in _SIDES[1:]))
        table.title = "messages per second, median of rounds ± half the range"
        for cell in self.cells:
            found = [figures.get((cell.name, side)) for side in _SIDES]
            ratios = [_number(_compared(cell, figures, base)) for base in _SIDES[1:]]
            table.add_row(cell.title, *("–" if one is None else one.text(cell) for one in found), *ratios)
        targets = Table("target", "bound", "measured", "")
        for one in reached(figures, TARGETS, self.server):
            targets.add_row(one.target.what, one.target.text, _number(one.ratio), one.verdict)
        console.print(table, *(f"{side}: {reason}" for side, reason in self.missing.items()), targets, sep="\n")
        console.print(", ".join(f"{name} {value}" for name, value in self.machine.items()), style="dim")
        console.print(*self.problems, sep="\n", style="bold red")


def _cell_dict(cell: Cell, figures: Collected) -> dict[str, Any]:
    sides = {side: found.as_dict() for side in _SIDES if (found := figures.get((cell.name, side)))}
    ratios = {
        f"mqpg/{base}": round(value, 3) for base in _SIDES[1:] if (value := _compared(cell, figures, base)) is not None
    }
    return {"cell": cell.name, "title": cell.title, "sides": sides, "ratios": ratios}


def _compared(cell: Cell, figures: Collected, base: str) -> float | None:
    """The ratio of the p50 in a cell with latencies, else of the rates."""
    measure = "p50" if cell.kind is Kind.LATENCY else "rate"
    return ratio(figures, (cell.name, "mqpg"), (cell.name, base), measure)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"


def spread(rates: Sequence[float]) -> float:
    """Half the range over the median; 0 for a single value or if the median is 0."""
    middle = median(rates)
    return (max(rates) - min(rates)) / 2 / middle if middle else 0.0


def collect(runs: Iterable[Run]) -> Collected:
    """Group the runs by cell and side, with the rounds in the given order."""
    grouped: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        grouped.setdefault((run.cell, run.side), []).append(run)
    return {
        key: Figures(
            tuple(run.rate for run in some),
            all(run.drained for run in some),
            {name: median(run.measures[name] for run in some if name in run.measures) for name in some[0].measures},
        )
        for key, some in grouped.items()
    }


def ratio(figures: Collected, of: tuple[str, str], to: tuple[str, str], measure: str = "rate") -> float | None:
    """The median of `of` over the median of `to`; None: one is missing or the divisor is 0."""
    if of not in figures or to not in figures:
        return None
    above, below = figures[of].measure(measure), figures[to].measure(measure)
    return above / below if above is not None and below else None


def reached(figures: Collected, targets: Iterable[Target], server: int = 0) -> list[Reached]:
    """Pair every target of this major version of PostgreSQL with what was measured."""
    return [Reached(one, _measured(figures, one)) for one in targets if not one.servers or server in one.servers]


def _measured(figures: Collected, target: Target) -> float | None:
    of = target.cell, target.side
    if target.base_cell:
        return ratio(figures, of, (target.base_cell, target.base_side), target.measure)
    return figures[of].measure(target.measure) if of in figures else None


def check_ranges(ranges: Iterable[Range]) -> tuple[int, int]:
    """Count the different numbers that the ranges hold in all queues, and the repetitions."""
    different = repeated = 0
    seen: dict[int, int] = {}  # the last number of each queue
    for queue, first, last in sorted(ranges):
        new = max(0, last - max(seen.get(queue, first - 1), first - 1))
        different += new
        repeated += last - first + 1 - new
        seen[queue] = max(seen.get(queue, last), last)
    return different, repeated
