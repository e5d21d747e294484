"""`mqpg ledger …`: the table of a producer's transactions, in its own database."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import Annotated

import typer

import mqpg
from mqpg.cli.options import JsonResult, print_result, warn_of_password
from mqpg.connection.settings import ledger_url, ledger_variable, split_urls
from mqpg.values.errors import ConfigurationError
from mqpg.values.words import counted

__all__ = ["app", "urls_of"]

app = typer.Typer(help="Create and purge ledgers in the databases of producers.", no_args_is_help=True)

Ledger = Annotated[
    str,
    typer.Argument(
        help="A SQLAlchemy URL, or the NAME of a variable MQPG_LEDGER_<NAME>, which may have several.",
        callback=warn_of_password,
    ),
]


def urls_of(ledger: str, option: str) -> list[str]:
    """The URLs that are given, or that a variable has. Raises ConfigurationError."""
    url = ledger if "://" in ledger else ledger_url(ledger)
    if url is None:
        raise ConfigurationError(f"{option} {ledger}: the variable {ledger_variable(ledger)} is not set")
    return split_urls(url)


@app.command()
def create(
    ledger: Ledger,
    keep_messages: Annotated[
        bool, typer.Option("--keep-messages", help="Also create what producers with keep_messages need.")
    ] = False,
    json: JsonResult = False,
) -> None:
    """Create the table mqpg_ledger if it is missing, and upgrade one of an earlier release."""
    places = []
    for url in urls_of(ledger, "ledger"):
        with closing(mqpg.Ledger(url)) as one:
            one.create(keep_messages=keep_messages, identify=True)
            places.append(one.database.describe())
    print_result("create_ledger", f"there is a ledger in {', '.join(places)}", as_json=json, databases=places)


@app.command()
def purge(
    ledger: Ledger,
    days: Annotated[float, typer.Option(min=0, max=36500, help="How long ago rows must have been marked done.")] = 1.0,
    json: JsonResult = False,
) -> None:
    """Delete ledger rows whose decisions the broker has, and the messages that are kept with them.

    Rows of processes that died are marked by the recovery of a producer only. Keep rows for longer
    than a standby of the broker may lag behind.
    """
    places, rows = [], 0
    for url in urls_of(ledger, "ledger"):
        with closing(mqpg.Ledger(url)) as one:
            one.verify()
            rows += one.purge(timedelta(days=days))
            places.append(one.database.describe())
    said = f"deleted {counted(rows, 'row')} of the ledger in {', '.join(places)}"
    print_result("purge_ledger", said, as_json=json, databases=places, rows=rows)
