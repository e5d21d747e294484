"""Audits that run with their newest verdicts, and the pages that audits have written."""

from __future__ import annotations

from starlette.responses import Response

from mqpg.values.errors import NotFound

from ..reports import MOST_REPORTS
from ..request import PageRequest

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


def page(request: PageRequest) -> Response:
    """List what `mqpg audit --follow` has reported, and the reports of the folder."""
    reports = request.site.reports
    listed, trouble = None, None
    if reports is not None:
        try:
            listed = reports.listing()
        except NotFound as error:
            trouble = str(error)
    return request.render("audits.html", audits=request.rows(_LIST), reports=listed, trouble=trouble, most=MOST_REPORTS)


def report(request: PageRequest) -> Response:
    """Show the page that an audit has written."""
    name = request.path_params["name"]
    if request.site.reports is None:
        raise NotFound("this dashboard serves no reports: start it with --reports FOLDER")
    text = request.site.reports.read(name)
    return Response(text, media_type="text/html; charset=utf-8", headers={"Content-Security-Policy": _POLICY})
