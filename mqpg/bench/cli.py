"""The command: `mqpg bench`, `python -m mqpg.bench`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mqpg.cli.passwords import warn_of_password
from mqpg.dsn import require_named

from .cells import CELLS, Cell, choose, quick
from .machine import describe
from .page import Outcome
from .report import Run
from .run import run_all
from .server import Server
from .sides import SIDES

__all__ = ["app", "bench"]

app = typer.Typer(add_completion=False)

_ROUNDS, _QUICK_ROUNDS = 3, 2
_LIMIT, _QUICK_LIMIT = 900.0, 120.0  # seconds


@app.command()
def bench(
    dsn: Annotated[
        str | None,
        typer.Option(
            help="An existing server, as a role that may create databases; default: MQPG_DATABASE_URL, else embedded.",
            callback=warn_of_password,
        ),
    ] = None,
    cells: Annotated[
        str,
        typer.Option(help="Names of cells, separated by commas; default: all of " + " ".join(c.name for c in CELLS)),
    ] = "",
    sides: Annotated[str, typer.Option(help="Sides to run, separated by commas.")] = ",".join(SIDES),
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Interleaved rounds; default: 3, or 2 with --quick.")
    ] = None,
    quick_run: Annotated[
        bool, typer.Option("--quick", help="Measure each cell for a shorter time; two minutes at most.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    page: Annotated[Path | None, typer.Option(help="Also write the result to this file, as a Markdown page.")] = None,
) -> None:
    """Measure mqpg, pgmq and a bare INSERT or SELECT side by side on one server.

    Print rates and ratios.
    """
    chosen = _chosen(cells, sides)
    measured = [quick(cell) if quick_run else cell for cell in chosen[0]]
    wanted = rounds or (_QUICK_ROUNDS if quick_run else _ROUNDS)
    log = Console(stderr=True)
    wanted_dsn = os.environ.get("MQPG_DATABASE_URL") if dsn is None else dsn
    require_named(wanted_dsn, "MQPG_DATABASE_URL" if dsn is None else "--dsn")
    with _server(wanted_dsn, chosen[1]) as server:
        machine = describe(server)
        began = time.monotonic()
        runs = run_all(
            server,
            measured,
            chosen[1],
            wanted,
            _QUICK_LIMIT if quick_run else _LIMIT,
            lambda run: log.print(_line(run), highlight=False),
        )
        if len(runs) < sum(len(set(cell.sides) & set(chosen[1])) for cell in measured) * wanted:
            log.print("time is up: the last round is not complete", style="yellow")
        outcome = Outcome(machine, measured, runs, time.monotonic() - began, quick_run)
    if page is not None:
        page.write_text(outcome.markdown(), encoding="utf-8")
    if as_json:
        print(json.dumps(outcome.as_dict(), ensure_ascii=False))
    else:
        outcome.show(Console())
    raise typer.Exit(1 if outcome.problems else 0)


def _chosen(cells: str, sides: str) -> tuple[list[Cell], list[str]]:
    try:
        found = choose(name.strip() for name in cells.split(",") if name.strip())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--cells") from None
    names = [name.strip() for name in sides.split(",")]
    if not set(names) <= set(SIDES):
        raise typer.BadParameter(f"must be among {', '.join(SIDES)}", param_hint="--sides")
    return list(found), names


@contextmanager
def _server(dsn: str | None, sides: list[str]) -> Iterator[Server]:
    if dsn is not None:
        with Server(dsn, sides) as server:
            yield server
        return
    from mqpg.embedded import EmbeddedServer

    with EmbeddedServer(settings=_SETTINGS) as embedded, Server(embedded.dsn(), sides) as server:
        yield server


# As a server is configured for load. Everything else keeps PostgreSQL's default, above all fsync
# and synchronous_commit.
_SETTINGS = {"max_wal_size": "8GB", "checkpoint_timeout": "30min", "autovacuum_naptime": "5s", "shared_buffers": "1GB"}


def _line(run: Run) -> str:
    problems = "".join(f"; {problem}" for problem in run.problems)
    return f"round {run.round_no}  {run.cell:<13} {run.side:<5} {run.rate:>12,.0f} /s  ({run.seconds:.1f} s){problems}"
