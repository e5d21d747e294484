"""What a cause of `Client.why` means, and what would move it: a sentence or two for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from mqpg.values.cause import Cause, Remedy
from mqpg.values.remedies import as_command, literal
from mqpg.values.words import Words, duration

__all__ = ["SENTENCES", "explain"]

_ASKS = {
    "ledger": "the ledger in this database is asked",
    "function": "the function {checker_target} is asked",
    "url": "the ledger {checker_target} is asked",
    "due_checks": "a program asks for it by due_checks('{producer_group}')",
}
_AGAIN = (
    " After that, to try it again at once: {call}; to leave it out instead, which makes it no dead letter: {beyond}",
    "; both repeat up to {acknowledged_ahead:later message} that were acknowledged",
)
_MOST_QUEUES = 10
_SILENT = 60  # seconds; a consumer that is at work acknowledges within its lease, 30 seconds by default

SENTENCES: dict[str, tuple[str, ...]] = {
    # half messages
    "half_undecided": ("Its producer has to call commit() or rollback(). If it does not, {asks} {check_at:when}.",),
    "half_overdue": ("It is to be checked now: {asks}. Its producer may also call commit() or rollback().",),
    "half_parked": (
        "Its checks are used up, and an operator has to decide it.",
        " Look at its payload, then commit or rollback: {settle}; to have it checked again: {call}",
    ),
    "half_rolled_back": ("The first decision stands, so no group gets it. Prepare it again if it is still wanted.",),
    "local_transaction_open": (
        "Its local transaction has to commit or roll back ({sessions:open transaction} may be it). If the oldest "
        "hangs: {ending}",
    ),
    "ledger_not_served": ("start mqpg worker with --ledger {ledger}=URL",),
    "ledger_unreachable": ("Make the database of the ledger answer. The compensator then asks it again by itself.",),
    "compensator_not_running": ("start mqpg worker",),
    "disk_full": (
        "The disk of the database is full, so nothing can be sent, received or acknowledged. Free space, or make its "
        "volume larger. What else is said here comes after that.",
    ),
    # before it has an offset
    "transaction_open": (
        "No such message is committed. {sessions:open transaction} may have sent it, and has to commit. If the oldest "
        "hangs, this gives up what it sent: {ending}",
    ),
    "delayed": ("It becomes visible {until:when}. Until then recall() takes it back.",),
    "recalled": ("It was taken back with recall(). Send it again if it is still wanted.",),
    "not_appended": ("The appender runs. Wait for its next call of append(), or look at last_error.",),
    "appender_not_running": ("start mqpg worker", "; its seat is taken, and to free it: {ending}"),
    "append_locked": ("One call of append() runs at a time, and this one has not ended. If it hangs: {ending}",),
    "topic_dropped": ("The topic of the message was dropped. Send it to another topic.",),
    # each group
    "no_group": ("No group reads the topic. To make one: {call}",),
    "not_subscribed": (
        "No group of that name reads the topic.",
        " Groups that read it: {groups}.",
        " Topics that the group reads: {topics}.",
        " If it is to read this one: {call}",
        " It is a producer group, and why() takes one of its half messages: mqpg half list --group {producer_group}",
    ),
    "no_member": ("start mqpg consume for group {consumer_group}",),
    "topic_paused": ("run {call}",),
    "group_paused": ("run {call}",),
    "queue_locked": ("An open transaction works on the queue, and has to commit or roll back. If it hangs: {ending}",),
    "owner_gone": (
        "Start the consumer {owner} again",
        " (at work under another name, which owns no such queue: {consumers_at_work})",
        ". Only if it is gone for good: {call}",
    ),
    "queue_waits": (
        "Queues were added to the topic. This one is read when what was in queue {after_queue} before is acknowledged",
        ", up to offset {until_offset}",
        ".",
        " First {transactions:transaction} that ran at that time must end.",
    ),
    "leased": (
        "Its consumer",
        " {consumer}",
        " has to call ack() or nack(). Its lease ends {until:when}. Then another receive() takes the messages over.",
    ),
    "too_many_deliveries": (
        "{place} is full: {deliveries} of 64 deliveries are open",
        ", the oldest for {delivered_at:age}",
        ", of {named}.",
        " At work: {consumers_at_work}.",
        " No mqpg consume reports as {silent}.",
        " They have to be acknowledged, or returned with nack() or release(): look why that program does not. "
        "Otherwise the first lease ends {until:when}, and the last one {last_until:when}. A restart does not end a "
        "lease. If the program is gone for good, this frees them at once, and repeats what is not acknowledged",
        ", with up to {acknowledged_ahead:later message} that were",
        ": {call}",
    ),
    "behind_key": (
        "The message at offset {blocked_by_offset} has the same key, failed, and is delivered again {until:when}. The "
        "later ones with the key follow it (on_failure block_key).",
    ),
    "queue_blocked": (
        "Message {message_id} at offset {queue_offset} of queue {queue_id} has failed {attempt:time}",
        " ({reason:.200})",
        ". It is delivered again {until:when}, and this queue waits for it (on_failure block_queue). Mend what makes "
        "the handler fail.",
        *_AGAIN,
    ),
    "keys_blocked": (
        "So many messages wait behind failed ones with their keys that no fresh one is delivered. Mend what makes the "
        "handler fail.",
    ),
    "retry_due": (
        "Its last attempt failed. It is delivered again {until:when}. Mend what makes the handler fail.",
        *_AGAIN,
    ),
    "dead_letter": ("Mend what made it fail. Then deliver it again: {call}",),
    "discarded": ("It was a dead letter and was discarded. Send it again if it is still wanted.",),
    "filtered_out": (
        "The filter or the tags of the group did not choose it, so the group never gets it.",
        " To change them for what comes: {call}",
    ),
    "filter_chooses_nothing": (
        "Every message that came lately was skipped",
        ": {skipped:message}, the first {first_skipped_at:age} ago",
        ". The filter was set {filter_from:age} ago, and {messages:message} came since then",
        ".",
        " The newest one has {fields}, but nothing at {missed}.",
        " If that is not meant, change it: {call}",
        "; to get the skipped ones after that: {seeks}",
    ),
    "skipped": ("The group was moved over it. To get it and all that follow it: {call}",),
    "waiting_for_consumer": (
        "start mqpg consume for group {without_consumer}",
        "{silent_consumers:consumer} of the group said a moment ago to be alive, but nothing was asked for or "
        "acknowledged for {last_active_at:age}: look what the handler, or its database, waits for, and which queues "
        "are read (mqpg status --workers)",
    ),
}
"""Cause -> its sentences, in parts. A part that names a fact that is not there is left out."""


class _Facts(Words):
    """Formats times, too: `{until:when}` says when something happens, `{at:age}` how long ago it was."""

    def __init__(self, at: datetime | None) -> None:
        self._at = at

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec not in ("when", "age"):
            return super().format_field(value, format_spec)
        try:
            time = datetime.fromisoformat(value)
        except ValueError:  # it is infinite
            return "now"
        clock = f"at {time:%Y-%m-%d %H:%M:%S %Z}, server time"
        if self._at is None:
            return clock
        seconds = (time - self._at).total_seconds()
        if format_spec == "age":
            return duration(-seconds)
        return f"in {duration(seconds)} ({clock})" if seconds > 0 else "now"


def explain(cause: Cause, render: Callable[[Remedy], str] = as_command) -> str:
    """Say in a sentence or two what would move something, with calls written by `render`.

    Empty, if a newer broker names a cause that is not known here.
    """
    facts = {name: fact for name, fact in cause.detail.items() if fact not in (None, [], "")}
    if not facts.get("acknowledged_ahead"):
        facts.pop("acknowledged_ahead", None)
    facts.update(_derived(facts, cause.at))
    facts.update((name, render(call)) for name, call in _calls(cause))
    if seeks := [render(call) for call in _seeks(cause)]:
        facts["seeks"] = "; ".join(seeks[:_MOST_QUEUES]) + ("; and so on" if len(seeks) > _MOST_QUEUES else "")
    words = _Facts(cause.at)
    said = "".join(_part(words, template, facts) for template in SENTENCES.get(cause.cause, ()))
    queues: list[int] = facts.get("queues", [])
    return f"{said.rstrip('.')}; the same holds for {_listed(queues[1:])}." if len(queues) > 1 else said


def _part(words: Words, template: str, facts: Mapping[str, Any]) -> str:
    try:
        return words.vformat(template, (), facts)
    except KeyError:
        return ""


def _derived(facts: Mapping[str, Any], at: datetime | None) -> Iterator[tuple[str, Any]]:
    """Facts that are made of others, at the time of the answer."""
    active = facts.get("last_active_at")
    if at and active and facts.get("consumers") and (at - datetime.fromisoformat(active)).total_seconds() > _SILENT:
        yield "silent_consumers", facts["consumers"]
    elif "consumer_group" in facts:
        yield "without_consumer", facts["consumer_group"]
    if "checker" in facts:
        yield "asks", _ASKS[facts["checker"]].format_map(facts)
    if "pid" in facts:
        yield "ending", f"select pg_terminate_backend({facts['pid']})"
    elif "prepared_transaction" in facts:
        yield "ending", f"rollback prepared {literal(facts['prepared_transaction'])}"
    if "holders" in facts:
        number = facts["queue_id"] if "queue_id" in facts else facts["queues"][0]
        yield "place", "The retry lane" if number == -1 else f"Queue {number}"
        yield "named", ", ".join(f"{one['consumer'] or 'no name'} ({one['deliveries']})" for one in facts["holders"])
        names = [one["consumer"] for one in facts["holders"] if one["consumer"]]
        if names and "consumers_at_work" not in facts:
            yield "silent", ", ".join(names)
    missed = sorted(path for path, values in (facts.get("values") or {}).items() if values == [])
    if missed:
        yield "missed", ", ".join(missed)


def _calls(cause: Cause) -> Iterator[tuple[str, Remedy]]:
    """The remedy, and calls that are made of it."""
    if cause.remedy is None:
        return
    given = cause.remedy.arguments
    yield "call", cause.remedy
    if cause.remedy.function == "rearm":
        yield "settle", Remedy("settle", {**given, "verdict": None, "reason": None})
    if cause.remedy.function == "seek":
        yield "beyond", Remedy("seek", {**given, "target": str(int(given["target"]) + 1)})


def _seeks(cause: Cause) -> Iterator[Remedy]:
    """The calls that go back to what a filter has skipped."""
    if cause.remedy is None or "skipped_from" not in cause.detail:
        return
    place = {name: cause.remedy.arguments[name] for name in ("consumer_group", "topic")}
    member = {"consumer": cause.detail["member"]} if "member" in cause.detail else {}
    for queue, offset in sorted(cause.detail["skipped_from"].items(), key=lambda one: int(one[0])):
        yield Remedy("seek", {**place, "queue_id": int(queue), "target": offset, **member})


def _listed(queues: list[int]) -> str:
    named, left = ", ".join(map(str, queues[:_MOST_QUEUES])), len(queues) - _MOST_QUEUES
    return f"queue{'' if len(queues) == 1 else 's'} {named}" + (f" and {left} more" if left > 0 else "")
