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
from mqpg.audit_segment as s
where s.dropped_at is null and s.merged_at is null
order by s.family, s.segment_no desc limit %(limit)s
"""

_LIMIT = "select nullif(s.value, '0')::bigint as bytes from mqpg.audit_settings as s where s.name = 'max_bytes'"


def page(request: PageRequest) -> Response:
    """Show what the log takes, and what keeps it from becoming less."""
    found, _ = request.site.reading()
    segments = _segments(request)
    stored, a_day = sum(one["bytes"] for one in found.tables), _a_day(segments or [])
    return request.render(
        "storage.html",
        found=found.overview,
        tables=sorted(found.tables, key=lambda one: (-one["bytes"], one["table_name"])),
        stored=stored,
        a_day=a_day,
        days_left=_days_left(request, stored, a_day),
        oldest_transaction=found.oldest_transaction,
        old=[one for one in found.overview.moment if not one.ok and one.check not in OF_WORKERS],
        segments=segments,
        most=_MOST,
    )


def _segments(request: PageRequest) -> list[Row] | None:
    """None if the role is no auditor."""
    try:
        return request.rows(_SEGMENTS, limit=_MOST)
    except NotGranted:
        return None


def _a_day(segments: list[Row]) -> float | None:
    """How many bytes a day the closed segments have taken. None: they cover less than an hour."""
    closed = [one for one in segments if one["state"] == "closed" and one["opened_at"] is not None]
    if not closed:
        return None
    days = (max(one["closed_at"] for one in closed) - min(one["opened_at"] for one in closed)).total_seconds() / 86400
    return sum(one["bytes"] or 0 for one in closed) / days if days > 1 / 24 else None


def _days_left(request: PageRequest, stored: int, a_day: float | None) -> float | None:
    """In how many days the broker reaches its `max_bytes` at this rate. None: there is no limit or no rate."""
    if not a_day:
        return None
    limit = request.rows(_LIMIT)[0]["bytes"]
    return None if limit is None else max(0, limit - stored) / a_day
