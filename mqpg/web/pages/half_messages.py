"""Undecided half messages: who was asked how often, with what answer."""

from __future__ import annotations

from starlette.responses import Response

from mqpg.audit.handles import HANDLE
from mqpg.errors import UnknownHandle
from mqpg.status.finding import Row

from ..visit import Visit

__all__ = ["listing", "page"]

_PAGE = 50
_STATES = ("all", "pending", "overdue", "parked")
# Overdue: as in `mqpg status`, a minute late.
_UNDECIDED = """
select h.handle, h.producer_group, h.topic, h.prepared_at, h.check_at, h.checks, h.reason, h.parked_at,
    case when h.parked_at is not null then 'parked'
        when h.check_at < clock_timestamp() - interval '1 minute' then 'overdue' else 'pending' end as state,
    extract(epoch from clock_timestamp() - h.prepared_at)::float8 as seconds,
    extract(epoch from clock_timestamp() - h.check_at)::float8 as late_seconds
from (
    select p.handle, p.producer_group, p.topic, p.prepared_at, p.check_at, p.checks, p.reason, null as parked_at
    from mqpg.half_pending as p
    union all
    select k.handle, k.producer_group, k.topic, k.prepared_at, k.check_at, k.checks, k.reason, k.parked_at
    from mqpg.half_parked as k
) as h
"""
_LIST = f"""
select u.* from ({_UNDECIDED}) as u
where (%(state)s in ('all', u.state) or (%(state)s = 'pending' and u.state = 'overdue'))
    and (%(group)s = '' or u.producer_group = %(group)s)
    and (%(after_at)s = '' or (u.prepared_at, u.handle) > (nullif(%(after_at)s, '')::timestamptz, %(after)s))
order by u.prepared_at, u.handle limit %(limit)s
"""
_ONE = f"select u.* from ({_UNDECIDED}) as u where u.handle = %(handle)s"
_CHECKER = """
select g.producer_group, g.check_after, g.max_checks, g.on_exhausted, g.checker, g.checker_target, g.expire_after
from mqpg._producer_groups() as g where g.producer_group = %(group)s
"""
_CHECKS = ("asked", "waited", "waited late", "parked", "rearmed", "settled", "expired", "decided")


def listing(visit: Visit) -> Response:
    """List undecided half messages, the oldest first."""
    state = visit.text("state") if visit.text("state") in _STATES else "all"
    group = visit.text("group")
    place = {"after_at": visit.text("after_at"), "after": visit.text("after")}
    found = visit.rows(_LIST, state=state, group=group, limit=_PAGE + 1, **place)
    reading, _ = visit.site.reading()
    return visit.page(
        "half_messages.html",
        halves=found[:_PAGE],
        last=found[_PAGE - 1] if len(found) > _PAGE else None,
        producers=reading.overview.half_messages,
        states=_STATES,
        state=state,
        group=group,
        after=place["after"],
    )


def page(visit: Visit) -> Response:
    """Show one half message, with its check-backs."""
    handle = visit.place("handle")
    named = HANDLE.match(handle)
    found = visit.rows(_ONE, handle=handle)
    if named is None:
        raise UnknownHandle(f"no half message {handle}")
    message_id = int(named[2])
    events = visit.mq.trace(message_id)
    half = found[0] if found else None
    return visit.page(
        "half_message.html",
        handle=handle,
        message_id=message_id,
        half=half,
        birth=events[0].detail if events and isinstance(events[0].detail, dict) else {},
        checker=_checker(visit, half),
        checks=[one for one in events if one.event in _CHECKS],
        why=visit.why(handle) if half else None,
    )


def _checker(visit: Visit, half: Row | None) -> Row | None:
    """The settings of its producer group. None: it was dropped, or the half is decided."""
    found = visit.rows(_CHECKER, group=half["producer_group"]) if half else []
    return found[0] if found else None
