"""The command `mqpg crashtest`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from mqpg.cli.options import say, warn_of_password
from mqpg.cli.progress import progress
from mqpg.connection import dsn as dsns
from mqpg.crashtest.options import CannotTry, Options, Outcome
from mqpg.crashtest.report import print_json, print_table
from mqpg.crashtest.run import run
from mqpg.values.errors import ConfigurationError, ConnectionFailed, Error

__all__ = ["crashtest"]


def crashtest(
    target: Annotated[
        str,
        typer.Argument(
            help="module:name of a consumer, or of a function that sends: it takes the client, `producer`, or nothing."
        ),
    ],
    message: Annotated[
        list[str] | None, typer.Option("--message", help="A payload for the consumer, as JSON. May be repeated.")
    ] = None,
    messages: Annotated[
        Path | None,
        typer.Option("--messages", help="A file with a payload in each line, as JSON.", exists=True, dir_okay=False),
    ] = None,
    setup: Annotated[
        list[str] | None,
        typer.Option("--setup", help="Makes your tables: FILE.sql, or module:function, which may take the client."),
    ] = None,
    database: Annotated[
        list[str] | None,
        typer.Option(
            "--database",
            help="A variable in which your code finds its second database: NAME, or NAME=postgresql+psycopg for a "
            "SQLAlchemy URL.",
        ),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file", help="A file that your code reads in its working directory.", exists=True, dir_okay=False
        ),
    ] = None,
    points: Annotated[int, typer.Option("--points", min=1, help="Try at most so many crash points.")] = 200,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="How many points to try at the same time.")] = 2,
    patience: Annotated[float, typer.Option("--patience", min=1, help="Seconds until a run counts as stuck.")] = 30.0,
    allow_doubled: Annotated[
        bool, typer.Option("--allow-doubled", help="Accept repeated effects, as effect='external' has them.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before a handler with effect='external' is called.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    dsn: Annotated[
        str | None,
        typer.Option(
            "--dsn",
            envvar="MQPG_CRASHTEST_DSN",
            help="A server whose user may create databases. Default: an embedded server.",
            show_default=False,
            callback=warn_of_password,
        ),
    ] = None,
) -> None:
    """Kill your handler or producer before and after every statement, and look what came of it.

    Your code runs on scratch databases, in a process that is killed at one point in each run. A
    fresh process resumes the work. Then nothing may be lost or doubled.

    Exit status: 0 if every point came out once, 1 if something was lost or doubled, 2 if the code
    could not be tried.
    """
    dsns.require_named(dsn, "--dsn")
    options = Options(
        target=target,
        dsn=None if dsn is None else dsns.to_libpq(dsn),
        setups=tuple(setup or ()),
        messages=(*_payloads(message or []), *_payloads(_lines(messages))),
        databases=dict(_variable(one) for one in database or ()),
        files=tuple(file or ()),
        points=points,
        jobs=jobs,
        patience=patience,
        modules=str(Path.cwd()),
    )
    try:
        with progress(f"crash test of {target}: two runs without a crash") as doing:

            def report(done: int, all_of_them: int) -> None:
                doing(f"crash test of {target}: {done} of {all_of_them} crash points")

            result = run(options, report, lambda about: None if yes else _ask(about, target))
    except (ConfigurationError, ConnectionFailed):
        raise
    except (Error, OSError) as error:
        # Not 1, which says that something was lost or doubled.
        say(f"mqpg: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        print_json(result)
    else:
        print_table(result)
    doubled = {Outcome.ONCE, Outcome.DOUBLED} >= {one.outcome for one in result.tried}
    raise typer.Exit(0 if allow_doubled and doubled else result.status)


def _payloads(texts: list[str]) -> list[str]:
    for text in texts:
        try:
            json.loads(text)
        except ValueError as error:
            raise ConfigurationError(f"a message must be JSON, not {text[:60]!r}: {error}") from None
    return texts


def _lines(path: Path | None) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()] if path else []


def _variable(text: str) -> tuple[str, str | None]:
    name, _, driver = text.partition("=")
    return name, driver or None


def _ask(about: dict[str, Any], target: str) -> None:
    """Ask before a handler is called whose effect no scratch database holds."""
    if about.get("where") != "external":
        return
    warning = f"{target} has effect='external': each of its runs really sends, calls or writes what it does outside"
    if not sys.stdin.isatty():
        raise CannotTry(f"{warning}. Let it work on something harmless, and give --yes")
    typer.confirm(f"{warning}. Try it?", abort=True, err=True)
