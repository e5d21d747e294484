"""What would move something, in the words of the pages, and the buttons that do it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from mqpg.values.cause import Cause, Remedy
from mqpg.values.cause_sentences import explain

from .links import link_of_cause

__all__ = ["Button", "Explained", "as_button", "explained", "parked_ones"]

# Cause -> what its button says. The page of a half message has its own buttons.
_TITLES = {
    "topic_paused": "Resume the topic…",
    "group_paused": "Resume the group…",
    "owner_gone": "Unpin…",
    "dead_letter": "Redrive…",
    "queue_blocked": "Try it again at once…",
}
# Argument of a function -> field of the form.
_FIELDS = {"consumer_group": "group", "queue_id": "queue", "message_ids": "id"}


@dataclass(frozen=True)
class Button:
    """A button that asks for an action of `pages/actions.py`, about these fields."""

    action: str
    title: str
    fields: dict[str, object]


@dataclass(frozen=True)
class Explained:
    """A cause, as a page shows it."""

    cause: str
    detail: dict[str, Any]
    advice: str  # a sentence with the command to run, or with what else would help
    buttons: list[Button]  # What the page can do about it. None of them if it only reads.
    # The words and the address of the page that shows more. None: there is none, or it is this page.
    link: tuple[str, str] | None


def explained(
    cause: Cause, about: int | str, topic: str | None, may_act: bool, here: str, link: Callable[..., str]
) -> Explained:
    """Say what holds something up, with what would move it.

    `about` is what was asked about: a message id, a handle or a group. `topic` is the name of its
    topic, if it is known, `here` the address of the page that shows it.
    """
    is_parked = may_act and cause.cause == "half_parked"
    advice = _of_parked(about) if is_parked else explain(cause)
    buttons = _buttons(cause, about) if may_act else []
    shown_at = link_of_cause(cause, topic, link)
    is_here = shown_at is not None and shown_at[1] == here
    return Explained(cause.cause, cause.detail, advice[:1].upper() + advice[1:], buttons, None if is_here else shown_at)


def as_button(remedy: Remedy, title: str) -> Button:
    """Write a remedy as a button. The dashboard has an action of that name."""
    fields: dict[str, object] = {_FIELDS.get(name, name): value for name, value in remedy.arguments.items()}
    if "id" in fields:
        (fields["id"],) = remedy.arguments["message_ids"]
        fields["scope"] = "chosen"
    return Button(remedy.function, title, fields)


def _of_parked(about: int | str) -> str:
    where = "with the buttons below" if isinstance(about, str) else "on the page of the half message"
    return f"Its checks are used up. Look at its payload, and decide it {where}."


def _buttons(cause: Cause, about: int | str) -> list[Button]:
    """The remedy, as far as the dashboard can do it."""
    title, remedy = _TITLES.get(cause.cause), cause.remedy
    # The page of the group itself can resume it in any case.
    if title is None or remedy is None or (cause.cause == "group_paused" and about == cause.consumer_group):
        return []
    if remedy.function != "seek":
        return [as_button(remedy, title)]
    if "consumer" in remedy.arguments:
        return []
    beyond = replace(remedy, arguments={**remedy.arguments, "target": str(int(remedy.arguments["target"]) + 1)})
    return [as_button(remedy, title), as_button(beyond, "Leave it out…")]


def parked_ones(may_act: bool) -> str:
    """Say what decides the parked half messages of a list."""
    if may_act:
        return "Open one: its page shows the payload, and its buttons commit it, roll it back or have it checked again."
    return (
        "Open one to see its payload. mqpg half settle HANDLE commit|rollback --reason WHY decides it, and "
        "mqpg half rearm HANDLE has it checked again."
    )
