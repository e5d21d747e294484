"""What a cause of `Client.why` means: one sentence or two for each."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from mqpg.values.cause import Cause, Remedy
from mqpg.values.remedies import as_command
from mqpg.values.words import counted, duration

__all__ = ["SENTENCES", "explain"]

_MINUTE = 60
_MOST_QUEUES = 10
_ASKS = {
    "ledger": "the ledger in this database is asked",
    "function": "the function {checker_target} is asked",
    "url": "the ledger {checker_target} is asked",
    "due_checks": "the application asks for it by due_checks()",
}


class _Facts:
    """What a sentence is made of.

    Attributes:
        detail: The facts of the cause.
        remedy: What would move it. None: no call does.
        render: Writes a call.
    """

    def __init__(self, cause: Cause, render: Callable[[Remedy], str]) -> None:
        self.detail, self.remedy, self.render = cause.detail, cause.remedy, render
        self._at = cause.at

    def __getitem__(self, name: str) -> Any:
        return self.detail[name]

    def get(self, name: str) -> Any:
        return self.detail.get(name)

    def call(self, lead: str = "", **changes: Any) -> str:
        """The remedy in words after `lead`, with some arguments changed. Empty, if there is none."""
        if self.remedy is None:
            return ""
        return lead + self.render(Remedy(self.remedy.function, {**self.remedy.arguments, **changes}))

    def time(self, name: str) -> datetime | None:
        """A time. None: it is not there, or infinite."""
        try:
            return datetime.fromisoformat(self.detail.get(name, ""))
        except ValueError:
            return None

    def until(self, name: str) -> str:
        """When something happens."""
        at = self.time(name)
        if at is None or (self._at is not None and at <= self._at):
            return "now"
        clock = f"at {at.replace(microsecond=0)}, server time"
        return clock if self._at is None else f"in {duration((at - self._at).total_seconds())} ({clock})"

    def age(self, name: str) -> str | None:
        """How long ago something happened. None: that is not known."""
        at = self.time(name)
        return None if at is None or self._at is None else duration((self._at - at).total_seconds())

    def ending(self) -> str:
        """The statement that ends a session."""
        if "pid" in self.detail:
            return f"select pg_terminate_backend({self['pid']})"
        return f"rollback prepared '{self.get('prepared_transaction')}'"


def _asks(f: _Facts) -> str:
    return _ASKS[f["checker"]].format_map(f.detail)


def _half_undecided(f: _Facts) -> str:
    return f"Its producer has to call commit() or rollback(). If it does not, {_asks(f)} {f.until('check_at')}."


def _half_overdue(f: _Facts) -> str:
    decide = "Its producer may also call commit() or rollback()."
    if f["checker"] == "due_checks" and f["checks"] == 0:
        group = f["producer_group"]
        return f"No program has asked for it yet: start the one that calls due_checks('{group}'). {decide}"
    return f"It is to be checked now: {_asks(f)}. {decide}"


def _half_parked(f: _Facts) -> str:
    said = "Its checks are used up, and an operator has to decide it"
    if f.remedy is None:
        return f"{said}, or have it checked again."
    decide = f.render(Remedy("settle", {**f.remedy.arguments, "verdict": None, "reason": None}))
    return f"{said}: look at its payload, then commit or rollback: {decide}; to have it checked again: {f.call()}"


def _local_transaction_open(f: _Facts) -> str:
    said = "Its local transaction has to commit or roll back."
    if f["sessions"] > 1:
        said = (
            f"One of {f['sessions']} open local transactions may be the one of this half message. They have to commit "
            "or roll back."
        )
    return f"{said} If the oldest hangs: {f.ending()}"


def _transaction_open(f: _Facts) -> str:
    who = "An open transaction" if f["sessions"] == 1 else f"One of {f['sessions']} open transactions"
    return (
        f"No such message is committed. {who} may have sent it, and has to commit. If the oldest hangs, this gives up "
        f"what it sent: {f.ending()}"
    )


def _appender_not_running(f: _Facts) -> str:
    taken = "pid" in f.detail or "prepared_transaction" in f.detail
    return "start mqpg worker" + (f". The seat of the appender is taken; to free it: {f.ending()}" if taken else "")


def _not_subscribed(f: _Facts) -> str:
    if "producer_group" in f.detail:
        group = f["producer_group"]
        return f"It is a producer group. Ask for one of its half messages, which mqpg half list --group {group} shows."
    said = ["There is no group of that name." if f.get("topics") == [] else "The group does not read the topic."]
    for name, text in (("groups", "Groups that read the topic"), ("topics", "Topics that it reads")):
        if f.get(name):
            said.append(f"{text}: {', '.join(f[name])}.")
    return " ".join([*said, f.call("If it is to read it: ")])


def _owner_gone(f: _Facts) -> str:
    others = f.get("consumers_at_work")
    at_work = f" (at work under another name, which owns no such queue: {others})" if others else ""
    return f"Start the consumer {f['owner']} again{at_work}. {f.call('Only if it is gone for good: ')}"


def _leased(f: _Facts) -> str:
    who = f"Consumer {f['consumer']}" if f.get("consumer") else "A consumer without a name"
    return (
        f"{who} has to call ack() or nack(). Its lease ends {f.until('until')}. Then another receive() takes the "
        "messages over."
    )


def _too_many_deliveries(f: _Facts) -> str:
    queue = f["queue_id"] if "queue_id" in f.detail else f["queues"][0]
    oldest, first, last = f.age("delivered_at"), f.time("until"), f.time("last_until")
    is_later = first and last and (last - first).total_seconds() > _MINUTE
    ends = f"the first lease ends {f.until('until')}" + (f", the last one {f.until('last_until')}" if is_later else "")
    again = f["acknowledged_ahead"]
    also = f", and up to {counted(again, 'later message')} that {_are(again)}" if again else ""
    return (
        f"{'The retry lane' if queue == -1 else f'Queue {queue}'} is full: {f['deliveries']} of 64 deliveries are "
        f"open, {_holders(f)}{f', the oldest for {oldest}' if oldest else ''}. {_at_work(f)} They have to be "
        "acknowledged, or returned with nack() or release(): look why that program does not. "
        f"Otherwise {ends}, and other consumers get the messages. A restart does not end a lease. If the program is "
        f"gone for good, this frees them at once, and delivers again what is not acknowledged{also}: {f.call()}"
    )


def _holders(f: _Facts) -> str:
    """Whose the open deliveries of a queue are."""
    named = [(f"the consumer {name}" if name else "a consumer without a name", n) for name, n in _counts(f)]
    others = f["deliveries"] - sum(n for _, n in named)
    if len(named) == 1 and not others:
        return f"all of {named[0][0]}"
    return "of " + ", ".join(f"{who} ({n})" for who, n in [*named, *([("others", others)] if others else [])])


def _counts(f: _Facts) -> list[tuple[str | None, int]]:
    return [(one["consumer"], one["deliveries"]) for one in f["holders"]]


def _at_work(f: _Facts) -> str:
    if f.get("consumers_at_work"):
        return f"At work: {f['consumers_at_work']}."
    names = [name for name, _ in _counts(f) if name]
    if not names:
        return "Whether it is at work is not known."
    return f"No mqpg consume reports under {'that name' if len(names) == 1 else 'these names'}."


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _behind_key(f: _Facts) -> str:
    return (
        f"The message at offset {f['blocked_by_offset']} has the same key, failed, and is delivered again "
        f"{f.until('until')}. The later ones with the key follow it (on_failure block_key)."
    )


def _queue_blocked(f: _Facts) -> str:
    times = "once" if f["attempt"] == 1 else f"{f['attempt']} times"
    reason = f" ({f['reason'][:200]})" if f.get("reason") else ""
    return (
        f"Message {f['message_id']} at offset {f['queue_offset']} of queue {f['queue_id']} has failed "
        f"{times}{reason}. It is delivered again {f.until('until')}, and this queue waits for it (on_failure "
        f"block_queue). Mend what makes the handler fail.{_try_again(f)}"
    )


def _try_again(f: _Facts) -> str:
    """How to try a message that blocks its queue at once, and how to leave it out."""
    if f.remedy is None:
        return ""
    again, beyond = f["acknowledged_ahead"], str(int(f.remedy.arguments["target"]) + 1)
    also = f", with up to {counted(again, 'later message')} that {_are(again)} acknowledged already" if again else ""
    return (
        f" After that, to try it again at once{also}: {f.call()}; to leave it out instead, which makes it no dead "
        f"letter: {f.call(target=beyond)}"
    )


def _retry_due(f: _Facts) -> str:
    return (
        f"Its last attempt failed. It is delivered again {f.until('until')}. Mend what makes the handler fail."
        f"{_try_again(f)}"
    )


def _filtered_out(f: _Facts) -> str:
    if f.remedy is None:
        return "The filter or the tags that the group had then did not choose it, so the group never gets it."
    return (
        "The filter or the tags of the group do not choose it, so the group never gets it. "
        f"{f.call('To change them for what comes: ')}"
    )


def _filter_chooses_nothing(f: _Facts) -> str:
    said = ["Every message that came lately was skipped"]
    if "skipped" in f.detail and "first_skipped_at" in f.detail:
        said.append(f": {counted(f['skipped'], 'message')}, the first {_ago(f, 'first_skipped_at')}")
    elif f.get("messages"):
        since = _ago(f, "filter_from")
        said.append(f". The filter was set {since}, and {counted(f['messages'], 'message')} came since then")
    said.append(f".{_misses(f)}")
    if f.remedy is not None:
        said.append(f" If that is not meant, change it: {f.call()}")
    skipped: dict[str, str] = f.get("skipped_from") or {}
    if skipped and f.remedy is not None:
        seeks = [_seek(f, queue, target) for queue, target in sorted(skipped.items(), key=lambda one: int(one[0]))]
        said.append(f"; to get the skipped ones after that: {'; '.join(seeks[:_MOST_QUEUES])}")
        if len(seeks) > _MOST_QUEUES:
            said.append("; and so on: skipped_from has the offsets of all queues")
    return "".join(said)


def _ago(f: _Facts, name: str) -> str:
    at, age = f.time(name), f.age(name)
    return f"at {at and at.replace(microsecond=0)} (server time{f', {age} ago' if age else ''})"


def _misses(f: _Facts) -> str:
    """What the newest skipped message has, and what the filter looks for in vain."""
    missed = sorted(path for path, values in (f.get("values") or {}).items() if values == [])
    if not missed or not f.get("fields"):
        return ""
    return f" The newest one has {', '.join(f['fields'])}, but nothing at {', '.join(missed)}."


def _seek(f: _Facts, queue: str, target: str) -> str:
    assert f.remedy is not None
    place = {name: f.remedy.arguments[name] for name in ("consumer_group", "topic")}
    member = {"consumer": f["member"]} if "member" in f.detail else {}
    return f.render(Remedy("seek", place | {"queue_id": int(queue), "target": target} | member))


SENTENCES: dict[str, str | Callable[[_Facts], str]] = {
    # half messages
    "half_undecided": _half_undecided,
    "half_overdue": _half_overdue,
    "half_parked": _half_parked,
    "half_rolled_back": "The first decision stands, so no group gets it. Prepare it again if it is still wanted.",
    "local_transaction_open": _local_transaction_open,
    "ledger_not_served": "start mqpg worker with --ledger {ledger}=URL",
    "ledger_unreachable": "Make the database of the ledger answer. The compensator then asks it again by itself.",
    "compensator_not_running": "start mqpg worker",
    # before it has an offset
    "transaction_open": _transaction_open,
    "delayed": lambda f: f"It becomes visible {f.until('until')}. Until then recall() takes it back.",
    "recalled": "It was taken back with recall(). Send it again if it is still wanted.",
    "not_appended": "The appender runs. Wait for its next call of append(), or look at last_error.",
    "appender_not_running": _appender_not_running,
    "append_locked": lambda f: (
        f"One call of append() runs at a time, and this one has not ended. If it hangs: {f.ending()}"
    ),
    "topic_dropped": "The topic of the message was dropped. Send it to another topic.",
    # each group
    "no_group": lambda f: f"No group reads the topic. {f.call('To make one: ')}",
    "not_subscribed": _not_subscribed,
    "no_member": "start mqpg consume for group {consumer_group}",
    "topic_paused": lambda f: f"run {f.call()}",
    "group_paused": lambda f: f"run {f.call()}",
    "queue_locked": lambda f: (
        f"An open transaction works on the queue, and has to commit or roll back. If it hangs: {f.ending()}"
    ),
    "owner_gone": _owner_gone,
    "leased": _leased,
    "too_many_deliveries": _too_many_deliveries,
    "behind_key": _behind_key,
    "queue_blocked": _queue_blocked,
    "keys_blocked": "So many messages wait behind failed ones with their keys that no fresh one is delivered. Mend "
    "what makes the handler fail.",
    "retry_due": _retry_due,
    "dead_letter": lambda f: f"Mend what made it fail. {f.call('Then deliver it again: ')}",
    "discarded": "It was a dead letter and was discarded. Send it again if it is still wanted.",
    "filtered_out": _filtered_out,
    "filter_chooses_nothing": _filter_chooses_nothing,
    "skipped": lambda f: f"The group was moved over it. {f.call('To get it and all that follow it: ')}",
    "waiting_for_consumer": "start mqpg consume for group {consumer_group}",
}
"""Cause -> its sentence: a template of its facts, or what makes it of them."""


def explain(cause: Cause, render: Callable[[Remedy], str] = as_command) -> str:
    """Say what would move something.

    Args:
        cause: What holds it up.
        render: How a call is written. Default: as a command.

    Returns:
        One sentence or two. Empty, if a newer broker names a cause that is not known here.
    """
    sentence = SENTENCES.get(cause.cause, "")
    said = sentence.format_map(cause.detail) if isinstance(sentence, str) else sentence(_Facts(cause, render))
    queues: list[int] = cause.detail.get("queues") or []
    if len(queues) < 2:
        return said
    same = f"he same holds for {_listed(queues[1:])}."
    return f"{said} T{same}" if said.endswith(".") else f"{said}; t{same}"  # a full stop would spoil a command


def _listed(queues: list[int]) -> str:
    named, left = ", ".join(map(str, queues[:_MOST_QUEUES])), len(queues) - _MOST_QUEUES
    return f"queue{'' if len(queues) == 1 else 's'} {named}" + (f" and {left} more" if left > 0 else "")
