"""What a broker needs somebody to look at, in one sentence each."""

from __future__ import annotations

from collections.abc import Iterator

from .overview import Overview

__all__ = ["advice"]

# A consumer that is at work acknowledges within its lease, 30 seconds by default.
_STUCK = 60  # seconds
_WORKERS = {
    "appender": "no message is delivered",
    "compensator": "no half message is asked for",
    "keeper": "no segment is dropped",
}


def advice(found: Overview) -> list[str]:
    """List what needs somebody's attention.

    Args:
        found: The state of a broker.

    Returns:
        Sentences. Each says what is so and what to do. None where all is well.
    """
    return [
        *_workers(found),
        *_groups(found),
        *_half_messages(found),
        *_segments(found),
        *_losses(found),
        *(f"pid {one['pid']} ({one['role']}) stops {one['stops']}: {one['remedy']}" for one in found.foreign_locks),
    ]


def _workers(found: Overview) -> Iterator[str]:
    active = {one["role"]: one["active"] for one in found.workers}
    for role, consequence in _WORKERS.items():
        if not active.get(role):
            yield f"no {role} is at work, so {consequence}: start mqpg worker"


def _groups(found: Overview) -> Iterator[str]:
    for one in found.groups:
        name = f"group {one['consumer_group']} of topic {one['topic']}"
        oldest = one["oldest_unread_seconds"]
        if one["paused"] and one["lag"]:
            yield f"{name} is paused with {one['lag']:,} messages unread: resume it when it may continue"
        elif oldest is not None and oldest > _STUCK and _idle(one["changed_seconds_ago"]):
            who = "no mqpg consume reports for it" if not one["consumers"] else "its consumers do not acknowledge"
            yield f"{name} has not moved for {one['changed_seconds_ago']} s, with {one['lag']:,} messages unread: {who}"
        if one["dead_letters"]:
            n = "more than 1,000" if one["dead_letters"] > 1000 else f"{one['dead_letters']:,}"
            command = f"mqpg dead-letters list {one['consumer_group']} {one['topic']}"
            yield f"{name} has {n} dead letter{'' if one['dead_letters'] == 1 else 's'}: see {command}"


def _idle(seconds: int | None) -> bool:
    return seconds is None or seconds > _STUCK


def _half_messages(found: Overview) -> Iterator[str]:
    for one in found.half_messages:
        name = f"producer group {one['producer_group']}"
        if one["overdue"]:
            why = f" ({one['reason']})" if one["reason"] else ""
            yield f"{name} has {one['overdue']:,} half messages whose check is overdue{why}: see mqpg half list"
        if one["parked"]:
            yield f"{name} has {one['parked']:,} parked half messages: decide them with mqpg half settle"


def _segments(found: Overview) -> Iterator[str]:
    for one in found.blocked:
        if one["seconds"] is None or one["seconds"] > _STUCK:
            pids = (one["blocked_by"] or "").strip("{}")
            why = "run mqpg archive" if one["state"] == "archive" else "see the view blocked_segments"
            by = f"held up by the sessions {pids}" if pids else why
            yield f"{one['table_name']} waits for {one['seconds'] or 0} s ({one['state']}): {by}"
    for one in found.orphans:
        yield (
            f"the dropped topic {one['topic']} has {one['messages']:,} messages that came after the drop and "
            f"{one['undecided']:,} undecided ones"
        )


def _losses(found: Overview) -> Iterator[str]:
    for one in found.losses:
        yield (
            f"group {one['consumer_group']} of topic {one['topic']} lost {one['messages']:,} messages by the policy "
            f"on {one['why']} within a day: make it faster, or change the topic"
        )
