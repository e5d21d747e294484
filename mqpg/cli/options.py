"""Options that many commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mqpg.cli.completion import complete_group, complete_topic
from mqpg.cli.sentences import sentence
from mqpg.values.words import printable

if TYPE_CHECKING:
    from rich.text import Text

__all__ = [
    "Dsn",
    "Filter",
    "Group",
    "Json",
    "JsonResult",
    "Topic",
    "Yes",
    "confirm",
    "print_json",
    "print_result",
    "print_rows",
    "printable",
    "say",
    "warn_of_password",
]


def warn_of_password(context: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """Callback of an option that takes DSNs or URLs: warn in one line on stderr of a password.

    The value is one of them, several, or None. Each may have a name in front, as in name=url.
    """
    source = context.get_parameter_source(param.name or "")
    if source is not None and source.name == "COMMANDLINE":
        from mqpg.connection.dsn import has_password

        given: Sequence[str] = [value] if isinstance(value, str) else value or ()
        if any(has_password(one) for one in given):
            typer.echo(
                f"mqpg: warning: everyone on this machine can read the password of {param.opts[0]} in the list of "
                "processes: give it by MQPG_DATABASE_URL or MQPG_LEDGER_<NAME>, a service file (PGSERVICE) "
                "or a passfile (PGPASSFILE)",
                err=True,
            )
    return value


Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        help="The broker's database. Default: MQPG_DATABASE_URL, DATABASE_URL, the PG* variables, or the server that "
        "`mqpg up` runs in this folder.",
        show_default=False,
        callback=warn_of_password,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
JsonResult = Annotated[bool, typer.Option("--json", help="Print a JSON object that says what was done.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Group = Annotated[str, typer.Argument(metavar="group", help="Consumer group.", autocompletion=complete_group)]
Topic = Annotated[str, typer.Argument(help="Topic.", autocompletion=complete_topic)]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter", help='Only messages with such a payload: a jsonpath predicate, for instance "$.amount > 10".'
    ),
]

_PIPED_WIDTH, _ANY_WIDTH = 200, 100_000


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal before something that cannot be taken back. Raises Abort if the answer is no."""
    if not yes and sys.stdin.isatty():
        typer.confirm(question, abort=True, err=True)


def print_rows(rows: Iterable[Mapping[str, Any]], columns: list[str], *, as_json: bool) -> None:
    """Print these columns as a table, or the whole rows as a JSON array of objects.

    On a terminal that is too narrow for the table, each row is a block with a line for each column.
    """
    if as_json:
        print_json([dict(row) for row in rows])
        return
    from rich.console import Console  # workers and consumers, which run all day, print no table
    from rich.measure import Measurement
    from rich.table import Column, Table

    listed = list(rows)
    table = Table(*(Column(column, overflow="fold") for column in columns))
    for row in listed:
        table.add_row(*(_cell(row[column]) for column in columns))
    console = Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH)
    widths = Measurement.get(console, console.options.update(max_width=_ANY_WIDTH), table)
    if sys.stdout.isatty() and listed and widths.minimum > console.width:
        _print_blocks(listed, columns)
    else:
        console.print(table)


def _print_blocks(rows: Iterable[Mapping[str, Any]], columns: list[str]) -> None:
    """Print a line for each value, so that no name or handle is cut in two, and a blank line after each row."""
    longest = max(map(len, columns))
    for row in rows:
        for column in columns:
            if row[column] is not None:
                typer.echo(f"{column:<{longest}}  {printable(str(row[column]))}")
        typer.echo()


def print_result(action: str, /, text: object = None, *, as_json: bool, **facts: Any) -> None:
    """Say what a command has done: `text`, or else the sentence about this action.

    With `as_json` it is one object with the action and the facts. Those that are None are left out.
    """
    if as_json:
        print_json({"action": action} | {name: fact for name, fact in facts.items() if fact is not None})
    elif (line := sentence(action, facts) if text is None else text) is not None:
        say(line)


def say(text: object, *, err: bool = False) -> None:
    """Print lines. Control characters in them are made visible."""
    typer.echo("\n".join(map(printable, str(text).split("\n"))), err=err)


def print_json(value: object) -> None:
    """Print a value as JSON on many lines, in letters that standard output has."""
    from mqpg.values.json_output import dumps

    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = dumps(value, ascii_only=not utf8, indent=2)
    # JSON writes a surrogate without a partner as Python writes it.
    typer.echo(text.encode("utf-8", "backslashreplace").decode())


def _cell(value: object) -> Text:
    """The value as plain text, in which brackets are no markup."""
    from rich.text import Text

    return Text("" if value is None else printable(str(value)))
