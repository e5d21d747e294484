"""What would move something, in the words of the pages, and the buttons that do it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mqpg.values.cause import Cause
from mqpg.values.remedies import remedy

from .leads import lead_of_cause

__all__ = ["Button", "Explained", "explained", "parked_ones"]


@dataclass(frozen=True)
class Button:
    """A button that asks for an action.

    Attributes:
        action: The action; see `pages/actions.py`.
        title: What it says.
        fields: What the action is about.
    """

    action: str
    title: str
    fields: dict[str, object]


@dataclass(frozen=True)
class Explained:
    """A cause, as a page shows it.

    Attributes:
        cause: Its word.
        detail: Its facts.
        remedy: A sentence with the command to run, or with what else would help.
        buttons: What the page can do about it. None of them where it only reads.
        lead: The words and the address of the page that shows more. None: there is none, or it is
            this page.
    """

    cause: str
    detail: dict[str, Any]
    remedy: str
    buttons: list[Button]
    lead: tuple[str, str] | None


def explained(
    cause: Cause, about: int | str, topic: str | None, may_act: bool, here: str, link: Callable[..., str]
) -> Explained:
    """Say what holds something up, with what would move it.

    Args:
        cause: What holds it up.
        about: What was asked about: a message id, a handle or a group.
        topic: The name of its topic. None: it is not known.
        may_act: Whether the page has buttons.
        here: The address of the page.
        link: Makes the address of a page; see `Visit.link`.

    Returns:
        What the page shows.
    """
    said = _of_parked(about, may_act) if cause.cause == "half_parked" else remedy(cause, topic)
    buttons = _buttons(cause, about, topic) if may_act and topic is not None else []
    lead = lead_of_cause(cause, topic, link)
    is_here = lead is not None and lead[1] == here
    return Explained(cause.cause, cause.detail, said[:1].upper() + said[1:], buttons, None if is_here else lead)


def _of_parked(about: int | str, may_act: bool) -> str:
    said = "Nobody answered its checks. Look at its payload, and decide it"
    if may_act:
        return f"{said} {'with the buttons below' if isinstance(about, str) else 'on the page of the half message'}."
    handle = about if isinstance(about, str) else "HANDLE"
    return (
        f"{said}: mqpg half settle {handle} commit|rollback --reason WHY. Or have it checked again: mqpg half rearm "
        f"{handle}."
    )


def _buttons(cause: Cause, about: int | str, topic: str) -> list[Button]:
    """The same as the remedy says, as far as the dashboard can do it."""
    detail = cause.detail
    place: dict[str, object] = {"group": cause.consumer_group, "topic": topic}
    if cause.cause == "topic_paused":
        return [Button("resume", "Resume the topic…", {"topic": topic})]
    # The page of the group itself has this button in any case.
    if cause.cause == "group_paused" and about != cause.consumer_group:
        return [Button("resume", "Resume the group…", place)]
    if cause.cause == "owner_gone":
        return [Button("unpin", "Unpin…", place | {"consumer": detail["owner"]})]
    if cause.cause == "dead_letter" and isinstance(about, int):
        return [Button("redrive", "Redrive…", place | {"scope": "chosen", "id": about})]
    # The broker names a seek where one helps.
    if cause.cause == "queue_blocked" and "mqpg.seek(" in cause.remedy and "member" not in detail:
        offset = detail["queue_offset"]
        place |= {"queue": detail["queue_id"]}
        return [
            Button("seek", "Try it again at once…", place | {"target": offset}),
            Button("seek", "Leave it out…", place | {"target": offset + 1}),
        ]
    return []


def parked_ones(may_act: bool) -> str:
    """Say what decides the parked half messages of a list.

    Args:
        may_act: Whether the pages have buttons.

    Returns:
        A sentence.
    """
    if may_act:
        return "Open one: its page shows the payload, and its buttons commit it, roll it back or have it checked again."
    return (
        "Open one to see its payload. mqpg half settle HANDLE commit|rollback --reason WHY decides it, and "
        "mqpg half rearm HANDLE has it checked again."
    )
