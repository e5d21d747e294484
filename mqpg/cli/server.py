"""`mqpg up` and `mqpg down`: the embedded server with the workers, data kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mqpg.embedded import Home

__all__ = ["down", "up"]

Data = Annotated[
    Path | None,
    typer.Option("--data", help="Folder of the data; default: MQPG_HOME, else ./.mqpg.", show_default=False),
]


def up(
    data: Data = None,
    port: Annotated[int | None, typer.Option(help="TCP port; default: where it runs, else a free one.")] = None,
    workers: Annotated[bool, typer.Option(help="Run appender, compensator and keeper too.")] = True,
) -> None:
    """Start the embedded PostgreSQL and the workers in the background; prints the DSN."""
    typer.echo(Home(data, port=port).up(workers=workers))


def down(
    data: Data = None,
    remove: Annotated[bool, typer.Option("--remove", help="Delete the data too, wherever they lie.")] = False,
) -> None:
    """Stop workers and server of `mqpg up`; the data stay."""
    home = Home(data)
    stopped = home.down(remove=remove)
    typer.echo(f"{'stopped' if stopped else 'nothing was running'}: {home.directory}", err=True)
