"""The overview: what needs attention, rates, groups, half messages, workers."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from mqpg.status import Overview, findings
from mqpg.status.finding import Row

from ..links import link_of_finding
from ..rates import Throughput
from ..request import PageRequest

__all__ = ["live", "page"]

_ROWS = 20  # groups that the overview shows, those with the oldest unread message first


def page(request: PageRequest) -> Response:
    """Show the page around the live part, which asks for its successor every three seconds."""
    return request.render("overview.html", **_state(request))


def live(request: PageRequest) -> Response:
    """Show the live part alone."""
    return request.render("overview_live.html", **_state(request))


def _state(request: PageRequest) -> dict[str, Any]:
    found, throughput = request.site.reading()
    groups, attention = found.overview.groups, findings(found.overview)
    return {
        "found": found.overview,
        "appender": found.appender,
        "attention": [(one, *link_of_finding(one, request.link)) for one in attention[:_ROWS]],
        "more_attention": max(0, len(attention) - _ROWS),
        "figures": _figures(found.overview, throughput),
        "halves": _halves(found.overview.half_messages),
        "groups": groups[:_ROWS],
        "more_groups": max(0, len(groups) - _ROWS),
    }


def _figures(found: Overview, throughput: Throughput) -> list[tuple[str, float | None, str]]:
    """Title, value and unit of each figure."""
    return [
        ("Appended a second", throughput.appended, "count"),
        ("Handled a second", throughput.handled, "count"),
        ("Unread messages", sum(one["lag"] for one in found.groups), "count"),
        (
            "Age of the oldest unread",
            max((one["oldest_unread_seconds"] or 0 for one in found.groups), default=0),
            "seconds",
        ),
        ("Undecided half messages", sum(one["pending"] + one["parked"] for one in found.half_messages), "count"),
    ]


def _halves(producers: list[Row]) -> dict[str, int]:
    """How many half messages are overdue, and how many are parked."""
    return {state: sum(one[state] for one in producers) for state in ("overdue", "parked")}
