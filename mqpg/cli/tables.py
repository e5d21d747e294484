"""`mqpg tables …`: the tables of mqpg in users' databases."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import typer

__all__ = ["app"]

app = typer.Typer(help="Print the tables that mqpg has in your databases.", no_args_is_help=True)


class Family(StrEnum):
    """Tables that are created together."""

    LEDGER = "ledger"
    LEDGER_MESSAGE = "ledger_message"
    OUTBOX = "outbox"
    CONSUMER = "consumer"
    PREPARED = "prepared"


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
    from sqlalchemy import create_mock_engine

    from mqpg.tables import metadata
    from mqpg.user_tables.upgrades import identify

    def write(statement: Any, *_: Any) -> None:
        typer.echo(str(statement.compile(dialect=engine.dialect)).strip().replace("\t", "    ") + ";\n")

    engine = create_mock_engine(f"{dialect}://", write)
    chosen = metadata(schema=schema, **dict.fromkeys(tables or (), True))
    chosen.create_all(engine, checkfirst=False)
    for table in chosen.sorted_tables if dialect == "postgresql" else ():
        if not table.primary_key.columns:
            typer.echo(identify(engine.dialect.identifier_preparer.format_table(table)) + ";")
