"""Actions: each is asked for twice, and done in the name of the user."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from mqpg.status import seeking
from mqpg.values.errors import InvalidArgument
from mqpg.values.words import counted

from ..request import PageRequest

__all__ = ["submit"]

_LONGEST_REASON = 500
_OWNED = """
select l.queue_id, l.lag from mqpg.subscription_lag as l
where l.consumer_group = %(group)s and l.topic = %(topic)s and l.mode = 'pinned' and l.owner = %(consumer)s
order by l.queue_id
"""
_AT_WORK = """
select from mqpg.worker_status as w
where w.role = 'consumer' and w.alive and w.detail ->> 'consumer_group' = %(group)s
    and w.detail ->> 'topic' = %(topic)s and w.detail ->> 'consumer' = %(consumer)s
"""


@dataclass(frozen=True)
class _Action:
    """What a form can ask for."""

    title: str  # what its button says
    warning: str  # what it does, and what that means
    run: Callable[[PageRequest], str]  # does it, and says what was done
    back: Callable[[PageRequest], str]  # the page to return to
    needs_reason: bool = False  # whether somebody must say why
    is_final: bool = False  # whether it cannot be undone
    # Says what it would do now, without doing it. None: nothing more than the warning.
    effect: Callable[[PageRequest], str] | None = None


def submit(request: PageRequest) -> Response:
    """Ask whether it is meant, or do it if that was asked."""
    if not request.may_act:
        return request.problem(403, "This dashboard only reads", "Start it with --actions, and log in.")
    if request.is_forged:
        return request.problem(403, "This form was not made for you", "Load the page again.")
    action = _ACTIONS.get(request.path_params["action"])
    if action is None:
        return request.problem(404, "There is no such action", request.path_params["action"])
    reason = request.text("reason")[:_LONGEST_REASON]
    if request.text("confirmed") != "yes" or (action.needs_reason and not reason):
        fields = [
            (name, value)
            for name, values in request.fields.items()
            for value in values
            if name not in ("token", "confirmed", "reason")
        ]
        shown: dict[str, Any] = {
            "effect": action.effect(request) if action.effect else "",
            "back": action.back(request),
        }
        return request.render(
            "confirm.html", action=action, about=_about(request), fields=fields, reason=reason, **shown
        )
    done = action.run(request)
    return request.render("done.html", action=action, about=_about(request), done=done, back=action.back(request))


def _about(request: PageRequest) -> list[tuple[str, str]]:
    """What the action is about, in the words of the pages."""
    names = {
        "handle": "Half message",
        "group": "Group",
        "topic": "Topic",
        "target": "To",
        "consumer": "Consumer",
        "queue": "Queue",
        "filter": "Filter",
        "most": "At most",
    }
    found = [(title, request.text(name)) for name, title in names.items() if request.text(name)]
    ids = request.fields.get("id", [])
    if request.text("scope") == "all":
        return [*found, ("Dead letters", "all that match" if request.text("filter") else "all")]
    return [*found, ("Messages", ", ".join(ids))] if ids else found


def _settle(verdict: str) -> Callable[[PageRequest], str]:
    def run(request: PageRequest) -> str:
        assert request.user is not None
        reason = f"{request.user.name}: {request.text('reason')[:_LONGEST_REASON]}"
        outcome = request.mq.settle(request.text("handle"), "commit" if verdict == "commit" else "rollback", reason)
        return f"The half message is {outcome.replace('_', ' ')}. The decision keeps the reason “{reason}”."

    return run


def _rearm(request: PageRequest) -> str:
    request.mq.rearm(request.text("handle"))
    return "Its checker is asked again, counting from 0."


def _pause(request: PageRequest) -> str:
    request.mq.pause(request.text("topic"), request.text("group") or None)
    return "Delivery is paused. Producers can still send."


def _resume(request: PageRequest) -> str:
    request.mq.resume(request.text("topic"), request.text("group") or None)
    return "Delivery continues."


def _target(request: PageRequest) -> str:
    target = request.text("target")
    if not target:
        raise InvalidArgument("say where to: earliest, latest, a time, or an offset with a queue")
    return target


def _seek_effect(request: PageRequest) -> str:
    place = request.text("group"), request.text("topic"), _target(request), request.number("queue")
    return f"It {seeking.sentence(seeking.preview(request.mq, *place, None))}."


def _seek(request: PageRequest) -> str:
    target = _target(request)
    request.mq.seek(request.text("group"), request.text("topic"), target, request.number("queue"))
    return f"The group continues at {target}. Its open deliveries can no longer be acknowledged."


def _consumer(request: PageRequest) -> str:
    consumer = request.text("consumer")
    if not consumer:
        raise InvalidArgument("say from which consumer the queues are taken")
    return consumer


def _unpin_effect(request: PageRequest) -> str:
    place = {"group": request.text("group"), "topic": request.text("topic"), "consumer": _consumer(request)}
    owned = request.rows(_OWNED, **place)
    unread = counted(sum(one["lag"] for one in owned), "message")
    owns = f"It owns {counted(len(owned), 'queue')} with {unread} unread."
    return f"{owns} It reports, so it is at work." if request.rows(_AT_WORK, **place) else f"{owns} It does not report."


def _unpin(request: PageRequest) -> str:
    consumer = _consumer(request)
    request.mq.unpin(request.text("group"), request.text("topic"), consumer=consumer)
    return f"Consumer {consumer} owns no queue of the group any more. Each belongs to the consumer that asks next."


def _choice(request: PageRequest) -> dict[str, object]:
    """Which dead letters: those that are ticked, or all that match the filter."""
    if request.text("scope") == "all":
        return {"filter": request.text("filter") or None, "max_messages": request.number("most")}
    ids = [int(one) for one in request.fields.get("id", []) if re.fullmatch(r"[0-9]{1,18}", one)]
    if not ids:
        raise InvalidArgument("no message is chosen: tick some, or choose all of them")
    return {"message_ids": ids}


def _redrive(request: PageRequest) -> str:
    number = request.mq.redrive(request.text("group"), request.text("topic"), **_choice(request))  # type: ignore[arg-type]
    return f"{_letters(number)} delivered again, counting attempts from 1."


def _discard(request: PageRequest) -> str:
    choice = _choice(request)
    number = request.mq.discard_dead_letters(request.text("group"), request.text("topic"), **choice)  # type: ignore[arg-type]
    return f"{_letters(number)} deleted."


def _letters(number: int) -> str:
    return f"{counted(number, 'dead letter')} {'is' if number == 1 else 'are'}"


def _to_half(request: PageRequest) -> str:
    return request.link("half-messages", request.text("handle"))


def _to_group(request: PageRequest) -> str:
    group, topic = request.text("group"), request.text("topic")
    return request.link("groups", group, topic) if group else request.link("topics", topic)


def _to_letters(request: PageRequest) -> str:
    return request.link("dead-letters", request.text("group"), request.text("topic"))


_ACTIONS = {
    "commit": _Action(
        "Commit", "Its message is delivered, as if the local transaction had committed.", _settle("commit"), _to_half,
        needs_reason=True, is_final=True,
    ),
    "rollback": _Action(
        "Roll back", "Its message is never delivered, as if the local transaction had rolled back.",
        _settle("rollback"), _to_half, needs_reason=True, is_final=True,
    ),
    "rearm": _Action("Check again", "Its checker is asked again, counting from 0.", _rearm, _to_half),
    "pause": _Action("Pause", "Delivery stops until somebody resumes it. Producers can still send.", _pause, _to_group),
    "resume": _Action("Resume", "Delivery continues where it stopped.", _resume, _to_group),
    "seek": _Action(
        "Seek", "Messages in between are delivered again, or never. Open deliveries can no longer be acknowledged.",
        _seek, _to_group, effect=_seek_effect,
    ),
    "unpin": _Action(
        "Unpin", "Its queues get the next consumer that asks, which begins where the broker's position is. Do this "
        "only if the consumer is gone for good, and its database has nothing that the next one lacks.",
        _unpin, _to_group, is_final=True, effect=_unpin_effect,
    ),
    "redrive": _Action("Redrive", "They are delivered again, counting their attempts from 1.", _redrive, _to_letters),
    "discard": _Action("Discard", "They are deleted for good.", _discard, _to_letters, is_final=True),
}  # fmt: skip
