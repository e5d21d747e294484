"""`python -m lab.silence`."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.command import finish, interruptible, new_seed
from mqpg.errors import Error

from .run import run

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def silence(
    times: Annotated[int, typer.Option(min=1, help="How often each fault is made.")] = 50,
    seed: Annotated[int | None, typer.Option(help="Seed of the order of the faults; random by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Kill, freeze and cut off the container that leads or holds a queue, and time the next delivery.

    It needs a Docker engine: make containers ARGS='python -m lab.silence'.

    Exit status: 0 all limits held and nothing was lost or doubled, 1 not so, 2 it could not be judged.
    """
    try:
        with interruptible() as say:
            result = run(times, new_seed(seed), say)
    except (Error, AssertionError) as error:
        typer.echo(f"mqpg: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(2) from None
    finish(result, 0 if result.holds else 1, as_json=as_json)


if __name__ == "__main__":
    app()
