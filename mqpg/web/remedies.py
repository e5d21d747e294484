"""What would move something, in the words of the pages."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace

from mqpg.cause import Cause

__all__ = ["merged", "on_page", "parked_ones"]

# Causes that a consumer has in several queues at once, and what tells two of them apart.
_SHARED = ("owner_gone", "too_many_deliveries")
_WHO = ("consumer_group", "member", "owner", "consumer")


def on_page(cause: Cause, about: int | str, may_act: bool) -> Cause:
    """Say a remedy with the buttons of the page, or with commands where there are none.

    Args:
        cause: What holds something up.
        about: What was asked about: a message id, a handle or a group.
        may_act: Whether the page has buttons.

    Returns:
        The cause with its remedy. Only that of a parked half message is changed.
    """
    if cause.cause != "half_parked":
        return cause
    if may_act:
        where = "with the buttons below" if isinstance(about, str) else "on the page of the half message"
        return replace(cause, remedy=f"Nobody answered its checks. Look at its payload, and decide it {where}.")
    handle = about if isinstance(about, str) else "HANDLE"
    return replace(
        cause,
        remedy=f"Nobody answered its checks. Look at its payload, and decide it: mqpg half settle {handle} "
        f"commit|rollback --reason WHY. Or have it checked again: mqpg half rearm {handle}.",
    )


def merged(causes: Iterable[Cause]) -> list[Cause]:
    """Say once what holds several queues up in the same way.

    Args:
        causes: What holds something up.

    Returns:
        The causes in their order. One that several queues share has their numbers as `queues`, and
        the facts of the first.
    """
    groups: dict[tuple[object, ...], list[Cause]] = {}
    for n, one in enumerate(causes):
        is_shared = one.cause in _SHARED and "queue_id" in one.detail
        who = tuple(one.detail.get(name) for name in _WHO) if is_shared else (n,)
        groups.setdefault((one.cause, *who), []).append(one)
    return [_together(each) for each in groups.values()]


def _together(causes: list[Cause]) -> Cause:
    first, *others = sorted(causes, key=lambda one: one.detail.get("queue_id", 0))
    if not others:
        return first
    numbers = [one.detail["queue_id"] for one in (first, *others)]
    detail = {name: value for name, value in first.detail.items() if name not in ("queue_id", "queue_offset")}
    more = ", ".join(map(str, numbers[1:]))
    same = "" if all(one.remedy == first.remedy for one in others) else f" The same holds for queue {more}."
    return replace(first, raw_detail=json.dumps({"queues": numbers} | detail), remedy=first.remedy + same)


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
