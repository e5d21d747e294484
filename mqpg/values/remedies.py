"""A call that would move something, as a statement and as a command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mqpg.values.cause import Remedy

__all__ = ["COMMANDS", "Command", "as_command", "as_sql", "literal"]


@dataclass(frozen=True)
class Command:
    """A command that does what a function does."""

    words: str  # the command
    places: tuple[str, ...] = ()  # arguments of the function that follow in this order
    options: Mapping[str, str] = field(default_factory=dict)  # argument of the function -> the option that takes it


_GROUP = ("consumer_group", "topic")
COMMANDS = {
    "append": Command("mqpg worker"),
    "compensate": Command("mqpg worker"),
    "create_topic": Command("mqpg topic create", ("topic",)),
    "alter_topic": Command("mqpg topic alter", ("topic",)),
    "drop_topic": Command("mqpg topic drop", ("topic",), {"force": "--force"}),
    "resume": Command("mqpg topic resume", ("topic",)),
    "subscribe": Command("mqpg subscription add", _GROUP),
    "alter_subscription": Command("mqpg subscription alter", _GROUP, {"filter": "--filter", "tags": "--tag"}),
    "seek": Command("mqpg subscription seek", (*_GROUP, "target"), {"queue_id": "--queue", "consumer": "--consumer"}),
    "unpin": Command("mqpg subscription unpin", _GROUP, {"consumer": "--consumer"}),
    "redrive": Command("mqpg dead-letters redrive", _GROUP, {"message_ids": "--id"}),
    "create_producer_group": Command("mqpg group create", ("producer_group",)),
    "alter_producer_group": Command("mqpg group alter", ("producer_group",)),
    "rearm": Command("mqpg half rearm", ("handle",)),
    "settle": Command("mqpg half settle", ("handle", "verdict"), {"reason": "--reason"}),
    "grant_send": Command("mqpg grant send", ("topic", "role")),
    "grant_produce": Command("mqpg grant produce", ("producer_group", "role")),
    "grant_receive": Command("mqpg grant receive", (*_GROUP, "role")),
    "grant_operator": Command("mqpg grant operator", ("role",)),
    "grant_auditor": Command("mqpg grant auditor", ("role",)),
    "grant_worker": Command("mqpg grant worker", ("role",)),
}
"""Every function that a remedy names, and the command that does the same."""

_RESUME_GROUP = Command("mqpg subscription resume", _GROUP)


def as_sql(remedy: Remedy) -> str:
    """Write a remedy for psql, without a semicolon. `...` stands for an argument that you choose."""
    command = _command(remedy)
    names = sorted(remedy.arguments, key=[*command.places, *command.options].index)
    arguments = [f"{name} => {literal(remedy.arguments[name])}" for name in names]
    return f"select mqpg.{remedy.function}({', '.join(arguments)})"


def as_command(remedy: Remedy) -> str:
    """Write a remedy for a shell. A name in capitals stands for an argument that you choose."""
    command = _command(remedy)
    places = [_word(name, remedy.arguments.get(name)) for name in command.places]
    # A role may have any name, and one that begins with a dash would be taken for an option.
    dashed = any(str(remedy.arguments.get(name)).startswith("-") for name in command.places)
    said = [command.words, *(["--"] if dashed else []), *places]
    for name in filter(remedy.arguments.__contains__, command.options):
        value = remedy.arguments[name]
        for one in value if isinstance(value, list) else [value]:
            said += [command.options[name]] if one is True else [command.options[name], _word(name, one)]
    return " ".join(said)


def _command(remedy: Remedy) -> Command:
    is_of_group = remedy.function == "resume" and "consumer_group" in remedy.arguments
    return _RESUME_GROUP if is_of_group else COMMANDS[remedy.function]


def _word(name: str, value: object) -> str:
    return name.removeprefix("consumer_").upper() if value is None else shlex.quote(str(value))


def literal(value: Any) -> str:
    """Write a value as a literal of SQL. None: `...`, which stands for one that you choose."""
    if value is None:
        return "..."
    if isinstance(value, list):
        return f"array[{', '.join(map(literal, value))}]"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else json.dumps(value)
