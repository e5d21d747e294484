"""The arithmetic of the report: medians, spreads, ratios, targets reached.

It has no input or output.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from .sides.base import Range
from .targets import Target

__all__ = ["Figures", "Reached", "Run", "check_ranges", "collect", "ratio", "reached", "spread"]


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


@dataclass(frozen=True)
class Figures:
    """The rates of all rounds of one cell on one side."""

    rates: tuple[float, ...]
    problems: tuple[str, ...] = field(default=())
    drained: bool = True

    @property
    def median(self) -> float:
        """Median rate, messages per second."""
        return float(median(self.rates))

    @property
    def spread(self) -> float:
        """Half the range over the median."""
        return spread(self.rates)


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
        return "reached" if self.ratio >= self.target.at_least else "not reached"


def spread(rates: Sequence[float]) -> float:
    """Half the range over the median; 0 for a single value or where the median is 0."""
    middle = median(rates)
    return (max(rates) - min(rates)) / 2 / middle if middle else 0.0


def collect(runs: Iterable[Run]) -> dict[tuple[str, str], Figures]:
    """Group the runs by cell and side, with the rounds in the given order."""
    grouped: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        grouped.setdefault((run.cell, run.side), []).append(run)
    return {
        key: Figures(
            tuple(run.rate for run in some),
            tuple(f"round {run.round_no}: {problem}" for run in some for problem in run.problems),
            all(run.drained for run in some),
        )
        for key, some in grouped.items()
    }


def ratio(figures: dict[tuple[str, str], Figures], of: tuple[str, str], to: tuple[str, str]) -> float | None:
    """The median of `of` over the median of `to`; None where one is missing or the divisor is 0."""
    if of not in figures or to not in figures or not figures[to].median:
        return None
    return figures[of].median / figures[to].median


def reached(figures: dict[tuple[str, str], Figures], targets: Iterable[Target]) -> list[Reached]:
    """Pair every target with the ratio that was measured."""
    return [Reached(t, ratio(figures, (t.cell, t.side), (t.base_cell, t.base_side))) for t in targets]


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
