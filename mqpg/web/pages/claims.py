"""The open deliveries of a group: who has which messages, since when, and until when."""

from __future__ import annotations

from mqpg.status.finding import Row
from mqpg.values.errors import NotGranted

from ..request import PageRequest

__all__ = ["MOST_CLAIMS", "claims_by_consumer", "open_claims"]

MOST_CLAIMS = 100
_OFFSETS = 5  # offsets of a delivery that a filter has picked; of more, the first and the last
_OPEN = """
from (
    select l.* from mqpg.subscription_lag as l where l.consumer_group = %(group)s and l.topic = %(topic)s
) as v
cross join lateral (
    select c.version from mqpg_audit.position_change as c
    where c.subscription_id = v.subscription_id and c.queue_id = v.queue_id order by c.version desc limit 1
) as c
join mqpg_audit.claim as u
    on u.subscription_id = v.subscription_id and u.queue_id = v.queue_id and u.version = c.version"""
# An epoch is the version of the cursor at the delivery times 2^20, and something. That version has
# the time.
_CLAIMS = f"""
select v.queue_id, v.owner, u.holder as consumer, u.from_offset, u.to_offset, u.settled, u.picked, u.attempt,
    u.lease_until, b.at as since, extract(epoch from clock_timestamp() - b.at)::float8 as seconds,
    extract(epoch from u.lease_until - clock_timestamp())::float8 as lease_seconds
{_OPEN}
left join lateral (
    select d.changed_at as at from mqpg_audit.position_change as d
    where d.subscription_id = v.subscription_id and d.queue_id = v.queue_id and d.version = u.epoch >> 20
        and d.action in ('receive', 'ack_and_receive', 'take_over')
    limit 1
) as b on true
where v.claims > 0 and u.epoch > 0 and (%(queue)s::int is null or v.queue_id = %(queue)s)
order by u.lease_until, v.queue_id, v.owner, u.from_offset limit %(limit)s
"""
_BY_CONSUMER = f"""
select g.queue_id, coalesce(g.consumer, g.owner) as consumer, g.deliveries, g.messages, g.first_until, g.last_until,
    extract(epoch from clock_timestamp() - b.at)::float8 as seconds,
    extract(epoch from g.first_until - clock_timestamp())::float8 as first_seconds,
    extract(epoch from g.last_until - clock_timestamp())::float8 as last_seconds
from (
    select v.subscription_id, v.queue_id, v.owner, u.holder as consumer, count(*) as deliveries,
        min(u.epoch >> 20) as version,
        sum(case when u.picked is null then u.to_offset - u.from_offset - coalesce(cardinality(u.settled), 0)
            else cardinality(u.picked) end)::bigint as messages,
        min(u.lease_until) as first_until, max(u.lease_until) as last_until
    {_OPEN}
    where v.claims > 0 and u.epoch > 0
    group by v.subscription_id, v.queue_id, v.owner, u.holder
) as g
left join lateral (
    select d.changed_at as at from mqpg_audit.position_change as d
    where d.subscription_id = g.subscription_id and d.queue_id = g.queue_id and d.version = g.version
        and d.action in ('receive', 'ack_and_receive', 'take_over')
    limit 1
) as b on true
order by g.deliveries desc, g.queue_id, g.consumer limit %(limit)s
"""


def claims_by_consumer(request: PageRequest, group: str, topic: str) -> list[Row]:
    """Count the open deliveries of each consumer and queue, those with the most first, at most 100.

    Empty if the role is no auditor.
    """
    try:
        return request.rows(_BY_CONSUMER, group=group, topic=topic, limit=MOST_CLAIMS)
    except NotGranted:
        return []


def open_claims(request: PageRequest, group: str, topic: str, queue: int | None) -> list[Row] | None:
    """List at most 100 open deliveries of a group or one queue, the one whose lease ends first at the top.

    None if the role is no auditor.
    """
    try:
        found = request.rows(_CLAIMS, group=group, topic=topic, queue=queue, limit=MOST_CLAIMS)
    except NotGranted:
        return None
    return [one | _held(one) for one in found]


def _held(claim: Row) -> Row:
    """The offsets that it still holds: how many, and the first few, or else a range."""
    picked: list[int] | None = claim["picked"]
    settled: list[int] = claim["settled"] or []
    start, end = claim["from_offset"], claim["to_offset"]
    count = end - start - len(settled) if picked is None else len(picked)
    if count <= _OFFSETS:
        held = picked if picked is not None else [one for one in range(start, end) if one not in settled]
        return {"messages": count, "offsets": held, "is_range": False}
    return {"messages": count, "offsets": [start, end - 1], "is_range": True}
