"""Audits that run, and their newest verdicts."""

from __future__ import annotations

from starlette.responses import Response

from ..visit import Visit

__all__ = ["page"]

_LIST = """
select w.worker_id, w.host, w.pid, w.state, w.alive, w.started_at, w.seen_at, w.detail,
    extract(epoch from clock_timestamp() - w.seen_at)::float8 as seconds
from mqpg.worker_status as w where w.role = 'audit' order by w.alive desc, w.seen_at desc limit 50
"""


def page(visit: Visit) -> Response:
    """List what `mqpg audit --follow` has reported."""
    return visit.page("audits.html", audits=visit.rows(_LIST))
