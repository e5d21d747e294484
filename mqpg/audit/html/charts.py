"""Plots over time as SVG."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from mqpg.audit.faults import Fault

__all__ = ["Chart", "lag_chart", "latency_chart", "recovery_chart", "throughput_chart"]

_WIDTH, _HEIGHT = 760, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 10, 24
_MOST_LINES = 6

Points = list[tuple[datetime, float]]


@dataclass(frozen=True)
class Line:
    """A line of a plot."""

    name: str
    number: int  # chooses the colour
    path: str  # as the `d` of an SVG path
    bars: bool = False


@dataclass(frozen=True)
class Band:
    """The time of a fault in a plot: from x, so many units wide, with its name."""

    x: float
    width: float
    name: str


@dataclass(frozen=True)
class Chart:
    """A plot, in the units of an SVG of 760 x 200."""

    title: str
    lines: list[Line]
    grid: list[tuple[float, str]]  # heights of the horizontal lines, with their labels
    times: list[tuple[float, str]]  # places on the time axis, with their labels
    bands: list[Band]  # the faults
    width: int = _WIDTH
    height: int = _HEIGHT


def throughput_chart(rows: list[dict[str, Any]], seconds: int, faults: Sequence[Fault]) -> Chart | None:
    """Plot how many messages a second were committed, queued and applied.

    As for the other charts, `rows` are those of the report's time line, and `seconds` is the width of an
    interval. None: there is nothing to show.
    """
    series = {
        name: [(at, messages / seconds) for at, messages in _filled(points, seconds)]
        for name, points in _counts(rows, ("committed", "queued", "applied")).items()
    }
    return _chart("Throughput, messages a second", series, seconds, faults)


def lag_chart(rows: list[dict[str, Any]], seconds: int, faults: Sequence[Fault]) -> Chart | None:
    """Plot how many messages each group had queued and not applied, at the end of each interval."""
    changes: dict[str, dict[datetime, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        if row["step"] in ("owed", "applied"):
            sign = 1 if row["step"] == "owed" else -1
            changes[row["consumer_group"]][row["at"]] += sign * row["messages"]
    series = {}
    for group, points in sorted(changes.items())[:_MOST_LINES]:
        filled = _filled(sorted(points.items()), seconds)
        series[group] = list(zip((at for at, _ in filled), accumulate(value for _, value in filled), strict=True))
    return _chart("Lag, messages queued and not applied yet", series, seconds, faults)


def latency_chart(rows: list[dict[str, Any]], seconds: int, faults: Sequence[Fault]) -> Chart | None:
    """Plot the percentiles of the time from a commit to the queue and to the effect."""
    series: dict[str, Points] = defaultdict(list)
    for row in rows:
        if row["p50"] is not None:
            what = "to queue" if row["step"] == "queued" else f"to effect, {row['consumer_group']}"
            series[f"{what}, p50"].append((row["at"], row["p50"]))
            series[f"{what}, p99"].append((row["at"], row["p99"]))
    return _chart("Latency since the commit, seconds", dict(list(series.items())[:_MOST_LINES]), seconds, faults)


def recovery_chart(rows: list[dict[str, Any]], seconds: int, faults: Sequence[Fault]) -> Chart | None:
    """Plot how long the recovery from each fault took, as a bar at its time.

    Several faults at the same time, such as nodes killed at once, are one bar. `rows` give the time axis.
    """
    series: dict[str, dict[datetime, float]] = defaultdict(dict)
    for fault in faults:
        if fault.recovery_seconds is not None:
            name = fault.what if fault.what in series or len(series) < _MOST_LINES - 1 else "others"
            series[name][fault.at] = fault.recovery_seconds
    known = {name: sorted(points.items()) for name, points in series.items()}
    axis = [row["at"] for row in rows]
    return _chart("Recovery, seconds from the fault", known, seconds, (), axis=axis, bars=True)


def _counts(rows: list[dict[str, Any]], steps: Sequence[str]) -> dict[str, Points]:
    series: dict[str, Points] = defaultdict(list)
    for step in steps:
        for row in rows:
            if row["step"] == step:
                name = step if row["consumer_group"] is None else f"{step}, {row['consumer_group']}"
                series[name].append((row["at"], float(row["messages"])))
    return dict(list(series.items())[:_MOST_LINES])


def _filled(points: Points, seconds: int) -> Points:
    """Add the intervals in which nothing happened, as 0."""
    known, step = dict(points), timedelta(seconds=seconds)
    at, last, filled = points[0][0], points[-1][0], []
    while at <= last:
        filled.append((at, known.get(at, 0.0)))
        at += step
    return filled


def _chart(
    title: str,
    series: dict[str, Points],
    seconds: int,
    faults: Sequence[Fault],
    *,
    axis: Sequence[datetime] = (),
    bars: bool = False,
) -> Chart | None:
    times = [at for points in series.values() for at, _ in points]
    if not times:
        return None
    times += axis
    first, last = min(times), max(times) + timedelta(seconds=seconds)
    top = max(max(value for points in series.values() for _, value in points), 1e-9)

    def x(at: datetime) -> float:
        share = (at - first) / (last - first)
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(share, 0.0), 1.0), 1)

    def y(value: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * max(value, 0.0) / top, 1)

    def path(points: Points) -> str:
        if bars:
            return " ".join(f"M{x(at)},{y(0)} V{y(value)}" for at, value in points)
        parts = []
        for before, (at, value) in zip([None, *points], points, strict=False):
            # Where nothing was measured the line breaks. A point alone is a dot.
            broken = before is None or at - before[0] > timedelta(seconds=seconds)
            parts.append(f"M{x(at)},{y(value)} h0" if broken else f"L{x(at)},{y(value)}")
        return " ".join(parts)

    lines = [Line(name, number, path(points), bars) for number, (name, points) in enumerate(series.items())]
    bands = [
        Band(x(fault.at), max(x(fault.recovered_at or fault.at) - x(fault.at), 1.5), f"{fault.what} {fault.target}")
        for fault in faults
        if first <= fault.at <= last
    ]
    grid = [(y(top * share), _number(top * share)) for share in (0, 0.5, 1)]
    moments = [first + (last - first) * share for share in (0, 0.5, 1)]
    pattern = "%H:%M:%S" if last - first < timedelta(days=1) else "%m-%d %H:%M"
    return Chart(title, lines, grid, [(x(at), at.strftime(pattern)) for at in moments], bands)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.3g}"
