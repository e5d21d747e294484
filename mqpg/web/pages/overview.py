"""The overview: what needs attention, rates, groups, half messages, workers."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from mqpg.status import findings
from mqpg.status.finding import Row

from ..links import link_of_finding
from ..rates import Sample
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
    found, samples = request.site.reading()
    groups, attention = found.overview.groups, findings(found.overview)
    return {
        "found": found.overview,
        "appender": found.appender,
        "attention": [(one, *link_of_finding(one, request.link)) for one in attention[:_ROWS]],
        "more_attention": max(0, len(attention) - _ROWS),
        "charts": _charts(samples),
        "span": samples[-1].at - samples[0].at,
        "halves": _halves(found.overview.half_messages),
        "groups": groups[:_ROWS],
        "more_groups": max(0, len(groups) - _ROWS),
    }


def _charts(samples: list[Sample]) -> list[tuple[str, float | None, str, list[tuple[float, float | None]]]]:
    """Title, newest value, unit and points of each plot."""
    last = samples[-1]
    return [
        ("Appended a second", last.appended, "count", [(one.at, one.appended) for one in samples]),
        ("Handled a second", last.handled, "count", [(one.at, one.handled) for one in samples]),
        ("Unread messages", last.lag, "count", [(one.at, one.lag) for one in samples]),
        ("Age of the oldest unread", last.oldest, "seconds", [(one.at, one.oldest) for one in samples]),
        ("Undecided half messages", last.undecided, "count", [(one.at, one.undecided) for one in samples]),
    ]


def _halves(producers: list[Row]) -> dict[str, int]:
    """How many half messages are overdue, and how many are parked."""
    return {state: sum(one[state] for one in producers) for state in ("overdue", "parked")}
