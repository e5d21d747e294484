"""Worker processes and what they report."""

from __future__ import annotations

from starlette.responses import Response

from mqpg.status.workers import missing_roles

from ..links import OF_WORKERS
from ..request import PageRequest

__all__ = ["page"]

_MOST = 200
_LIST = """
select w.worker_id, w.role, w.host, w.pid, w.state, w.alive, w.started_at, w.seen_at, w.detail,
    extract(epoch from clock_timestamp() - w.seen_at)::float8 as seconds
from mqpg.worker_status as w where w.role <> 'audit'
order by w.alive desc, w.role, w.state, w.seen_at desc limit %(limit)s
"""


def page(request: PageRequest) -> Response:
    """List workers, those that are alive first, and the roles that none leads."""
    found, _ = request.site.reading()
    return request.render(
        "workers.html",
        workers=request.rows(_LIST, limit=_MOST),
        missing=missing_roles(request.rows),
        appender=found.appender,
        server=[one for one in found.overview.moment if one.check in OF_WORKERS],
    )
