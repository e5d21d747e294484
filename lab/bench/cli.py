"""The command `python -m lab.bench`."""

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
from mqpg.connection.dsn import require_named

from .cells import CELLS, Cell, choose, quick
from .machine import describe
from .page import Outcome
from .report import Failure, Run
from .run import run_all
from .server import Server
from .sides import SIDES

__all__ = ["app", "bench"]

app = typer.Typer(add_completion=False)

_ROUNDS, _QUICK_ROUNDS = 3, 1
_LIMIT, _QUICK_LIMIT = 900.0, 240.0  # seconds


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
        typer.Option(
            help="Names of cells, separated by commas, or all; default: "
            + " ".join(c.name for c in CELLS if not c.extra)
            + "; only when named: "
            + " ".join(c.name for c in CELLS if c.extra)
        ),
    ] = "",
    sides: Annotated[str, typer.Option(help="Sides to run, separated by commas.")] = ",".join(SIDES),
    rounds: Annotated[
        int | None, typer.Option(min=1, help="Interleaved rounds; default: 3, or 1 with --quick.")
    ] = None,
    quick_run: Annotated[bool, typer.Option("--quick", help="One round of short cells; four minutes at most.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    limit: Annotated[
        float | None, typer.Option(min=1, help="Begin no cell that would end after so many seconds; default: 900.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the JSON object to this file after every run, so that none is lost.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Also write the result to this file, as a Markdown page.")] = None,
) -> None:
    """Measure mqpg, pgmq, PgQ and a bare INSERT or SELECT side by side on one server.

    Print rates, latencies and ratios. A run that fails is named, and the others continue.
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
        runs: list[Run] = []
        failures: list[Failure] = []

        def outcome() -> Outcome:
            seconds = time.monotonic() - began
            return Outcome(machine, measured, runs, seconds, quick_run, server.major, server.missing, failures)

        def note(one: Run | Failure) -> None:
            log.print(_line(one), highlight=False, markup=False)
            (runs if isinstance(one, Run) else failures).append(one)  # type: ignore[arg-type]
            if save is not None:
                _save(save, outcome())

        there = [side for side in chosen[1] if side not in server.missing]
        if not run_all(server, measured, there, wanted, limit or (_QUICK_LIMIT if quick_run else _LIMIT), note):
            log.print("time is up: not all rounds were run", style="yellow")
        result = outcome()
    if page is not None:
        page.write_text(result.markdown(), encoding="utf-8")
    if as_json:
        print(json.dumps(result.as_dict(), ensure_ascii=False))
    else:
        result.show(Console())
    raise typer.Exit(1 if result.problems else 0)


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


def _save(path: Path, outcome: Outcome) -> None:
    """Write the result so that the file is never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(outcome.as_dict(), ensure_ascii=False), encoding="utf-8")
    new.replace(path)


def _line(one: Run | Failure) -> str:
    if isinstance(one, Failure):
        return f"round {one.round_no}  {one.cell:<20} {one.side:<5} FAILED: {one.error}"
    rest = "".join(f"; {name} {value:,.1f}" for name, value in one.measures.items())
    rest += "".join(f"; {problem}" for problem in one.problems)
    return f"round {one.round_no}  {one.cell:<20} {one.side:<5} {one.rate:>12,.0f} /s  ({one.seconds:.1f} s){rest}"
