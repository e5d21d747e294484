"""What needs attention at a broker, in one sentence each, the most urgent first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from mqpg.values.cause import Cause, Remedy
from mqpg.values.cause_sentences import explain
from mqpg.values.words import counted, duration

from .finding import LATER, LOSS, SOME_WAIT, STANDS, Finding, Row
from .overview import STUCK, Overview
from .workers import failure, fullness

__all__ = ["advice", "findings"]

# What holds messages up although the group moves on with others.
_PARTIAL = ("owner_gone", "queue_waits", "queue_blocked", "keys_blocked", "too_many_deliveries")
_WORKERS = {
    "appender": ("no message is delivered", STANDS),
    "compensator": ("no half message is asked for", SOME_WAIT),
    "keeper": ("no segment is dropped", LATER),
}
_DAY = 86400.0


def advice(found: Overview) -> list[str]:
    """List what needs attention, a sentence each, the most urgent first."""
    return [f"{one.found}: {one.remedy}" for one in findings(found)]


def findings(found: Overview) -> list[Finding]:
    """List what needs attention, and apart from it what to do, the most urgent first. All have a remedy."""
    troubles = [
        *_full_disk(found),
        *_refusal(found),
        *_clock_steps(found),
        *_losses(found),
        *_full_topics(found),
        *_filters(found),
        *_workers(found),
        *_foreign_locks(found),
        *([] if found.full_disk else _groups(found)),
        *_failing(found),
        *_differing(found),
        *_half_messages(found),
        *_silent_ledgers(found),
        *_ended_sessions(found),
        *_moment(found),
        *_segments(found),
        *_dropped_topics(found),
    ]
    return sorted(troubles, key=lambda one: one.urgency)


def _trouble(check: str, urgency: int, found: str, remedy: str, look: str | None = None, **about: str) -> Finding:
    return Finding(check, False, found, remedy, urgency, about, look)


def _refusal(found: Overview) -> Iterator[Finding]:
    if found.refusal:
        yield _trouble("broker", STANDS, f"append() refuses, because {found.refusal}", "run mqpg migrate adopt")


def _full_disk(found: Overview) -> Iterator[Finding]:
    for one in found.full_disk:
        yield _trouble("disk", STANDS, fullness(one), "free space, or make its volume larger; no restart is needed")


def _ended_sessions(found: Overview) -> Iterator[Finding]:
    """Those of the last day. Any role may report what it likes, so what makes no sense is left out."""
    for one in found.ended_sessions:
        ended = one["ended"]
        try:
            age = (one["now"] - datetime.fromisoformat(ended["at"])).total_seconds()
            silent = duration(float(ended["seconds"]))
        except (KeyError, TypeError, ValueError, OverflowError):
            continue
        if age < _DAY:
            whom = f"{ended.get('application') or 'no name'}, pid {ended.get('pid')} at the server"
            host = f", on {ended['host']}" if ended.get("host") else ""
            who = f"the {one['role']} on {one['host']}, pid {one['pid']},"
            what = f"{who} ended the session of {whom}{host}, at {ended['at']}, because it was silent for {silent}"
            yield _trouble(
                "ended session", LATER, what, "look why that host was frozen or cut off", "mqpg status --workers"
            )


def _full_topics(found: Overview) -> Iterator[Finding]:
    of_broker = [one for one in found.full_topics if one["full_of"] == "broker"]
    if of_broker:
        what = f"the broker is at its max_bytes, {of_broker[0]['max_bytes']}: sends fail"
        yield _trouble("size", STANDS, what, "raise the setting max_bytes, or shorten retentions", "mqpg settings")
    for one in found.full_topics:
        if one["full_of"] == "topic":
            what = f"topic {one['topic']} is at its max_bytes, {one['max_bytes']}: sends fail"
            remedy = "raise it with mqpg topic alter --max-bytes, or shorten its retention"
            yield _trouble("size", STANDS, what, remedy, "mqpg topic list", topic=one["topic"])


def _clock_steps(found: Overview) -> Iterator[Finding]:
    for one in found.clock_steps:
        if one["forward"]:
            continue
        what = f"the clock of the server went back by {one['by']} at {one['at']}"
        if one["dead_letters"]:
            what += f"; {counted(one['dead_letters'], 'dead letter')} from before have it in their reasons"
        now = f", and the broker's time is still {one['ahead']} ahead" if one["counts"] else ""
        remedy = "keep the clock by a time service; redrive what died of it"
        yield _trouble("clock step", LATER, what + now, remedy)


def _workers(found: Overview) -> Iterator[Finding]:
    active = {one["role"]: one["active"] for one in found.workers}
    for role, (consequence, urgency) in _WORKERS.items():
        if not active.get(role):
            what = f"no {role} is at work, so {consequence}"
            yield _trouble("worker", urgency, what, "start mqpg worker", "mqpg status --workers")
    for one in found.failing_workers:
        if said := failure(one):
            what, urgency = _WORKERS.get(one["role"], ("its messages wait", SOME_WAIT))
            yield _trouble(
                "failing worker",
                urgency,
                said,
                f"mend what the error names; until then {what}",
                "mqpg status --workers",
            )


def _foreign_locks(found: Overview) -> Iterator[Finding]:
    for one in found.foreign_locks:
        what = f"pid {one['pid']} ({one['role']}) stops {one['stops']}"
        yield _trouble("foreign lock", STANDS, what, one["remedy"])


def _groups(found: Overview) -> Iterator[Finding]:
    for one in found.groups:
        oldest = one["oldest_unread_seconds"]
        if one["paused"] and one["lag"]:
            name, about = _named(one)
            what = f"{name} is paused with {counted(one['lag'], 'message')} unread"
            # A group cannot resume if its topic is paused for all.
            it = f"the topic, mqpg topic resume {one['topic']}," if one.get("topic_paused") else "it"
            yield _trouble("group", LATER, what, f"resume {it} when it may continue", _why(one), **about)
        elif oldest is not None and oldest > STUCK:
            yield from _stuck(one)
        if one["dead_letters"]:
            yield _dead_letters(one)


def _stuck(one: Row) -> Iterator[Finding]:
    """A group that does not move, or does so only in part."""
    name, about = _named(one)
    causes = {each["cause"]: _explained(each) for each in one.get("causes") or []}
    unread = f"with {counted(one['lag'], 'message')} unread"
    changed = one["changed_seconds_ago"]
    if changed is None or changed > STUCK:
        who = "no mqpg consume reports for it" if not one["consumers"] else "its consumers do not acknowledge"
        remedy = " ".join(causes.values()) or f"{who}; see {_why(one)}"
        # a group that had nothing to read has not stood still
        still = None if changed is None else min(changed, one["oldest_unread_seconds"])
        since = "never moved" if still is None else f"not moved for {duration(still)}"
        yield _trouble("group", STANDS, f"{name} has {since}, {unread}", remedy, _why(one), **about)
    else:
        for cause in _PARTIAL:
            if cause in causes:
                what = f"{name} is held up in part, {unread} ({cause})"
                yield _trouble("group", SOME_WAIT, what, causes[cause], _why(one), **about)


def _explained(cause: Row) -> str:
    remedy = Remedy(**cause["remedy"]) if cause["remedy"] else None
    return explain(Cause(cause["cause"], cause["detail"], remedy, datetime.fromisoformat(cause["at"])))


def _dead_letters(one: Row) -> Finding:
    name, about = _named(one)
    n = "more than 1,000 dead letters" if one["dead_letters"] > 1000 else counted(one["dead_letters"], "dead letter")
    reason = one.get("dead_letter_reason")
    newest = f", the newest because of {reason}" if reason else ""
    look = f"mqpg dead-letters list {one['consumer_group']} {one['topic']}"
    return _trouble("dead letters", LATER, f"{name} has {n}{newest}", f"see {look}", look, **about)


def _failing(found: Overview) -> Iterator[Finding]:
    for one in found.failing:
        name, about = _named(one)
        message = str(one["message_id"])
        attempts = f"message {message} {one['attempt'] - 1} times"
        reason = f" ({one['reason']})" if one["reason"] else ""
        what = f"{name} fails again and again with {counted(one['messages'], 'message')}, {attempts}{reason}"
        remedy = "mend its handler, or the message becomes a dead letter"
        about["message_id"] = message
        yield _trouble("failing messages", SOME_WAIT, what, remedy, f"mqpg why {message}", **about)


def _differing(found: Overview) -> Iterator[Finding]:
    for one in found.differing:
        name, about = _named(one)
        what = f"{name} has other options than the decorator of {one['handler']} says: {one['differences']}"
        remedy = f"mqpg subscription sync {one['handler']}, or change the decorator"
        yield _trouble("subscription", LATER, what, remedy, "mqpg subscription list", **about)


def _named(row: Row) -> tuple[str, dict[str, str]]:
    """A group in words, and what a finding about it is about."""
    about = {"consumer_group": row["consumer_group"], "topic": row["topic"]}
    return f"group {about['consumer_group']} of topic {about['topic']}", about


def _why(row: Row) -> str:
    return f"mqpg why {row['consumer_group']} {row['topic']}"


def _filters(found: Overview) -> Iterator[Finding]:
    for one in found.filters:
        name, about = _named(one)
        chosen = f"filter {one['filter']}" if one["filter"] else f"tags {', '.join(one['tags'])}"
        what = f"{name} gets nothing through its {chosen}"
        yield _trouble("filter", LOSS, what, _explained(one["cause"]), _why(one), **about)


def _losses(found: Overview) -> Iterator[Finding]:
    for one in found.losses:
        name, about = _named(one)
        what = f"{name} lost {counted(one['messages'], 'message')} by the policy on {one['why']} within a day"
        yield _trouble("losses", LOSS, what, "make it faster, or change the topic", **about)


def _half_messages(found: Overview) -> Iterator[Finding]:
    for one in found.overfull:
        group = one["producer_group"]
        what = f"producer group {group} has more than {one['max_undecided']} undecided half messages: prepare fails"
        remedy = "decide them, or raise it with mqpg group alter --max-undecided"
        yield _trouble("full groups", SOME_WAIT, what, remedy, f"mqpg half list --group {group}", producer_group=group)
    for one in found.half_messages:
        group = one["producer_group"]  # None: that of the half message was dropped
        name = f"producer group {group}" if group else "a dropped producer group"
        about, chosen = ({"producer_group": group}, f" --group {group}") if group else ({}, "")
        if one["late"]:
            reason = f" ({one['reason']})" if one["reason"] else ""
            what = f"{name} has {counted(one['late'], 'half message')} whose check is overdue{reason}"
            remedy = "see mqpg half list and mqpg why HANDLE"
            yield _trouble("overdue half messages", SOME_WAIT, what, remedy, f"mqpg half list{chosen}", **about)
        if one["parked"]:
            reason = f" ({one['parked_reason']})" if one.get("parked_reason") else ""
            what = f"{name} has {counted(one['parked'], 'parked half message')}{reason}"
            look = f"mqpg half list --parked{chosen}"
            yield _trouble(
                "parked half messages", SOME_WAIT, what, "decide with mqpg half settle, or rearm", look, **about
            )


def _silent_ledgers(found: Overview) -> Iterator[Finding]:
    said = {one["producer_group"] for one in found.half_messages if one["late"]}
    for one in found.silent_ledgers:
        names = [name for name in one["producer_groups"] if name not in said]
        if names:
            what = f"nobody answers for the half messages of producer group {', '.join(names)}"
            yield _trouble(
                "ledger",
                SOME_WAIT,
                f"{what}: {one['problem']}",
                "they wait until then",
                "mqpg group list",
                producer_group=names[0],
            )


def _moment(found: Overview) -> Iterator[Finding]:
    """Sessions and clocks, without transactions that the line of a segment names already."""
    holders = {str(session["pid"]) for one in _held_up(found) for session in one.get("sessions") or []}
    for one in found.moment:
        if not one.ok and not (one.check == "old transaction" and one.about.get("pid") in holders):
            yield one


def _held_up(found: Overview) -> list[Row]:
    return [one for one in found.blocked if one["seconds"] is None or one["seconds"] > STUCK]


def _segments(found: Overview) -> Iterator[Finding]:
    """One line for all that the same sessions hold up."""
    senders = {one.about.get("pid") for one in found.moment if one.check == "open transaction"}
    by_cause: dict[tuple[Any, ...], list[Row]] = {}
    for one in _held_up(found):
        holders = tuple(str(session["pid"]) for session in one.get("sessions") or [])
        if not holders or not senders.issuperset(holders):
            by_cause.setdefault((one["state"], *holders), []).append(one)
    for rows in by_cause.values():
        yield _segment(rows)


def _segment(rows: list[Row]) -> Finding:
    oldest = max(rows, key=lambda one: one["seconds"] or 0)
    names, verb = oldest["table_name"], "waits"
    if len(rows) > 1:
        names, verb = f"{names} and {counted(len(rows) - 1, 'other table')}", "wait"
    purpose = "to be merged" if oldest["state"] == "merging" else "to be dropped"
    what = f"{names} {verb} for {duration(oldest['seconds'] or 0)} {purpose}"
    remedy = "see the view blocked_segments"
    sessions: list[Row] = oldest.get("sessions") or []
    if sessions:
        by = ", ".join(f"pid {each['pid']} ({_who(each)})" for each in sessions)
        ends = "; ".join(f"select pg_terminate_backend({each['pid']})" for each in sessions)
        what, remedy = f"{what}, held up by {by}", f"let it end, or {ends}"
    return _trouble("segment", LATER, what, remedy)


def _who(session: Row) -> str:
    return f"{session['application'] or 'no name'}, in a transaction for {duration(session['seconds'])}"


def _dropped_topics(found: Overview) -> Iterator[Finding]:
    for one in found.orphans:
        late, undecided = counted(one["messages"], "message"), counted(one["undecided"], "undecided half message")
        what = f"the dropped topic {one['topic']} has {late} that came after the drop and {undecided}"
        yield _trouble("dropped topic", LATER, what, "see mqpg.orphans", topic=one["topic"])
