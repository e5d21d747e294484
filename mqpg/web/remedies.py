"""What would move something, in the words of the pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace

from mqpg.cause import Cause

__all__ = ["merged", "on_page", "parked_ones"]

_PLACE = ("queue_id", "queue_offset")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T][\d:.+]+")


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
        the times of the first.
    """
    groups: dict[tuple[object, ...], list[Cause]] = {}
    for one in causes:
        rest = {name: value for name, value in one.detail.items() if name not in _PLACE}
        same = _TIME.sub("", json.dumps(rest, sort_keys=True)) if "queue_id" in one.detail else one.raw_detail
        groups.setdefault((one.cause, _TIME.sub("", one.remedy), same), []).append(one)
    return [_together(each) for each in groups.values()]


def _together(causes: list[Cause]) -> Cause:
    first = causes[0]
    if len(causes) == 1:
        return first
    detail = {name: value for name, value in first.detail.items() if name not in _PLACE}
    queues = sorted({one.detail["queue_id"] for one in causes}) if "queue_id" in first.detail else None
    return replace(first, raw_detail=json.dumps(detail | ({"queues": queues} if queues else {})))


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
