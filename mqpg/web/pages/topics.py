"""Topics, page by page, and one topic with its queues and groups."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from mqpg.values.errors import UnknownTopic

from ..links import Badge
from ..request import PageRequest
from .groups import LISTED, marked

__all__ = ["listing", "page"]

_PAGE = 50
_MOST_MARKS = 4  # of a topic
_LIST = """
select t.topic, t.kind, t.queues, justify_hours(t.retention)::text as retention, t.paused, d.messages
from (
    select o.topic, o.kind, o.queues, o.retention, o.paused from mqpg.topics as o
    where o.topic > %(after)s and position(%(q)s in o.topic) > 0
    order by o.topic limit %(limit)s
) as t
cross join lateral (
    select sum(q.next_offset - q.oldest_offset)::bigint as messages from mqpg._queue_depth(t.topic) as q
) as d
order by t.topic
"""
_ONE = """
select t.topic, t.kind, t.queues, justify_hours(t.retention)::text as retention, t.paused, t.max_payload,
    t.message_ttl::text as message_ttl, t.on_expired, t.lose_after::text as lose_after, t.lose_over, t.checksums,
    t.max_bytes, t.created_at
from mqpg.topics as t where t.topic = %(topic)s
"""
_DEPTH = """
select q.queue_id, q.oldest_offset, q.next_offset, q.next_offset - q.oldest_offset as messages
from mqpg._queue_depth(%(topic)s) as q order by q.queue_id limit 256
"""
_GROUPS = LISTED.format(
    "select g.consumer_group, g.topic_name, g.mode, g.paused from mqpg._subscriptions(%(topic)s) as g limit 100"
)


def listing(request: PageRequest) -> Response:
    """List topics in order of their names."""
    after, part = request.text("after"), request.text("q")
    found = request.rows(_LIST, after=after, q=part, limit=_PAGE + 1)
    last = found[_PAGE - 1]["topic"] if len(found) > _PAGE else None
    return request.render("topics.html", topics=found[:_PAGE], next_after=last, after=after, q=part, **_marked(request))


def _marked(request: PageRequest) -> dict[str, Any]:
    """The marks of the groups that read each topic, and the age of the oldest unread message."""
    of_groups = marked(request)
    marks: dict[str, list[Badge]] = {}
    for (_, topic), found in of_groups["badges"].items():
        marks.setdefault(topic, []).extend(found[:_MOST_MARKS])
    oldest: dict[str, int] = {}
    for (_, topic), seconds in of_groups["oldest"].items():
        if seconds is not None:
            oldest[topic] = max(oldest.get(topic, 0), seconds)
    return {"badges": {topic: found[:_MOST_MARKS] for topic, found in marks.items()}, "oldest": oldest}


def page(request: PageRequest) -> Response:
    """Show one topic."""
    name = request.path_params["topic"]
    found = request.rows(_ONE, topic=name)
    if not found:
        raise UnknownTopic(f"no topic {name}")
    return request.render(
        "topic.html",
        topic=found[0],
        queues=request.rows(_DEPTH, topic=name),
        groups=request.rows(_GROUPS, topic=name),
        **marked(request),
    )
