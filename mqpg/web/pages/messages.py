"""One message: its history as a time line, its body, and what holds it up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from starlette.responses import RedirectResponse, Response

from mqpg import errors
from mqpg.errors import InvalidArgument, NotFound, OffsetOutOfRange
from mqpg.message import Message, TraceEvent

from ..visit import Visit

__all__ = ["at_offset", "page"]


def page(visit: Visit) -> Response:
    """Show everything that is known of a message."""
    place = visit.place("message_id")
    message_id = int(place) if re.fullmatch(r"[0-9]{1,18}", place) else -1
    events = visit.mq.trace(message_id) if message_id >= 0 else []
    if not events:
        causes = [one.remedy for one in visit.why(message_id) or []] if message_id >= 0 else []
        raise NotFound(" ".join([f"nothing is stored of message {place[:40]}.", *causes]))
    return visit.page(
        "message.html",
        message_id=message_id,
        birth=_detail(events[0]),
        events=[(one, _since(events, n), _detail(one)) for n, one in enumerate(events)],
        message=_body(visit, message_id, events),
        why=visit.why(message_id),
    )


def at_offset(visit: Visit) -> Response:
    """Go to the message at an offset of a queue."""
    queue, offset = visit.place("queue_id"), visit.place("queue_offset")
    if not (re.fullmatch(r"[0-9]{1,5}", queue) and re.fullmatch(r"[0-9]{1,18}", offset)):
        raise InvalidArgument("a queue and an offset are numbers")
    found = visit.mq.fetch(visit.place("topic"), int(queue), int(offset), 1)
    if not found:
        raise OffsetOutOfRange(f"queue {queue} has no message at offset {offset} yet")
    return RedirectResponse(visit.link("messages", found[0].message_id), 303)


def _detail(event: TraceEvent) -> dict[str, Any]:
    found = event.detail
    return found if isinstance(found, dict) else {}


def _since(events: Sequence[TraceEvent], n: int) -> float | None:
    return (events[n].at - events[n - 1].at).total_seconds() if n else None


def _body(visit: Visit, message_id: int, events: Sequence[TraceEvent]) -> Message | None:
    """The message at its offset. None: it has none, or it cannot be read there any more."""
    topic = _detail(events[0]).get("topic")
    for event in events:
        place = _detail(event)
        if topic and event.event == "appended" and place.get("queue_id", -1) >= 0 and "queue_offset" in place:
            try:
                found = visit.mq.fetch(topic, place["queue_id"], place["queue_offset"], 1)
            except (errors.NotFound, errors.MissingBody, errors.NotGranted):
                return None
            return found[0] if found and found[0].message_id == message_id else None
    return None
