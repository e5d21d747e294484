"""What holds several queues up in the same way, said once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mqpg.values.cause import Cause

__all__ = ["merged"]

# Causes that a group has in several queues at once, and what tells two of them apart.
_SHARED = ("owner_gone", "queue_waits", "too_many_deliveries", "leased", "queue_locked", "keys_blocked")
_WHO = ("consumer_group", "member", "owner", "consumer", "pid")


def merged(causes: Iterable[Cause]) -> list[Cause]:
    """Say once what holds several queues up in the same way.

    The order stays. A cause that several queues share has their numbers as `queues`, and the other facts
    of the first.
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
    return replace(first, detail={"queues": numbers} | detail)
