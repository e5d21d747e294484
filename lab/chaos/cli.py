"""The command `python -m lab.chaos`."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Console

from mqpg.cli.stop_signals import sigterm_as_ctrl_c
from mqpg.errors import ConfigurationError, Error

from .options import ENGINES, Options
from .page import show
from .result import EXIT_STATUS
from .run import run
from .schedule import KINDS, Kind

__all__ = ["app", "chaos"]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_SHORT_ROUNDS, _SHORT_INTERVAL = 12, 8.0


@app.command()
def chaos(
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds.")] = 100,
    interval: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="The least time from one strike to the next one.")
    ] = 10.0,
    seed: Annotated[int | None, typer.Option(help="Seed of the schedule; random by default.")] = None,
    short: Annotated[
        bool, typer.Option("--short", help="12 rounds that kill all ten nodes, instead of --rounds and --interval.")
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="Begin no round after so long.", show_default=False)
    ] = None,
    faults: Annotated[
        str, typer.Option(metavar="KIND,…", help=f"The kinds of fault, which take turns: {', '.join(KINDS)}.")
    ] = "kill",
    rate: Annotated[
        float, typer.Option(min=1, help="Messages per second of all producers together, where the machine can.")
    ] = 300.0,
    down: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long a node that was killed stays down.")
    ] = 1.0,
    engines: Annotated[
        str, typer.Option(metavar="ENGINE,…", help="The engines of the audit in the end: sql, spark (needs Java).")
    ] = "sql,spark",
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Also write the audit's page of broker-1, with the strikes; that of broker-2 goes beside it.",
            show_default=False,
            dir_okay=False,
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the data and the logs, and print where they are.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the result page.")] = False,
) -> None:
    """Kill ten nodes in many rounds while all protocols run, then compare every id and audit.

    Four producers, four consumers and two brokers are process groups on embedded servers.

    Exit status: 0 valid, 1 a proven fault, 2 it could not be judged, or wrong usage.
    """
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    stderr = Console(stderr=True, highlight=False)
    try:
        options = Options(
            rounds=_SHORT_ROUNDS if short else rounds,
            interval=_SHORT_INTERVAL if short else interval,
            seed=seed,
            minutes=minutes,
            rate=rate,
            down=down,
            all_at_once=short,
            faults=cast("tuple[Kind, ...]", _words("--faults", faults, KINDS)),
            engines=_words("--engines", engines, ENGINES),
            page=report.absolute() if report else None,
            keep=keep,
        )
        with sigterm_as_ctrl_c():
            result = run(options, stderr.print)
    except KeyboardInterrupt:
        stderr.print("interrupted: all processes were stopped" + ("" if keep else ", all data removed"))
        raise typer.Exit(130) from None
    except Error as error:
        # Status 1 always means a proven fault.
        stderr.print(f"mqpg: {' '.join(str(error).split())}", markup=False)
        raise typer.Exit(2) from None
    if as_json:
        sys.stdout.write(json.dumps(result.as_json(), indent=2, default=str) + "\n")
    else:
        show(result, Console())
    raise typer.Exit(EXIT_STATUS[result.verdict])


def _words(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    if unknown := [word for word in words if word not in known]:
        raise ConfigurationError(f"{option}: {unknown[0]!r} is none of {', '.join(known)}")
    return words
