"""`mqpg status`: the state of the broker at a glance."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from functools import partial

import typer

from mqpg.cli.connecting import broker, rows
from mqpg.cli.options import Dsn, Json, print_rows, printable
from mqpg.status import Overview, advice, findings, read_overview
from mqpg.status.finding import Row

__all__ = ["print_status", "status"]

# The title of each part of the overview, and its columns.
_SECTIONS = {
    "workers": ("workers", "role alive active seen_seconds_ago"),
    "groups": (
        "consumer groups",
        "consumer_group topic mode lag claims oldest_unread_seconds dead_letters consumers paused",
    ),
    "half_messages": ("half messages", "producer_group pending overdue parked"),
    "pins": ("segments kept by unread messages", "consumer_group topic segments messages bytes seconds"),
    "blocked": ("segments held up", "table_name state seconds blocked_by"),
    "losses": ("losses within a day", "consumer_group topic why messages latest"),
}


def status(json: Json = False, dsn: Dsn = None) -> None:
    """Show workers, lags, half messages, dead letters and what is held up, and what to do about it.

    What needs attention stands below, the most urgent first, with the command that shows more. Exit
    status 1 where something does.
    """
    with broker(dsn) as mq:
        found = read_overview(partial(rows, mq))
    todo = findings(found)
    if json:
        said = {"attention": advice(found), "findings": [asdict(one) for one in todo]}
        typer.echo(json_module.dumps(asdict(found) | said, default=str, indent=2))
    else:
        print_status(found)
    if todo:
        raise typer.Exit(1)


def print_status(found: Overview) -> None:
    """Print an overview as tables, and what needs attention below them, the most urgent first.

    Args:
        found: The state of a broker.
    """
    todo = findings(found)
    one = found.broker
    typer.echo(f"broker {one['broker_id']}, incarnation {one['incarnation']}, mqpg {one['release']}")
    for name, (title, columns) in _SECTIONS.items():
        listed: list[Row] = getattr(found, name)
        if listed:
            typer.echo(f"\n{title}")
            print_rows(listed, columns.split(), as_json=False)
    typer.echo()
    for trouble in todo:
        typer.echo(f"! {printable(f'{trouble.found}: {trouble.remedy}')}")
        if trouble.look:
            typer.echo(f"    {printable(trouble.look)}")
    typer.echo("mqpg why explains all of it" if todo else "nothing needs attention")
