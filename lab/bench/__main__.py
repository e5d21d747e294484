"""The command `python -m lab.bench`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from lab.command import finish
from mqpg.cli import main
from mqpg.embedded import EmbeddedServer

from .cells import CELLS, choose, quick
from .measure import run_all
from .report import Failure, Outcome, Run
from .server import SETTINGS, Server
from .sides import SIDES

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_ROUNDS, _QUICK_ROUNDS = 3, 1
_LIMIT, _QUICK_LIMIT = 900.0, 240.0  # seconds
_ALWAYS, _NAMED = (" ".join(c.name for c in CELLS if c.extra is extra) for extra in (False, True))


@app.command()
def bench(
    cells: Annotated[
        str, typer.Option(help=f"Names of cells, with commas, or all; default: {_ALWAYS}; only when named: {_NAMED}")
    ] = "",
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Interleaved rounds; default: 3, or 1 with --quick.")
    ] = None,
    quick_run: Annotated[bool, typer.Option("--quick", help="One round of short cells; four minutes at most.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    limit: Annotated[
        float | None, typer.Option(min=1, help="Begin no cell that would end after so many seconds; default: 900.")
    ] = None,
) -> None:
    """Measure mqpg, pgmq, PgQ and a bare INSERT or SELECT side by side on one embedded server.

    Print rates, latencies and ratios. A run that fails is named, and the others continue.
    """
    try:
        measured = [quick(cell) if quick_run else cell for cell in choose(filter(None, cells.split(",")))]
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--cells") from None
    began = time.monotonic()
    with EmbeddedServer(settings=SETTINGS) as embedded, Server(embedded.dsn()) as server:
        result = Outcome(server.describe(), measured, quick_run, server.major, server.missing)

        def note(one: Run | Failure) -> None:
            typer.echo(_line(one), err=True)
            result.add(one, time.monotonic() - began)

        there = [side for side in SIDES if side not in server.missing]
        times = rounds or (_QUICK_ROUNDS if quick_run else _ROUNDS)
        if not run_all(server, measured, there, times, limit or (_QUICK_LIMIT if quick_run else _LIMIT), note):
            typer.echo("time is up: not all rounds were run", err=True)
    finish(result, 1 if result.problems else 0, as_json=as_json)


def _line(one: Run | Failure) -> str:
    if isinstance(one, Failure):
        return f"round {one.round_no}  {one.cell:<20} {one.side:<5} FAILED: {one.error}"
    rest = "".join(f"; {name} {value:,.1f}" for name, value in one.measures.items())
    rest += "".join(f"; {problem}" for problem in one.problems)
    return f"round {one.round_no}  {one.cell:<20} {one.side:<5} {one.rate:>12,.0f} /s  ({one.seconds:.1f} s){rest}"


if __name__ == "__main__":
    main(app)
