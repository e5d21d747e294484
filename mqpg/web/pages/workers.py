"""Worker processes and what they report."""

from __future__ import annotations

from starlette.responses import Response

from mqpg.status.workers import missing_roles

from ..leads import OF_WORKERS
from ..visit import Visit

__all__ = ["page"]

_MOST = 200
_LIST = """
select w.worker_id, w.role, w.host, w.pid, w.state, w.alive, w.started_at, w.seen_at, w.detail,
    extract(epoch from clock_timestamp() - w.seen_at)::float8 as seconds
from mqpg.worker_status as w where w.role <> 'audit'
order by w.alive desc, w.role, w.state, w.seen_at desc limit %(limit)s
"""


def page(visit: Visit) -> Response:
    """List workers, those that are alive first, and the roles that none leads."""
    found, _ = visit.site.reading()
    return visit.page(
        "workers.html",
        workers=visit.rows(_LIST, limit=_MOST),
        missing=missing_roles(visit.rows),
        appender=found.appender,
        server=[one for one in found.overview.moment if one.check in OF_WORKERS],
    )
