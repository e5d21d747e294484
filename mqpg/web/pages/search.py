"""Search: a message by its id, by its key, or by the time when it was sent."""

from __future__ import annotations

from datetime import datetime

from starlette.responses import RedirectResponse, Response

from mqpg.errors import InvalidArgument, MissingBody, OffsetOutOfRange
from mqpg.message import Message
from mqpg.status.finding import Row

from ..visit import Visit

__all__ = ["page"]

_MOST = 100
_EACH = 10  # messages of one queue
_QUEUES = 64
_BY_KEY = """
select f.message_id, f.queue_id, f.queue_offset, f.state, f.born_at, left(f.payload::text, 300) as payload
from mqpg.find_by_key(%(topic)s, %(key)s) as f order by f.message_id desc limit %(limit)s
"""
_TIME = "select cast(%(at)s as timestamptz) as at"
_DEPTH = """
select q.queue_id, q.oldest_offset, q.next_offset from mqpg._queue_depth(%(topic)s) as q
where q.next_offset > q.oldest_offset order by q.queue_id limit %(limit)s
"""


def page(visit: Visit) -> Response:
    """Show the forms, and what was found."""
    asked = {name: visit.text(name) for name in ("id", "topic", "key", "at")}
    if asked["id"]:
        number = visit.number("id")
        return RedirectResponse(visit.link("messages", number), 303)
    found, searched = [], bool(asked["topic"] and (asked["key"] or asked["at"]))
    if asked["topic"] and asked["key"]:
        found = visit.rows(_BY_KEY, topic=asked["topic"], key=asked["key"], limit=_MOST)
    elif asked["topic"] and asked["at"]:
        found = _by_time(visit, asked["topic"], asked["at"])
    return visit.page("search.html", asked=asked, found=found, searched=searched, most=_MOST)


def _by_time(visit: Visit, topic: str, text: str) -> list[Row]:
    """The first messages of each queue that were sent at that time or later.

    Offsets follow the commits, so a message whose transaction took long may be missing at the
    beginning.
    """
    at = visit.rows(_TIME, at=text)[0]["at"]
    if not isinstance(at, datetime):
        raise InvalidArgument(f"{text} is no time")
    visit.mq.queries.queue_count(topic)  # the topic exists
    found: list[Message] = []
    for queue in visit.rows(_DEPTH, topic=topic, limit=_QUEUES):
        found += _from_time(visit, topic, queue, at)
    found.sort(key=lambda one: (one.born_at, one.message_id))
    return [
        {
            "message_id": one.message_id,
            "queue_id": one.queue_id,
            "queue_offset": one.queue_offset,
            "state": "appended",
            "born_at": one.born_at,
            "payload": one.raw[:300],
        }
        for one in found[:_MOST]
    ]


def _from_time(visit: Visit, topic: str, queue: Row, at: datetime) -> list[Message]:
    """Halve the range of offsets until one is left: about twenty reads of one message."""
    low, high = queue["oldest_offset"], queue["next_offset"]
    try:
        while low < high:
            middle = (low + high) // 2
            (one,) = visit.mq.fetch(topic, queue["queue_id"], middle, 1)
            low, high = (middle + 1, high) if one.born_at < at else (low, middle)
        return visit.mq.fetch(topic, queue["queue_id"], low, _EACH) if low < queue["next_offset"] else []
    except (OffsetOutOfRange, MissingBody):  # its segment was dropped meanwhile
        return []
