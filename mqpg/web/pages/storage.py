"""Storage: segments, what keeps them, what was lost, and the tables."""

from __future__ import annotations

from starlette.responses import Response

from mqpg.status.finding import Row
from mqpg.values.errors import NotGranted

from ..leads import OF_WORKERS
from ..visit import Visit

__all__ = ["page"]

_MOST = 200
_SEGMENTS = """
select s.family, s.segment_no, s.opened_at, s.closed_at,
    case when s.leaving is not null then 'leaving' when s.closed_at is not null then 'closed'
        when s.opened_at is not null then 'open' else 'ahead' end as state
from mqpg.audit_segment as s
where s.dropped_at is null and s.merged_at is null
order by s.family, s.segment_no desc limit %(limit)s
"""


def page(visit: Visit) -> Response:
    """Show what the log takes, and what keeps it from becoming less."""
    found, _ = visit.site.reading()
    return visit.page(
        "storage.html",
        found=found.overview,
        tables=sorted(found.tables, key=lambda one: (-one["live"], one["table_name"])),
        oldest_transaction=found.oldest_transaction,
        old=[one for one in found.overview.moment if not one.ok and one.check not in OF_WORKERS],
        segments=_segments(visit),
        most=_MOST,
    )


def _segments(visit: Visit) -> list[Row] | None:
    """None where the role is no auditor."""
    try:
        return visit.rows(_SEGMENTS, limit=_MOST)
    except NotGranted:
        return None
