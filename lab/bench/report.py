"""The arithmetic of the report: medians, spreads, ratios, targets reached.

It has no input or output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from statistics import median

from .sides.base import Range
from .targets import Target

__all__ = [
    "Collected", "Failure", "Figures", "Reached", "Run", "check_ranges", "collect", "percentiles", "ratio",
    "reached", "spread",
]  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One run of one cell on one side."""

    cell: str
    side: str
    round_no: int
    rate: float  # messages per second
    sent: int
    received: int
    seconds: float  # measured
    drained: bool
    problems: tuple[str, ...] = ()
    # What else was measured: p50 and p99 (ms), send (messages per second), dead rows, MiB
    measures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """A run that ended with an error."""

    cell: str
    side: str
    round_no: int
    error: str


@dataclass(frozen=True)
class Figures:
    """What all rounds of one cell on one side measured."""

    rates: tuple[float, ...]
    problems: tuple[str, ...] = field(default=())
    drained: bool = True
    measures: Mapping[str, float] = field(default_factory=dict)  # medians

    @property
    def median(self) -> float:
        """Median rate, messages per second."""
        return float(median(self.rates))

    @property
    def spread(self) -> float:
        """Half the range over the median."""
        return spread(self.rates)

    def measure(self, name: str) -> float | None:
        """The median of a measure, or of the rates for "rate"; None where there is none."""
        return self.median if name == "rate" else self.measures.get(name)


@dataclass(frozen=True)
class Reached:
    """A target and what was measured.

    `ratio` is None where the run lacks one of the two figures.
    """

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


def spread(rates: Sequence[float]) -> float:
    """Half the range over the median; 0 for a single value or where the median is 0."""
    middle = median(rates)
    return (max(rates) - min(rates)) / 2 / middle if middle else 0.0


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """The p50 and p99 of some values; nothing where there are none."""
    found = sorted(values)
    return {f"p{part}": found[ceil(len(found) * part / 100) - 1] for part in (50, 99)} if found else {}


def collect(runs: Iterable[Run]) -> Collected:
    """Group the runs by cell and side, with the rounds in the given order."""
    grouped: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        grouped.setdefault((run.cell, run.side), []).append(run)
    return {
        key: Figures(
            tuple(run.rate for run in some),
            tuple(f"round {run.round_no}: {problem}" for run in some for problem in run.problems),
            all(run.drained for run in some),
            {name: median(run.measures[name] for run in some if name in run.measures) for name in some[0].measures},
        )
        for key, some in grouped.items()
    }


def ratio(figures: Collected, of: tuple[str, str], to: tuple[str, str], measure: str = "rate") -> float | None:
    """The median of `of` over the median of `to`; None where one is missing or the divisor is 0."""
    if of not in figures or to not in figures:
        return None
    above, below = figures[of].measure(measure), figures[to].measure(measure)
    return above / below if above is not None and below else None


def reached(figures: Collected, targets: Iterable[Target], server: int = 0) -> list[Reached]:
    """Pair every target of this major version of PostgreSQL with what was measured."""
    return [Reached(t, _measured(figures, t)) for t in targets if not t.servers or server in t.servers]


def _measured(figures: Collected, target: Target) -> float | None:
    of = target.cell, target.side
    if target.base_cell:
        return ratio(figures, of, (target.base_cell, target.base_side), target.measure)
    return figures[of].measure(target.measure) if of in figures else None


def check_ranges(ranges: Iterable[Range]) -> tuple[int, int]:
    """Count the different numbers that the ranges hold in all lanes, and the repetitions."""
    different = repeated = 0
    lane_at: tuple[int, int] | None = None  # lane and the last number counted in it
    for lane, first, last in sorted(ranges):
        at = lane_at[1] if lane_at is not None and lane_at[0] == lane else first - 1
        new = max(0, last - max(at, first - 1))
        different += new
        repeated += last - first + 1 - new
        lane_at = (lane, max(at, last))
    return different, repeated
