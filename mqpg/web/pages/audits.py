"""Audits that run with their newest verdicts, and the pages that audits have written."""

from __future__ import annotations

from starlette.responses import Response

from mqpg.values.errors import NotFound

from ..reports import MOST_REPORTS
from ..visit import Visit

__all__ = ["page", "report"]

_LIST = """
select w.worker_id, w.host, w.pid, w.state, w.alive, w.started_at, w.seen_at, w.detail,
    extract(epoch from clock_timestamp() - w.seen_at)::float8 as seconds
from mqpg.worker_status as w where w.role = 'audit' order by w.alive desc, w.seen_at desc limit 50
"""
# A page of an audit has its style and its plots in it, and no script. What else is put into the
# folder cannot run one either, send a form, or load anything; and it is no page of this origin.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'; sandbox"
)


def page(visit: Visit) -> Response:
    """List what `mqpg audit --follow` has reported, and the reports of the folder."""
    reports = visit.site.reports
    listed, trouble = None, None
    if reports is not None:
        try:
            listed = reports.listing()
        except NotFound as error:
            trouble = str(error)
    return visit.page("audits.html", audits=visit.rows(_LIST), reports=listed, trouble=trouble, most=MOST_REPORTS)


def report(visit: Visit) -> Response:
    """Show the page that an audit has written."""
    name = visit.place("name")
    if visit.site.reports is None:
        raise NotFound("this dashboard serves no reports: start it with --reports FOLDER")
    text = visit.site.reports.read(name)
    return Response(text, media_type="text/html; charset=utf-8", headers={"Content-Security-Policy": _POLICY})
