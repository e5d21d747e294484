"""The overview: what needs attention, rates, groups, half messages, workers."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from mqpg.status import advice

from ..visit import Visit

__all__ = ["live", "page"]

_ROWS = 20  # groups that the overview shows, those with the oldest unread message first


def page(visit: Visit) -> Response:
    """Show the page around the live part, which loads itself every three seconds."""
    return visit.page("overview.html", **_state(visit))


def live(visit: Visit) -> Response:
    """Show the live part alone."""
    return visit.page("overview_live.html", **_state(visit))


def _state(visit: Visit) -> dict[str, Any]:
    found, samples = visit.site.reading()
    last = samples[-1]
    charts = [
        ("Appended a second", last.appended, "count", [(one.at, one.appended) for one in samples]),
        ("Handled a second", last.handled, "count", [(one.at, one.handled) for one in samples]),
        ("Unread messages", last.lag, "count", [(one.at, float(one.lag)) for one in samples]),
        ("Age of the oldest unread", last.oldest, "seconds", [(one.at, float(one.oldest)) for one in samples]),
        ("Undecided half messages", last.undecided, "count", [(one.at, float(one.undecided)) for one in samples]),
    ]
    groups = found.overview.groups
    return {
        "found": found.overview,
        "appender": found.appender,
        "attention": advice(found.overview)[:_ROWS],
        "charts": charts,
        "groups": groups[:_ROWS],
        "more_groups": max(0, len(groups) - _ROWS),
    }
