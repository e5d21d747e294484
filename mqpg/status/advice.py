"""What a broker needs somebody to look at, in one sentence each."""

from __future__ import annotations

from collections.abc import Iterator

from .finding import Finding, Row
from .overview import STUCK, Overview

__all__ = ["advice", "findings"]

# What holds messages up although the group moves on with others.
_PARTIAL = ("owner_gone", "queue_blocked", "keys_blocked", "too_many_deliveries")
_WORKERS = {
    "appender": "no message is delivered",
    "compensator": "no half message is asked for",
    "keeper": "no segment is dropped",
}


_Trouble = tuple[str, str]
"""What is so, and what to do."""


def advice(found: Overview) -> list[str]:
    """List what needs somebody's attention.

    Args:
        found: The state of a broker.

    Returns:
        Sentences. Each says what is so and what to do. None where all is well.
    """
    return [f"{one.found}: {one.remedy}" for one in findings(found)]


def findings(found: Overview) -> list[Finding]:
    """List what needs somebody's attention, and apart from it what to do.

    Args:
        found: The state of a broker.

    Returns:
        One for each trouble.
    """
    troubles = [
        *_workers(found),
        *_groups(found),
        *_half_messages(found),
        *_segments(found),
        *_losses(found),
        *_filters(found),
        *((f"{one.check}, {one.found}", one.remedy or "") for one in found.moment if not one.ok),
        *((f"pid {one['pid']} ({one['role']}) stops {one['stops']}", one["remedy"]) for one in found.foreign_locks),
    ]
    return [Finding("broker", False, what, remedy) for what, remedy in troubles]


def _n(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _workers(found: Overview) -> Iterator[_Trouble]:
    active = {one["role"]: one["active"] for one in found.workers}
    for role, consequence in _WORKERS.items():
        if not active.get(role):
            yield f"no {role} is at work, so {consequence}", "start mqpg worker"


def _groups(found: Overview) -> Iterator[_Trouble]:
    for one in found.groups:
        name = f"group {one['consumer_group']} of topic {one['topic']}"
        oldest = one["oldest_unread_seconds"]
        if one["paused"] and one["lag"]:
            yield f"{name} is paused with {_n(one['lag'], 'message')} unread", "resume it when it may continue"
        elif oldest is not None and oldest > STUCK:
            yield from _stuck(name, one)
        if one["dead_letters"]:
            n = "more than 1,000 dead letters" if one["dead_letters"] > 1000 else _n(one["dead_letters"], "dead letter")
            yield f"{name} has {n}", f"see mqpg dead-letters list {one['consumer_group']} {one['topic']}"


def _stuck(name: str, one: Row) -> Iterator[_Trouble]:
    causes: dict[str, str] = one.get("causes") or {}
    unread = f"with {_n(one['lag'], 'message')} unread"
    if _idle(one["changed_seconds_ago"]):
        who = "no mqpg consume reports for it" if not one["consumers"] else "its consumers do not acknowledge"
        why = " ".join(causes.values()) or f"{who}; see mqpg why {one['consumer_group']} {one['topic']}"
        yield f"{name} has not moved for {one['changed_seconds_ago']} s, {unread}", why
    else:
        for cause in _PARTIAL:
            if cause in causes:
                yield f"{name} is held up in part, {unread} ({cause})", causes[cause]


def _idle(seconds: int | None) -> bool:
    return seconds is None or seconds > STUCK


def _filters(found: Overview) -> Iterator[_Trouble]:
    for one in found.filters:
        chosen = f"filter {one['filter']}" if one["filter"] else f"tags {', '.join(one['tags'])}"
        yield f"group {one['consumer_group']} of topic {one['topic']} gets nothing through its {chosen}", one["remedy"]


def _half_messages(found: Overview) -> Iterator[_Trouble]:
    for one in found.half_messages:
        name = f"producer group {one['producer_group']}"
        if one["overdue"]:
            why = f" ({one['reason']})" if one["reason"] else ""
            yield (
                f"{name} has {_n(one['overdue'], 'half message')} whose check is overdue{why}",
                "see mqpg half list and mqpg why HANDLE",
            )
        if one["parked"]:
            yield f"{name} has {_n(one['parked'], 'parked half message')}", "decide with mqpg half settle, or rearm"


def _segments(found: Overview) -> Iterator[_Trouble]:
    for one in found.blocked:
        if one["seconds"] is None or one["seconds"] > STUCK:
            what = f"{one['table_name']} waits for {one['seconds'] or 0} s ({one['state']})"
            sessions: list[Row] = one.get("sessions") or []
            if sessions:
                by = ", ".join(f"pid {each['pid']} ({_who(each)})" for each in sessions)
                ends = "; ".join(f"select pg_terminate_backend({each['pid']})" for each in sessions)
                yield f"{what}, held up by {by}", f"let it end, or {ends}"
            else:
                yield what, "run mqpg archive" if one["state"] == "archive" else "see the view blocked_segments"
    for one in found.orphans:
        late, undecided = _n(one["messages"], "message"), _n(one["undecided"], "undecided half message")
        yield (
            f"the dropped topic {one['topic']} has {late} that came after the drop and {undecided}",
            "see mqpg.orphans",
        )


def _who(session: Row) -> str:
    return f"{session['application'] or 'no name'}, in a transaction for {session['seconds']} s"


def _losses(found: Overview) -> Iterator[_Trouble]:
    for one in found.losses:
        name = f"group {one['consumer_group']} of topic {one['topic']}"
        lost = f"lost {_n(one['messages'], 'message')} by the policy on {one['why']} within a day"
        yield f"{name} {lost}", "make it faster, or change the topic"
