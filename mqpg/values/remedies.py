"""What would move a message, in the words of the command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from mqpg.values.cause import Cause

__all__ = ["in_commands", "remedy", "remedy_of"]

_WORKERS = "start mqpg worker"
# What to run for a cause, with the facts of its detail. Of the others the broker's sentence is
# said, with commands instead of its SQL statements.
_COMMANDS = {
    "appender_not_running": _WORKERS,
    "compensator_not_running": _WORKERS,
    "ledger_not_served": "start mqpg worker with --ledger {ledger}=URL",
    "half_parked": "look at mqpg half list --parked, then mqpg half rearm HANDLE or mqpg half settle HANDLE",
    "no_group": "run mqpg subscription add GROUP {topic}",
    "topic_paused": "run mqpg topic resume {topic}",
    "group_paused": "run mqpg subscription resume {consumer_group} {topic}",
    "waiting_for_consumer": "start mqpg consume for group {consumer_group}",
    "no_member": "start mqpg consume for group {consumer_group}",
}
_TEXT = r"'(?:[^']|'')*'"
_CALL = re.compile(rf"(?:select )?mqpg\.(\w+)\(((?:{_TEXT}|[^()'])*)\);?")
_ARGUMENT = re.compile(rf"(?:(\w+) => )?({_TEXT}|array\[[^]]*\]|[^,\s]+)")
Builder = Callable[[list[str], dict[str, str]], str | None]


def _with_options(command: str, *options: str) -> Builder:
    """The command, then what has no name in the call, then what has one, as options."""
    names = dict(one.split("=") for one in options)

    def build(places: list[str], named: dict[str, str]) -> str | None:
        if not named.keys() <= names.keys():
            return None
        given = [f"{names[name]} {_word(value)}" for name, value in named.items()]
        return " ".join([command, *map(_word, places), *given])

    return build


def _seek(places: list[str], named: dict[str, str]) -> str | None:
    queue = {"queue": places[3]} if len(places) > 3 else {}
    return _with_options("mqpg subscription seek", "queue=--queue", "consumer=--consumer")(places[:3], queue | named)


# A function that remedies name -> the command that calls it.
_BUILDERS: dict[str, Builder] = {
    "subscribe": _with_options("mqpg subscription add"),
    "alter_subscription": _with_options("mqpg subscription alter", "filter=--filter", "tags=--tag"),
    "unpin": _with_options("mqpg subscription unpin", "consumer=--consumer"),
    "redrive": _with_options("mqpg dead-letters redrive", "message_ids=--id"),
    "seek": _seek,
}


def remedy(cause: Cause, topic: str | None = None) -> str:
    """Say what would move a message.

    Args:
        cause: What holds it up.
        topic: The name of its topic. None: it is not known.

    Returns:
        A sentence: what to run, or else what the broker says.
    """
    return remedy_of(cause.cause, cause.remedy, {"topic": topic or "TOPIC", "consumer_group": "GROUP"} | cause.detail)


def remedy_of(cause: str, said: str, facts: Mapping[str, Any]) -> str:
    """Say what would move a message, where its cause is only a word.

    Args:
        cause: The word.
        said: What the broker says of it.
        facts: The `topic` and the `consumer_group`, and others that the cause names.

    Returns:
        A sentence: what to run, or else what the broker says.
    """
    command = _COMMANDS.get(cause)
    return in_commands(said) if command is None else command.format_map(facts)


def in_commands(said: str) -> str:
    """Replace the statements of a remedy by the commands that do the same.

    Args:
        said: What the broker says.

    Returns:
        The same with commands. A statement that no command stands for stays.
    """
    return _CALL.sub(_command, said)


def _command(call: re.Match[str]) -> str:
    builder = _BUILDERS.get(call[1])
    if builder is None:
        return call[0]
    arguments = [(name, _value(value)) for name, value in _ARGUMENT.findall(call[2])]
    places = [value for name, value in arguments if not name]
    # A shell takes the semicolon too.
    ending = ";" if call[0].endswith(";") and call.end() < len(call.string) else ""
    command = builder(places, {name: value for name, value in arguments if name})
    # The sentence may contain the error of a handler, and in that any text.
    return call[0] if command is None else command + ending


def _value(literal: str) -> str:
    """The text of a literal; of an array, what is in it."""
    if literal.startswith("'"):
        return literal[1:-1].replace("''", "'").removeprefix("{").removesuffix("}")
    return literal.removeprefix("array[").removesuffix("]")


def _word(value: str) -> str:
    """A word of a command; `...` stands for what the reader has to find."""
    return value if value == "..." else shlex.quote(value)
