"""The command `mqpg`.

Results go to stdout, logs and errors to stderr. The exit status is 0 for success, 1 for a negative
result, 2 for wrong usage or an unknown name, 3 where there is no connection or the schema is
missing or too old, and 4 where the schema is too new for this release.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated

import typer

from mqpg.cli.plugins import PluginGroup

__all__ = ["app", "main"]

_BROKEN_PIPE = 141  # what a shell reports of a process that SIGPIPE ended

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
    logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def _app() -> None:
    app(prog_name="mqpg")


def main(command: Callable[[], None] = _app) -> None:
    """Run a command, `mqpg` by default. Every expected failure is one line on stderr, and raises SystemExit."""
    _accept_any_text()
    try:
        command()
        sys.stdout.flush()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        # The reader is gone. Without another file Python would complain about it at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(_BROKEN_PIPE) from None
    except Exception as error:
        from mqpg.cli.failures import explained  # help needs no psycopg

        found = explained(error)
        if found is None:
            raise
        line, status = found
        typer.echo(f"mqpg: {line}", err=True)
        raise SystemExit(status) from error


def _accept_any_text() -> None:
    """Print what cannot be encoded as escapes, instead of ending with a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
