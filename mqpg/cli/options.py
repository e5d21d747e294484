"""Options that many commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

__all__ = ["Dsn", "Json", "print_rows"]

Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        help="The broker's database; default: MQPG_DATABASE_URL, DATABASE_URL, PG*, mqpg up (started if need be).",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_PIPED_WIDTH = 200


def print_rows(rows: Iterable[Mapping[str, Any]], columns: list[str], *, as_json: bool) -> None:
    """A listing on stdout: a table, or a JSON array of objects."""
    if as_json:
        typer.echo(json.dumps([dict(row) for row in rows], default=str, ensure_ascii=False, indent=2))
        return
    table = Table(*(Column(column, overflow="fold") for column in columns))
    for row in rows:
        table.add_row(*("" if row[column] is None else str(row[column]) for column in columns))
    Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH).print(table)
