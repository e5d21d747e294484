"""The commands of mqpg, and of the entry-point group `mqpg.commands`, each loaded when it is first used.

An entry point names a typer.Typer (a group of commands) or a function (one command).
"""

from __future__ import annotations

import inspect
import re
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from mqpg.cli.commands import COMMANDS
from mqpg.values.words import printable

__all__ = ["GROUP", "PluginGroup"]

GROUP = "mqpg.commands"


class PluginGroup(TyperGroup):
    """The commands of the core, and those of the entry points."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List the names of all commands, in their groups, and plug-ins of others last."""
        return list(_known())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command. None: there is none of that name."""
        found = _CORE.get(cmd_name) or _known().get(cmd_name)
        return None if found is None else _load(found)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that was typed, or suggest one."""
        self.commands = dict.fromkeys(_known() if args[0] not in _CORE else ())  # type: ignore[assignment]
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the commands in their groups, and load only those of others."""
        listed: dict[str, Any] = {
            name: TyperCommand(name, help=about, rich_help_panel=panel)
            for panel, commands in COMMANDS.items()
            for name, (_, about) in commands.items()
            if name in _known()
        }
        listed |= {name: _load(entry) for name, entry in _known().items() if name not in listed}
        about = _as_wide_as_the_terminal(self.help)
        TyperGroup(name=self.name, help=about, params=self.params, commands=listed).format_help(ctx, formatter)


_CORE = {
    name: EntryPoint(name, f"mqpg.cli.{place}", GROUP)
    for commands in COMMANDS.values()
    for name, (place, _) in commands.items()
    if place
}


@cache
def _known() -> dict[str, EntryPoint]:
    """Every command that is installed."""
    plugins = {entry.name: entry for entry in entry_points(group=GROUP)}
    names = [name for commands in COMMANDS.values() for name in commands]
    found = plugins | _CORE
    return {name: found[name] for name in [*names, *sorted(plugins.keys() - set(names))] if name in found}


def _load(entry: EntryPoint) -> Any:
    outer = typer.Typer(pretty_exceptions_enable=False)
    try:
        found = entry.load()
    except ImportError as error:
        from mqpg.cli.failures import missing_extra  # help needs no psycopg

        explanation = missing_extra(error) if isinstance(error, ModuleNotFoundError) else None
        outer.add_typer(_unusable(entry.name, explanation or f"cannot be loaded: {error}"))
    else:
        if isinstance(found, typer.Typer):
            outer.add_typer(found, name=entry.name)
        else:
            outer.command(entry.name)(found)
    command = typer.main.get_group(outer).commands[entry.name]
    for one in (command, *getattr(command, "commands", {}).values()):
        one.help = _as_wide_as_the_terminal(one.help)
    return command


def _as_wide_as_the_terminal(text: str | None) -> str:
    """Join the lines of each paragraph, which are those of the source: typer would break them twice."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(text or ""))


def _unusable(name: str, why: str) -> typer.Typer:
    # It is listed in --help with the reason, so a broken plug-in breaks neither help nor other
    # commands.
    from rich.markup import escape

    group = typer.Typer(add_completion=False)

    @group.command(name, help=f"Not available: {escape(why)}", context_settings=_TAKE_ANYTHING)
    def fail(context: typer.Context) -> None:
        typer.echo(f"mqpg: {name}: {printable(why)}", err=True)
        raise typer.Exit(2)

    return group


_TAKE_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}
