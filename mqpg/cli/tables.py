"""`mqpg tables …`: the tables of mqpg in users' databases."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import typer

__all__ = ["app"]

app = typer.Typer(help="Print the tables that mqpg has in your databases.", no_args_is_help=True)

# What is created together.
Family = StrEnum("Family", ["ledger", "ledger_message", "outbox", "consumer", "prepared"])


@app.callback()
def _group() -> None:
    """Print the tables that mqpg has in your databases."""


@app.command()
def sql(
    tables: Annotated[list[Family] | None, typer.Argument(help="Which tables. Default: all.")] = None,
    dialect: Annotated[
        Literal["postgresql", "sqlite", "mysql", "mariadb"], typer.Option(help="The kind of database.")
    ] = "postgresql",
    schema: Annotated[str | None, typer.Option(help="The schema of the tables (MySQL: the database).")] = None,
) -> None:
    """Print the statements that create tables, for whoever may create them.

    The library then works on them with create_tables=False.
    """
    from mqpg.tables import metadata
    from mqpg.user_tables.printed_ddl import ddl

    for statement in ddl(metadata(schema=schema, **dict.fromkeys(tables or (), True)), dialect):
        typer.echo(f"{statement};\n")
