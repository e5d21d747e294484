"""Storage: segments, what keeps them, what was lost, and the tables."""

from __future__ import annotations

from starlette.responses import Response

from mqpg.status.finding import Row
from mqpg.values.errors import NotGranted

from ..links import OF_WORKERS
from ..request import PageRequest

__all__ = ["page"]

_MOST = 200
_SEGMENTS = """
select s.family, s.segment_no, s.opened_at, s.closed_at,
    case when s.leaving is not null then 'leaving' when s.closed_at is not null then 'closed'
        when s.opened_at is not null then 'open' else 'ahead' end as state, (
        select sum(pg_total_relation_size(to_regclass(format('mqpg.%%I', t.parent || '_' || s.segment_no))))::bigint
        from unnest(case s.family when 'log' then array['commit_log', 'op_log', 'check_log']
            when 'tick' then array['consume_queue', 'tick', 'half_tick'] else array[s.family] end) as t(parent)
    ) as bytes
from mqpg_audit.segment as s
where s.decisions_dropped_at is null and s.merged_at is null
order by s.family, s.segment_no desc limit %(limit)s
"""


def page(request: PageRequest) -> Response:
    """Show what the log takes, and what keeps it from becoming less."""
    found, _ = request.site.reading()
    (growth,) = (one for one in found.overview.growth if one["topic"] is None)
    return request.render(
        "storage.html",
        found=found.overview,
        tables=sorted(found.tables, key=lambda one: (-one["bytes"], one["table_name"])),
        growth=growth,
        oldest_transaction=found.oldest_transaction,
        old=[one for one in found.overview.moment if not one.ok and one.check not in OF_WORKERS],
        segments=_segments(request),
        most=_MOST,
    )


def _segments(request: PageRequest) -> list[Row] | None:
    """None if the role is no auditor."""
    try:
        return request.rows(_SEGMENTS, limit=_MOST)
    except NotGranted:
        return None
