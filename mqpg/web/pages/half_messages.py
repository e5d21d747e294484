"""Undecided half messages: their content, who was asked how often, with what answer."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from mqpg.audit.handles import HANDLE
from mqpg.errors import UnknownHandle
from mqpg.status.finding import Row
from mqpg.status.half_messages import bodies, keys, ledgers_in_vain, parked_because, parks_again, producers

from ..remedies import parked_ones
from ..visit import Visit

__all__ = ["listing", "page"]

_PAGE = 50
_MOST_GROUPS = 5  # producer groups for which the list says what to do
_MOST_SHOWN = 20_001  # characters of a payload, of which the page shows all but the last
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
_CHECKS = ("asked", "waited", "waited late", "parked", "rearmed", "settled", "expired", "decided")


@dataclass(frozen=True)
class _Asked:
    """What is known about the check-backs of a producer group.

    Attributes:
        producer: Its settings. None: it was dropped, or the role may not read them.
        in_vain: How often its ledger was asked without an answer. None: it answers, or none is.
    """

    producer: Row | None
    in_vain: str | None


def listing(visit: Visit) -> Response:
    """List undecided half messages, the oldest first."""
    state = visit.text("state") if visit.text("state") in _STATES else "all"
    group = visit.text("group")
    place = {"after_at": visit.text("after_at"), "after": visit.text("after")}
    found = visit.rows(_LIST, state=state, group=group, limit=_PAGE + 1, **place)
    reading, _ = visit.site.reading()
    halves = found[:_PAGE]
    asked = _asked(visit, halves)
    known = keys(visit.site.source.rows, [_id_of(one["handle"]) for one in halves])
    return visit.page(
        "half_messages.html",
        halves=[(one, known.get(_id_of(one["handle"])), asked[one["producer_group"]].in_vain) for one in halves],
        todo=_to_do(visit, halves, asked),
        last=found[_PAGE - 1] if len(found) > _PAGE else None,
        producers=reading.overview.half_messages,
        states=_STATES,
        state=state,
        group=group,
        after=place["after"],
    )


def page(visit: Visit) -> Response:
    """Show one half message, with its payload and its check-backs."""
    handle = visit.place("handle")
    named = HANDLE.match(handle)
    found = visit.rows(_ONE, handle=handle)
    if named is None:
        raise UnknownHandle(f"no half message {handle}")
    message_id = int(named[2])
    events = visit.mq.trace(message_id)
    half = found[0] if found else None
    asked = _asked(visit, found).get(half["producer_group"] if half else None, _Asked(None, None))
    return visit.page(
        "half_message.html",
        handle=handle,
        message_id=message_id,
        half=half,
        body=bodies(visit.site.source.rows, [message_id], _MOST_SHOWN).get(message_id),
        checker=asked.producer,
        in_vain=asked.in_vain,
        because=parked_because(half, asked.producer) if half and half["parked_at"] else None,
        again=parks_again(asked.producer) if half and half["parked_at"] else None,
        checks=[one for one in events if one.event in _CHECKS],
        why=visit.why(handle) if half else None,
    )


def _id_of(handle: str) -> int:
    return int(handle.split(".")[2])


def _asked(visit: Visit, halves: list[Row]) -> dict[str | None, _Asked]:
    """What is known about the check-backs of their producer groups."""
    groups = {one["producer_group"] for one in halves}
    rows = visit.site.source.rows
    known = producers(rows, groups)
    ledgers = {name: one["checker_target"] for name, one in known.items() if one["checker"] == "url"}
    in_vain = ledgers_in_vain(rows, ledgers.values()) if ledgers else {}
    return {one: _Asked(known.get(one or ""), in_vain.get(ledgers.get(one or "", ""))) for one in groups}


def _to_do(visit: Visit, halves: list[Row], asked: dict[str | None, _Asked]) -> list[tuple[str, str]]:
    """What is so, and what to do, for each producer group with overdue or parked half messages."""
    firsts = {(one["producer_group"], one["state"]): one for one in reversed(halves) if one["state"] != "pending"}
    lines = []
    for (group, state), half in sorted(firsts.items(), key=str)[:_MOST_GROUPS]:
        name, known = f"Producer group {group or 'that was dropped'}", asked[group]
        if state == "parked":
            again = parks_again(known.producer)
            does = " ".join(filter(None, [parked_ones(visit.may_act), again]))
            lines.append((f"{name}: {parked_because(half, known.producer)}", does))
        else:
            what = f"its ledger was {known.in_vain}" if known.in_vain else half["reason"] or "its check is overdue"
            causes = visit.why(half["handle"]) or []
            lines.append((f"{name}: {what}", causes[-1].remedy if causes else ""))
    return lines
