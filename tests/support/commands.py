"""The commands of `mqpg`, as typer knows them."""

from collections.abc import Iterator
from typing import Any

from typer import Context
from typer.main import get_command

from mqpg.cli.root import app

__all__ = ["COMMANDS", "ROOT_COMMAND", "changes_something", "subcommand", "takes"]


def subcommand(command: Any, name: str) -> Any:
    """Find a command in a group. None where it is no group, or has none of that name."""
    return command.get_command(Context(command), name) if hasattr(command, "list_commands") else None


def takes(command: Any, option: str) -> bool:
    """Whether it has the option, written with its dashes."""
    return option == "--help" or any(option in [*one.opts, *one.secondary_opts] for one in command.params)


def changes_something(command: Any) -> bool:
    """Whether its --json says what was done."""
    return any("what was done" in (getattr(one, "help", None) or "") for one in command.params)


def _commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name in command.list_commands(Context(command)) if hasattr(command, "list_commands") else ():
        yield from _commands(subcommand(command, name), (*path, name))
    if path and (not hasattr(command, "list_commands") or command.invoke_without_command):
        yield " ".join(path), command


ROOT_COMMAND: Any = get_command(app)
"""`mqpg` itself."""

COMMANDS = dict(_commands(ROOT_COMMAND))
"""Every command that can be run, by its words. A group is one where it does something without a command."""
