"""The page: the report's parts, put into the template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from mqpg.audit.faults import Fault
from mqpg.audit.report import Report, scope_words

from .charts import lag_chart, latency_chart, recovery_chart, throughput_chart
from .look_further import queries

__all__ = ["as_html"]


def as_html(report: Report, faults: Sequence[Fault] = ()) -> str:
    """A report as one HTML page, with its style and its plots, and no script.

    `faults` are faults that were injected meanwhile, for the plots and a table.
    """
    rows = report.timeline.get("rows", [])
    seconds = report.timeline.get("interval_seconds", 1)
    plots = (throughput_chart, lag_chart, recovery_chart, latency_chart)
    charts = [plot(rows, seconds, faults) for plot in plots]
    return (
        _environment()
        .get_template("page.html")
        .render(
            report=report,
            scope=scope_words(report.scope),
            run=report.run,
            charts=[chart for chart in charts if chart is not None],
            examples=[row | {"queries": queries(row)} for row in report.examples],
            faults=faults,
            recoveries=_recoveries(faults),
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("mqpg.audit.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count"] = lambda number: f"{number:,}"
    environment.filters["mark"] = _mark
    environment.filters["time"] = lambda at: at.strftime("%Y-%m-%d %H:%M:%S %Z") if at is not None else ""
    return environment


def _mark(holds: bool | None) -> str:
    return "open" if holds is None else "✓" if holds else "✗"


def _recoveries(faults: Sequence[Fault]) -> dict[str, Any] | None:
    known = sorted(fault.recovery_seconds for fault in faults if fault.recovery_seconds is not None)
    if not known:
        return None
    return {
        "faults": len(known),
        "p50": known[(len(known) - 1) // 2],
        "p99": known[min(len(known) - 1, round(0.99 * (len(known) - 1)))],
        "max": known[-1],
    }
