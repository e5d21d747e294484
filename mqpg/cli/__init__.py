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

import psycopg
import typer

from mqpg.cli import (
    broker_settings,
    dead_letters,
    doctor,
    find,
    group,
    half,
    ledger,
    messages,
    migrate,
    rights,
    server,
    status,
    subscription,
    tables,
    topic,
    uninstall,
    why,
)
from mqpg.cli.options import printable
from mqpg.cli.plugins import PluginGroup, missing_extra
from mqpg.cli.sentences import DAMAGED, hint
from mqpg.schema.compatibility import EXIT_TOO_OLD
from mqpg.values import errors
from mqpg.values.translation import is_undefined, translate

__all__ = ["app", "main"]

_BROKEN_PIPE = 141  # what a shell reports of a process that SIGPIPE ended

app = typer.Typer(
    name="mqpg",
    cls=PluginGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(migrate.app, name="migrate")
app.add_typer(topic.app, name="topic")
app.add_typer(subscription.app, name="subscription")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(group.app, name="group")
app.add_typer(half.app, name="half")
app.add_typer(ledger.app, name="ledger")
app.add_typer(tables.app, name="tables")
app.add_typer(rights.grant, name="grant")
app.add_typer(rights.revoke, name="revoke")
app.command("rights")(rights.rights)
app.command("status")(status.status)
app.command("why")(why.why)
app.command("doctor")(doctor.doctor)
app.command("settings")(broker_settings.settings)
app.command("send")(messages.send)
app.command("peek")(messages.peek)
app.command("tail")(messages.tail)
app.command("find")(find.find)
app.command("trace")(find.trace)
app.command("up")(server.up)
app.command("down")(server.down)
app.command("uninstall")(uninstall.uninstall)


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
    except errors.Error as error:
        _fail(error)
    except psycopg.Error as error:
        _fail(translate(error))
    except ModuleNotFoundError as error:
        explanation = missing_extra(error)
        if explanation is None:
            raise
        typer.echo(f"mqpg: {explanation}", err=True)
        raise SystemExit(2) from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        # The reader is gone. Without another file Python would complain about it at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(_BROKEN_PIPE) from None
    except (OSError, UnicodeError, RecursionError) as error:
        # An unreadable file, an argument that is no text.
        _fail(errors.Error(_described(error)))


def _accept_any_text() -> None:
    """Print what cannot be encoded as escapes, instead of ending with a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _described(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "an argument is not text in UTF-8"
    return str(error) or type(error).__name__


def _fail(error: errors.Error) -> None:
    text = str(error)
    if error.hint:
        text = text.replace(error.hint, hint(error) or "")
    if is_undefined(error) and "mqpg migrate" not in text:
        text += f": {DAMAGED}"
    line = " ".join(text.encode("utf-8", "backslashreplace").decode().split())
    typer.echo(f"mqpg: {printable(line)}", err=True)
    raise SystemExit(_status(error)) from error


def _status(error: errors.Error) -> int:
    if isinstance(error, errors.SchemaTooNew):
        return EXIT_TOO_OLD
    if isinstance(error, (errors.ConnectionFailed, errors.SchemaError)) or is_undefined(error):
        return 3
    if isinstance(error, (errors.ConfigurationError, errors.InvalidArgument, errors.NotFound, errors.WrongTopicKind)):
        return 2
    return 1
