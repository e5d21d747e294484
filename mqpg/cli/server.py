"""`mqpg up` and `mqpg down`: the embedded server and its workers. The data stay on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mqpg.embedded import Home

__all__ = ["down", "up"]

Data = Annotated[
    Path | None,
    typer.Option("--data", help="The folder of the data. Default: MQPG_HOME, or ./.mqpg.", show_default=False),
]


def up(
    data: Data = None,
    port: Annotated[
        int | None, typer.Option(help="The TCP port. Default: the port that it had, or a free one. 0: any free one.")
    ] = None,
    workers: Annotated[bool, typer.Option(help="Also run appender, compensator and keeper.")] = True,
) -> None:
    """Start the embedded PostgreSQL and the workers in the background. Prints the DSN."""
    typer.echo(Home(data, port=port).up(workers=workers))


def down(
    data: Data = None,
    remove: Annotated[bool, typer.Option("--remove", help="Also delete the data.")] = False,
) -> None:
    """Stop the workers and the server of `mqpg up`. The data stay on disk."""
    home = Home(data)
    stopped = home.down(remove=remove)
    typer.echo(f"{'stopped' if stopped else 'nothing was running'}: {home.directory}", err=True)
