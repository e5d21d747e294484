"""Subscriptions: consumer groups with their lag, and one group with its queues and members."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from mqpg.values.errors import UnknownSubscription
from mqpg.values.messages import RETRY_LANE

from ..links import badges
from ..request import PageRequest
from .claims import MOST_CLAIMS, claims_by_consumer, open_claims

__all__ = ["LISTED", "listing", "marked", "page"]

_PAGE = 50
_MANY = 10  # open deliveries that the page lists one by one at once
_QUEUES = 256  # of a broadcast group with many members the page shows those that lag most
LISTED = """
select s.consumer_group, s.topic_name as topic, s.mode, s.paused, l.lag, l.claims, l.changed_at
from ({}) as s
cross join lateral (
    select sum(v.lag)::bigint as lag, sum(v.claims)::bigint as claims, max(v.changed_at) as changed_at
    from mqpg.subscription_lag as v where v.consumer_group = s.consumer_group and v.topic = s.topic_name
) as l
order by s.consumer_group, s.topic_name
"""
"""What a list of groups shows of the subscriptions that a query chooses."""
_LIST = LISTED.format("""
    select g.consumer_group, g.topic_name, g.mode, g.paused from mqpg._subscriptions(null) as g
    where (g.consumer_group, g.topic_name) > (%(group)s, %(topic)s)
        and (position(%(q)s in g.consumer_group) > 0 or position(%(q)s in g.topic_name) > 0)
    order by g.consumer_group, g.topic_name limit %(limit)s
""")
_ONE = """
select s.consumer_group, s.topic_name as topic, s.mode, s.on_failure, s.filter, s.tags, s.max_attempts,
    s.retry_delay, s.paused
from mqpg._subscriptions(%(topic)s) as s where s.consumer_group = %(group)s
"""
_LAG = """
select v.queue_id, v.committed, v.next_offset, v.lag, v.claims, v.owner, v.changed_at
from mqpg.subscription_lag as v where v.consumer_group = %(group)s and v.topic = %(topic)s
order by v.lag desc, v.owner nulls first, v.queue_id limit %(limit)s
"""
_MEMBERS = """
select w.worker_id, w.host, w.pid, w.state, w.alive, w.seen_at, w.detail
from mqpg.worker_status as w
where w.role = 'consumer' and w.detail ->> 'consumer_group' = %(group)s and w.detail ->> 'topic' = %(topic)s
order by w.alive desc, w.seen_at desc limit 50
"""


def listing(request: PageRequest) -> Response:
    """List subscriptions in order of their names."""
    part = request.text("q")
    place = {"group": request.text("after_group"), "topic": request.text("after_topic")}
    found = request.rows(_LIST, q=part, limit=_PAGE + 1, **place)
    last = found[_PAGE - 1] if len(found) > _PAGE else None
    return request.render(
        "groups.html", groups=found[:_PAGE], last=last, after=place["group"], q=part, **marked(request)
    )


def marked(request: PageRequest) -> dict[str, Any]:
    """What a list of groups shows beside each: marks, and the age of the oldest unread message."""
    overview = request.site.reading()[0].overview
    oldest = {(one["consumer_group"], one["topic"]): one["oldest_unread_seconds"] for one in overview.groups}
    return {"badges": badges(overview, request.link), "oldest": oldest}


def page(request: PageRequest) -> Response:
    """Show one subscription."""
    place = {"group": request.path_params["group"], "topic": request.path_params["topic"]}
    found = request.rows(_ONE, **place)
    if not found:
        raise UnknownSubscription(f"group {place['group']} is not subscribed to topic {place['topic']}")
    queues, queue = request.rows(_LAG, limit=_QUEUES, **place), request.number("queue")
    in_flight = sum(one["claims"] for one in queues)
    is_many = in_flight > _MANY and queue is None
    return request.render(
        "group.html",
        group=found[0],
        queues=sorted(queues, key=lambda one: (one["queue_id"] == RETRY_LANE, one["queue_id"], one["owner"] or "")),
        lag=sum(one["lag"] for one in queues),
        in_flight=in_flight,
        by_consumer=claims_by_consumer(request, place["group"], place["topic"]) if is_many else [],
        claims=open_claims(request, place["group"], place["topic"], queue),
        claims_of=queue,
        most_claims=MOST_CLAIMS,
        members=request.rows(_MEMBERS, **place),
        why=request.why(place["group"], place["topic"]),
    )
