"""The command `python -m lab.demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.command import finish, interruptible, new_seed
from mqpg.cli import main

from .flights import ALL, JANUARY
from .run import run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def demo(
    flights: Annotated[int, typer.Option(min=1, max=ALL, help="Replay the first N flights of the file.")] = JANUARY,
    all_flights: Annotated[bool, typer.Option("--all", help=f"Replay all {ALL:,} flights.")] = False,
    seed: Annotated[int | None, typer.Option(help="Seed of the kills; random by default.")] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the audit's report as one HTML page.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the result page.")] = False,
) -> None:
    """Replay real flights as transactions under kills, and prove that nothing is lost or doubled.

    The exit status is 0 only if the audit's verdict is valid and the board equals the file in every
    cell.
    """
    with interruptible() as say:
        result = run(ALL if all_flights else flights, new_seed(seed), say, html)
    finish(result, 0 if result.ok else 1, as_json=as_json)


if __name__ == "__main__":
    main(app)
