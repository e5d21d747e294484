"""`mqpg up` and `mqpg down`: the embedded server and its workers. The data stay on disk."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from mqpg.cli.options import JsonResult, print_result
from mqpg.embedded import Home
from mqpg.values.errors import ConfigurationError

__all__ = ["down", "up"]

Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="PATH",
        help="The folder of the data. Default: MQPG_HOME, or ./.mqpg.",
        show_default=False,
    ),
]


def up(
    data: Data = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="The TCP port. Default: the port that it had, or a free one. 0: any free one."
        ),
    ] = None,
    workers: Annotated[bool, typer.Option(help="Also run appender, compensator and keeper.")] = True,
    json: JsonResult = False,
) -> None:
    """Start the embedded PostgreSQL and the workers in the background. Prints the DSN.

    Says on stderr what it makes.
    """
    _say_the_steps()
    home = Home(_folder(data), port=port)
    dsn = home.up(workers=workers)
    print_result("up", dsn, as_json=json, dsn=dsn, data=str(home.directory), workers=workers)


def _folder(data: str | None) -> Path | None:
    """The folder. Raises ConfigurationError if it is empty, as where a variable of a script was not set."""
    if data is not None and not data.strip():
        raise ConfigurationError("--data is empty: name a folder, or leave it out")
    return None if data is None else Path(data)


def _say_the_steps() -> None:
    """A line on stderr for each step, because the first start takes a while."""
    steps = logging.getLogger("mqpg.embedded")
    if steps.handlers or steps.isEnabledFor(logging.INFO):  # -v shows them
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("mqpg: %(message)s"))
    steps.addHandler(handler)
    steps.setLevel(logging.INFO)
    steps.propagate = False


def down(
    data: Data = None,
    remove: Annotated[bool, typer.Option("--remove", help="Also delete the data.")] = False,
    json: JsonResult = False,
) -> None:
    """Stop the workers and the server of `mqpg up`. The data stay on disk."""
    home = Home(_folder(data))
    stopped = home.down(remove=remove)
    if not json:
        typer.echo(f"{'stopped' if stopped else 'nothing was running'}: {home.directory}", err=True)
    print_result("down", as_json=json, stopped=stopped, data=str(home.directory), removed=remove)
