"""One message: its history as a time line, its body, and what holds it up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from starlette.responses import RedirectResponse, Response

from mqpg.status.half_messages import undecided
from mqpg.values.errors import InvalidArgument, NotFound, OffsetOutOfRange
from mqpg.values.messages import TraceEvent

from ..request import PageRequest

__all__ = ["at_offset", "page"]


def page(request: PageRequest) -> Response:
    """Show everything that is known of a message."""
    place = request.path_params["message_id"]
    message_id = int(place) if re.fullmatch(r"[0-9]{1,18}", place) else -1
    events = request.mq.trace(message_id) if message_id >= 0 else []
    if not events:
        causes = [one.advice for one in request.why(message_id) or []] if message_id >= 0 else []
        raise NotFound(" ".join([f"nothing is stored of message {place[:40]}.", *causes]))
    body, birth = request.message_body(message_id), _detail(events[0])
    half = undecided(request.site.source.rows, message_id) if body and body["state"] == "prepared" else None
    return request.render(
        "message.html",
        message_id=message_id,
        handle=half["handle"] if half else None,
        birth=birth,
        events=[(one, _since(events, n), _detail(one)) for n, one in enumerate(events)],
        body=body,
        why=request.why(message_id, sent_to=birth.get("topic")),
    )


def at_offset(request: PageRequest) -> Response:
    """Go to the message at an offset of a queue."""
    queue, offset = request.path_params["queue_id"], request.path_params["queue_offset"]
    if not (re.fullmatch(r"[0-9]{1,5}", queue) and re.fullmatch(r"[0-9]{1,18}", offset)):
        raise InvalidArgument("a queue and an offset are numbers")
    found = request.mq.fetch(request.path_params["topic"], int(queue), int(offset), 1)
    if not found:
        raise OffsetOutOfRange(f"queue {queue} has no message at offset {offset} yet")
    return RedirectResponse(request.link("messages", found[0].message_id), 303)


def _detail(event: TraceEvent) -> dict[str, Any]:
    found = event.detail
    return found if isinstance(found, dict) else {}


def _since(events: Sequence[TraceEvent], n: int) -> float | None:
    return (events[n].at - events[n - 1].at).total_seconds() if n else None
