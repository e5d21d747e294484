"""Options that many commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from mqpg.cli.passwords import warn_of_password

__all__ = ["Dsn", "Filter", "Group", "Json", "Topic", "print_rows"]

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
Group = Annotated[str, typer.Argument(help="Consumer group.")]
Topic = Annotated[str, typer.Argument(help="Topic.")]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter", help='Only messages with such a payload: a jsonpath predicate, for instance "$.amount > 10".'
    ),
]

_PIPED_WIDTH = 200


def print_rows(rows: Iterable[Mapping[str, Any]], columns: list[str], *, as_json: bool) -> None:
    """Print a listing on stdout.

    Args:
        rows: The rows.
        columns: The columns of the table, in this order.
        as_json: Print a JSON array of objects instead of a table.
    """
    if as_json:
        utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        text = json.dumps([dict(row) for row in rows], default=str, ensure_ascii=not utf8, indent=2)
        # JSON writes a surrogate without a partner as Python writes it.
        typer.echo(text.encode("utf-8", "backslashreplace").decode())
        return
    table = Table(*(Column(column, overflow="fold") for column in columns))
    for row in rows:
        table.add_row(*(_cell(row[column]) for column in columns))
    Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH).print(table)


def _cell(value: object) -> Text:
    """The value as plain text, in which brackets are no markup and control characters show."""
    text = "" if value is None else str(value)
    return Text("".join(one if one.isprintable() else ascii(one)[1:-1] for one in text))
