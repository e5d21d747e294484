"""Options that many commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

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
        typer.echo(json.dumps([dict(row) for row in rows], default=str, ensure_ascii=False, indent=2))
        return
    table = Table(*(Column(column, overflow="fold") for column in columns))
    for row in rows:
        table.add_row(*("" if row[column] is None else str(row[column]) for column in columns))
    Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH).print(table)
