"""What a command has done, and what would help, in the words of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mqpg.values.errors import Error
from mqpg.values.remedies import as_command
from mqpg.values.words import Words

__all__ = ["DAMAGED", "hint", "sentence"]

# Action -> what is said of it. _words() says what stands for words that are no facts, and
# {number:noun} is a number with its noun.
_DONE = {
    "create_topic": "topic {topic} is there: {more}",
    "alter_topic": "topic {topic}: {more}",
    "drop_topic": "dropped topic {topic}",
    "pause_topic": "paused topic {topic} for all groups",
    "resume_topic": "resumed topic {topic}",
    "subscribe": "group {consumer_group} reads topic {topic}: {more}",
    "alter_subscription": "group {consumer_group} of topic {topic}: {more}",
    "unsubscribe": "group {consumer_group} no longer reads topic {topic}",
    "unsubscribe_consumer": "consumer {consumer} of group {consumer_group} no longer reads topic {topic}",
    "pause": "paused group {consumer_group} on topic {topic}",
    "resume": "resumed group {consumer_group} on topic {topic}",
    "purge_topic": "the groups of topic {topic} skip {skipped:message} in all",
    "seek": "moved {reader} on {place} to {target}",
    "unpin": "took {queues} of topic {topic} from {owners}",
    "redrive": "group {consumer_group} gets {messages:dead letter} of topic {topic} again{ids}",
    "discard_dead_letters": "deleted {messages:dead letter} of group {consumer_group} on topic {topic}{ids}",
    "settle_committed": "committed half message {handle}",
    "settle_already_committed": "half message {handle} was committed before",
    "settle_rolled_back": "rolled back half message {handle}",
    "settle_already_rolled_back": "half message {handle} was rolled back before",
    "rearm": "the check-backs of {handle} start again",
    "create_producer_group": "producer group {producer_group} is there: {more}",
    "alter_producer_group": "producer group {producer_group}: {more}",
    "drop_producer_group": "dropped producer group {producer_group}",
    "send": "send to topic {topic}",
    "produce": "prepare and decide as producer group {producer_group}",
    "receive": "receive as group {consumer_group} from topic {topic}",
    "operator": "operate",
    "auditor": "audit",
    "worker": "run workers",
}

# Function of an error's remedy -> what its command does. Of the other errors the broker's hint is
# said.
_HINTS = {
    "create_topic": "{} creates it.",
    "create_producer_group": "{} creates it.",
    "subscribe": "{} creates it.",
    "alter_topic": "{} changes it.",
    "alter_producer_group": "{} changes it.",
    "alter_subscription": "{} changes it.",
    "drop_topic": "{} drops it with them.",
    "rearm": "If it is parked, {} has it checked again.",
}
_GRANT = "The owner gives it with {}."
_MOST_IDS = 10


_WORDS = Words()


def sentence(action: str, facts: Mapping[str, Any]) -> str | None:
    """Say in one line what a command has done. None: nothing is said of this action."""
    verb, _, right = action.partition("_")
    if verb in ("grant", "revoke"):
        may = _DONE[right].format_map(facts)
        if verb == "grant":
            return f"role {facts['role']} may {may}"
        return f"role {facts['role']} may no longer {may}" if facts["revoked"] else None
    template = _DONE.get(_variant(action, facts))
    if template is None or facts.get("moved") is False:
        return None
    return _WORDS.vformat(template, (), {**facts, **_words(template, facts)})


def _variant(action: str, facts: Mapping[str, Any]) -> str:
    """The action by what it was done to, or by what came of it."""
    if action in ("pause", "resume") and "consumer_group" not in facts:
        return f"{action}_topic"
    if action == "settle":
        return f"settle_{facts['outcome']}"
    if action == "unsubscribe" and facts.get("consumer") is not None:
        return "unsubscribe_consumer"
    return action


def _words(template: str, facts: Mapping[str, Any]) -> dict[str, str]:
    """What some sentences name by several facts."""
    group, topic = f"group {facts.get('consumer_group')}", f"topic {facts.get('topic')}"
    queue, consumer = facts.get("queue_id"), facts.get("consumer")
    return {
        "reader": group if consumer is None else f"consumer {consumer} of {group}",
        "owners": f"the consumers of {group}" if consumer is None else f"consumer {consumer} of {group}",
        "place": topic if queue is None else f"queue {queue} of {topic}",
        "queues": "all queues" if queue is None else f"queue {queue}",
        "ids": _ids(facts),
        "more": _more(template, facts),
    }


def _ids(facts: Mapping[str, Any]) -> str:
    """The messages that were named, where these are few and something was done to each."""
    ids = facts.get("message_ids") or []
    return f": {', '.join(map(str, ids))}" if ids and len(ids) == facts["messages"] <= _MOST_IDS else ""


DAMAGED = "run mqpg migrate, and mqpg doctor --schema, which says what is missing"
"""What helps if the server does not have something that a command asks for."""


def hint(error: Error) -> str | None:
    """Say what helps against an error, in the words of the command line. None: there is no hint."""
    if error.remedy is None:
        return error.hint
    return _HINTS.get(error.remedy.function, _GRANT).format(as_command(error.remedy))


def _more(template: str, facts: Mapping[str, Any]) -> str:
    rest = {name: fact for name, fact in facts.items() if fact is not None and f"{{{name}}}" not in template}
    return ", ".join(f"{name} {_shown(fact)}" for name, fact in rest.items()) or "nothing was given, nothing changed"


def _shown(fact: object) -> str:
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    return (", ".join(map(str, fact)) or "any") if isinstance(fact, list) else str(fact)
