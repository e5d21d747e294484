"""The command `mqpg`, as typer knows it."""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from mqpg.cli.plugins import PluginGroup
from mqpg.values.words import printable_lines

__all__ = ["app"]

app = typer.Typer(
    name="mqpg",
    cls=PluginGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mqpg {version('mqpg')}")
        raise typer.Exit


@app.callback()
def _options(
    verbose: Annotated[int, typer.Option("--verbose", "-v", count=True, help="Log more. Twice: log everything.")] = 0,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A transactional message queue that lives inside PostgreSQL.

    Results go to stdout, logs and errors to stderr. Exit status: 0 success, 1 a negative result,
    2 wrong usage or an unknown name, 3 no connection or a schema that is missing or too old,
    4 a schema that is too new: upgrade mqpg.
    """
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Printable("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])


class _Printable(logging.Formatter):
    """Lines without control characters, because what others have sent may be in them."""

    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))
