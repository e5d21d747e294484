"""Dead letters with their reasons, page by page."""

from __future__ import annotations

from starlette.responses import Response

from ..request import PageRequest

__all__ = ["listing", "overview"]

_PAGE = 25
_LIST = """
select d.message_id, d.queue_id, d.key, left(d.payload::text, 20001) as payload, d.attempts, d.reason, d.died_at,
    d.headers::text as headers, d.tag, d.history, d.consumer
from mqpg.dead_letters(
    consumer_group => %(group)s, topic => %(topic)s, max_messages => %(limit)s, after_id => %(after)s,
    filter => cast(%(filter)s as jsonpath), after_consumer => %(after_consumer)s) as d
"""


def overview(request: PageRequest) -> Response:
    """List the groups that have dead letters. They are counted up to a thousand."""
    found, _ = request.site.reading()
    groups = [one for one in found.overview.groups if one["dead_letters"]]
    groups.sort(key=lambda one: (-one["dead_letters"], one["consumer_group"], one["topic"]))
    return request.render("dead_letter_groups.html", groups=groups[:200], more=max(0, len(groups) - 200))


def listing(request: PageRequest) -> Response:
    """List the dead letters of a subscription, the latest first."""
    group, topic, filter_ = request.path_params["group"], request.path_params["topic"], request.text("filter")
    found = request.rows(
        _LIST,
        group=group,
        topic=topic,
        limit=_PAGE + 1,
        after=request.number("after"),
        after_consumer=request.text("after_consumer") or None,
        filter=filter_ or None,
    )
    return request.render(
        "dead_letters.html",
        group=group,
        topic=topic,
        letters=found[:_PAGE],
        last=found[_PAGE - 1] if len(found) > _PAGE else None,
        after=request.text("after"),
        filter=filter_,
    )
