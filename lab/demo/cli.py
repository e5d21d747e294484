"""The command `python -m lab.demo`."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mqpg.cli.passwords import warn_of_password
from mqpg.cli.stop_signals import sigterm_as_ctrl_c
from mqpg.connection.dsn import require_named

from .flights import ALL, JANUARY
from .orchestrate import Options, run
from .page import show
from .progress import Progress

__all__ = ["app", "demo"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def demo(
    flights: Annotated[int, typer.Option(min=1, max=ALL, help="Replay the first N flights of the file.")] = JANUARY,
    all_flights: Annotated[bool, typer.Option("--all", help=f"Replay all {ALL:,} flights.")] = False,
    seed: Annotated[int | None, typer.Option(help="Seed of the kills; random by default.")] = None,
    chaos: Annotated[bool, typer.Option("--chaos/--no-chaos", help="Kill processes and restart PostgreSQL.")] = True,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the databases and logs, and print where they are.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write the audit's report as one HTML page.", show_default=False, dir_okay=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the result page.")] = False,
    dsn: Annotated[
        str | None,
        typer.Option(
            envvar=["MQPG_DATABASE_URL", "DATABASE_URL"],
            show_envvar=True,
            help="An existing server instead of an embedded one; the demo creates three databases there.",
            callback=warn_of_password,
        ),
    ] = None,
) -> None:
    """Replay real flights as transactions under kills, and prove that nothing is lost or doubled.

    The exit status is 0 only if the audit's verdict is valid and the board equals the file in every
    cell.
    """
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    require_named(dsn, "--dsn")
    options = Options(ALL if all_flights else flights, seed, chaos=chaos, keep=keep, dsn=dsn, page=html)
    stderr = Console(stderr=True)
    try:
        with sigterm_as_ctrl_c(), Progress(stderr, quiet=as_json) as progress:
            result = run(options, progress)
    except KeyboardInterrupt:
        stderr.print("interrupted: all processes were stopped" + ("" if keep else ", all databases dropped"))
        raise typer.Exit(130) from None
    if as_json:
        sys.stdout.write(json.dumps(result.as_json(), indent=2) + "\n")
    else:
        show(result, Console())
    raise typer.Exit(0 if result.ok else 1)
