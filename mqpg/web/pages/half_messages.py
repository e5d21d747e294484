"""Undecided half messages: their content, who was asked how often, with what answer."""

from __future__ import annotations

from starlette.responses import Response

from mqpg.status.finding import Row
from mqpg.status.half_messages import UNDECIDED, Asked, asked, bodies, parked_because, parks_again
from mqpg.values.errors import UnknownHandle
from mqpg.values.handle import parse_handle

from ..remedies import parked_ones
from ..request import PageRequest

__all__ = ["listing", "page"]

_PAGE = 50
_MOST_GROUPS = 5  # producer groups for which the list says what to do
_STATES = ("all", "pending", "overdue", "parked")
# Overdue: as in `mqpg status`, a minute late.
_UNDECIDED = f"""
select h.handle, h.producer_group, h.topic, h.prepared_at, h.check_at, h.checks, h.reason, h.parked_at,
    case when h.parked_at is not null then 'parked'
        when h.check_at < clock_timestamp() - interval '1 minute' then 'overdue' else 'pending' end as state,
    extract(epoch from clock_timestamp() - h.prepared_at)::float8 as seconds,
    extract(epoch from clock_timestamp() - h.check_at)::float8 as late_seconds
from ({UNDECIDED}) as h
"""
_LIST = f"""
select u.* from ({_UNDECIDED}) as u
where (%(state)s in ('all', u.state) or (%(state)s = 'pending' and u.state = 'overdue'))
    and (%(group)s = '' or u.producer_group = %(group)s)
    and (%(after_at)s = '' or (u.prepared_at, u.handle) > (nullif(%(after_at)s, '')::timestamptz, %(after)s))
order by u.prepared_at, u.handle limit %(limit)s
"""
_ONE = f"select u.* from ({_UNDECIDED}) as u where u.handle = %(handle)s"
_CHECKS = ("asked", "waited", "waited late", "parked", "rearmed", "settled", "expired", "decided")


def listing(request: PageRequest) -> Response:
    """List undecided half messages, the oldest first."""
    state = request.text("state") if request.text("state") in _STATES else "all"
    group = request.text("group")
    place = {"after_at": request.text("after_at"), "after": request.text("after")}
    found = request.rows(_LIST, state=state, group=group, limit=_PAGE + 1, **place)
    reading, _ = request.site.reading()
    halves = found[:_PAGE]
    rows = request.site.source.rows
    known = asked(rows, [one["producer_group"] for one in halves])
    ids = [_id_of(one["handle"]) for one in halves]
    read = bodies(rows, ids, 0)
    return request.render(
        "half_messages.html",
        halves=[
            (one, read.get(message_id, {}).get("key"), known[one["producer_group"]].in_vain)
            for one, message_id in zip(halves, ids, strict=True)
        ],
        todo=_to_do(request, halves, known),
        last=found[_PAGE - 1] if len(found) > _PAGE else None,
        producers=reading.overview.half_messages,
        states=_STATES,
        state=state,
        group=group,
        after=place["after"],
    )


def page(request: PageRequest) -> Response:
    """Show one half message, with its payload and its check-backs."""
    handle = request.path_params["handle"]
    named = parse_handle(handle)
    found = request.rows(_ONE, handle=handle)
    if named is None:
        raise UnknownHandle(f"no half message {handle}")
    message_id = named[1]
    events = request.mq.trace(message_id)
    half = found[0] if found else None
    group = half["producer_group"] if half else None
    known = asked(request.site.source.rows, [group])[group]
    return request.render(
        "half_message.html",
        handle=handle,
        message_id=message_id,
        half=half,
        body=request.message_body(message_id),
        checker=known.producer,
        in_vain=known.in_vain,
        because=parked_because(half, known.producer) if half and half["parked_at"] else None,
        again=parks_again(known.producer) if half and half["parked_at"] else None,
        checks=[one for one in events if one.event in _CHECKS],
        why=request.why(handle, sent_to=half["topic"]) if half else None,
    )


def _id_of(handle: str) -> int:
    named = parse_handle(handle)
    return named[1] if named else -1


def _to_do(request: PageRequest, halves: list[Row], known: dict[str | None, Asked]) -> list[tuple[str, str]]:
    """What is so, and what to do, for each producer group with overdue or parked half messages."""
    firsts = {(one["producer_group"], one["state"]): one for one in reversed(halves) if one["state"] != "pending"}
    lines = []
    for (group, state), half in sorted(firsts.items(), key=str)[:_MOST_GROUPS]:
        name, of_group = f"Producer group {group or 'that was dropped'}", known[group]
        if state == "parked":
            again = parks_again(of_group.producer)
            does = " ".join(filter(None, [parked_ones(request.may_act), again]))
            lines.append((f"{name}: {parked_because(half, of_group.producer)}", does))
        else:
            in_vain = of_group.in_vain
            what = f"its ledger was {in_vain}" if in_vain else half["reason"] or "its check is overdue"
            causes = request.why(half["handle"]) or []
            lines.append((f"{name}: {what}", causes[-1].advice if causes else ""))
    return lines
