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

from ..visit import Visit

__all__ = ["submit"]

_LONGEST_REASON = 500
_OWNED = """
select l.queue_id, l.lag from mqpg._subscription_lag(%(group)s, %(topic)s) as l
where l.mode = 'pinned' and l.owner = %(consumer)s order by l.queue_id
"""
_AT_WORK = """
select from mqpg.worker_status as w
where w.role = 'consumer' and w.alive and w.detail ->> 'consumer_group' = %(group)s
    and w.detail ->> 'topic' = %(topic)s and w.detail ->> 'consumer' = %(consumer)s
"""


@dataclass(frozen=True)
class _Action:
    """What a form can ask for.

    Attributes:
        title: What its button says.
        warning: What it does, and what that means.
        run: Does it, and says what was done.
        back: The page to return to.
        needs_reason: Whether somebody must say why.
        is_final: Whether it cannot be undone.
        effect: Says what it would do now, without doing it. None: nothing more than the warning.
    """

    title: str
    warning: str
    run: Callable[[Visit], str]
    back: Callable[[Visit], str]
    needs_reason: bool = False
    is_final: bool = False
    effect: Callable[[Visit], str] | None = None


def submit(visit: Visit) -> Response:
    """Ask whether it is meant, or do it where it was asked."""
    if not visit.may_act:
        return visit.problem(403, "This dashboard only reads", "Start it with --actions, and log in.")
    if visit.is_forged:
        return visit.problem(403, "This form was not made for you", "Load the page again.")
    action = _ACTIONS.get(visit.place("action"))
    if action is None:
        return visit.problem(404, "There is no such action", visit.place("action"))
    reason = visit.text("reason")[:_LONGEST_REASON]
    if visit.text("confirmed") != "yes" or (action.needs_reason and not reason):
        fields = [
            (name, value)
            for name, values in visit.form.items()
            for value in values
            if name not in ("token", "confirmed", "reason")
        ]
        shown: dict[str, Any] = {"effect": action.effect(visit) if action.effect else "", "back": action.back(visit)}
        return visit.page("confirm.html", action=action, about=_about(visit), fields=fields, reason=reason, **shown)
    done = action.run(visit)
    return visit.page("done.html", action=action, about=_about(visit), done=done, back=action.back(visit))


def _about(visit: Visit) -> list[tuple[str, str]]:
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
    found = [(title, visit.text(name)) for name, title in names.items() if visit.text(name)]
    ids = visit.form.get("id", [])
    if visit.text("scope") == "all":
        return [*found, ("Dead letters", "all that match" if visit.text("filter") else "all")]
    return [*found, ("Messages", ", ".join(ids))] if ids else found


def _settle(verdict: str) -> Callable[[Visit], str]:
    def run(visit: Visit) -> str:
        assert visit.user is not None
        reason = f"{visit.user.name}: {visit.text('reason')[:_LONGEST_REASON]}"
        outcome = visit.mq.settle(visit.text("handle"), "commit" if verdict == "commit" else "rollback", reason)
        return f"The half message is {outcome.replace('_', ' ')}. The decision keeps the reason “{reason}”."

    return run


def _rearm(visit: Visit) -> str:
    visit.mq.rearm(visit.text("handle"))
    return "Its checker is asked again, counting from 0."


def _pause(visit: Visit) -> str:
    visit.mq.pause(visit.text("topic"), visit.text("group") or None)
    return "Delivery is paused. Producers can still send."


def _resume(visit: Visit) -> str:
    visit.mq.resume(visit.text("topic"), visit.text("group") or None)
    return "Delivery continues."


def _target(visit: Visit) -> str:
    target = visit.text("target")
    if not target:
        raise InvalidArgument("say where to: earliest, latest, a time, or an offset with a queue")
    return target


def _seek_effect(visit: Visit) -> str:
    place = visit.text("group"), visit.text("topic"), _target(visit), visit.number("queue")
    return f"It {seeking.sentence(seeking.preview(visit.mq, *place, None))}."


def _seek(visit: Visit) -> str:
    target = _target(visit)
    visit.mq.seek(visit.text("group"), visit.text("topic"), target, visit.number("queue"))
    return f"The group continues at {target}. Its open deliveries can no longer be acknowledged."


def _consumer(visit: Visit) -> str:
    consumer = visit.text("consumer")
    if not consumer:
        raise InvalidArgument("say from which consumer the queues are taken")
    return consumer


def _unpin_effect(visit: Visit) -> str:
    place = {"group": visit.text("group"), "topic": visit.text("topic"), "consumer": _consumer(visit)}
    owned = visit.rows(_OWNED, **place)
    unread = counted(sum(one["lag"] for one in owned), "message")
    owns = f"It owns {counted(len(owned), 'queue')} with {unread} unread."
    return f"{owns} It reports, so it is at work." if visit.rows(_AT_WORK, **place) else f"{owns} It does not report."


def _unpin(visit: Visit) -> str:
    consumer = _consumer(visit)
    visit.mq.unpin(visit.text("group"), visit.text("topic"), consumer=consumer)
    return f"Consumer {consumer} owns no queue of the group any more. Each belongs to the consumer that asks next."


def _choice(visit: Visit) -> dict[str, object]:
    """Which dead letters: those that are ticked, or all that match the filter."""
    if visit.text("scope") == "all":
        return {"filter": visit.text("filter") or None, "max_messages": visit.number("most")}
    ids = [int(one) for one in visit.form.get("id", []) if re.fullmatch(r"[0-9]{1,18}", one)]
    if not ids:
        raise InvalidArgument("no message is chosen: tick some, or choose all of them")
    return {"message_ids": ids}


def _redrive(visit: Visit) -> str:
    number = visit.mq.redrive(visit.text("group"), visit.text("topic"), **_choice(visit))  # type: ignore[arg-type]
    return f"{_letters(number)} delivered again, counting attempts from 1."


def _discard(visit: Visit) -> str:
    choice = _choice(visit)
    number = visit.mq.discard_dead_letters(visit.text("group"), visit.text("topic"), **choice)  # type: ignore[arg-type]
    return f"{_letters(number)} deleted."


def _letters(number: int) -> str:
    return f"{counted(number, 'dead letter')} {'is' if number == 1 else 'are'}"


def _to_half(visit: Visit) -> str:
    return visit.link("half-messages", visit.text("handle"))


def _to_group(visit: Visit) -> str:
    group, topic = visit.text("group"), visit.text("topic")
    return visit.link("groups", group, topic) if group else visit.link("topics", topic)


def _to_letters(visit: Visit) -> str:
    return visit.link("dead-letters", visit.text("group"), visit.text("topic"))


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
        "only where the consumer is gone for good, and its database has nothing that the next one lacks.",
        _unpin, _to_group, is_final=True, effect=_unpin_effect,
    ),
    "redrive": _Action("Redrive", "They are delivered again, counting their attempts from 1.", _redrive, _to_letters),
    "discard": _Action("Discard", "They are deleted for good.", _discard, _to_letters, is_final=True),
}  # fmt: skip
