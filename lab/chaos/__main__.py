"""The command `python -m lab.chaos`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from lab.command import finish, interruptible, new_seed
from mqpg.cli import main
from mqpg.errors import ConfigurationError, Error

from .names import NODES, WORKERS
from .result import EXIT_STATUS
from .run import run
from .schedule import CUTS, ENGINES, IN_CONTAINERS, KINDS, PLACES, SPREADS, Kind, Options, Place, Spread

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

_SHORT_ROUNDS, _SHORT_INTERVAL = 12, 8.0


@app.command()
def chaos(
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds.")] = 100,
    interval: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="The least time from one fault to the next one.")
    ] = 10.0,
    seed: Annotated[int | None, typer.Option(help="Seed of the schedule; random by default.")] = None,
    short: Annotated[
        bool, typer.Option("--short", help="12 rounds that kill all ten nodes, instead of --rounds and --interval.")
    ] = False,
    spread: Annotated[
        str,
        typer.Option(
            metavar="|".join(SPREADS),
            help="How many nodes a round hits: each number from 1 to 10 equally often, or one in nine of ten rounds, "
            "or all ten.",
        ),
    ] = "even",
    faults: Annotated[
        str, typer.Option(metavar="KIND,…", help=f"The kinds of fault, which take turns: {', '.join(KINDS)}.")
    ] = "kill",
    nodes: Annotated[
        str,
        typer.Option(
            metavar="|".join(PLACES),
            help="What the nodes are. Containers have addresses of their own, two more workers for each broker, and "
            f"the faults {', '.join(IN_CONTAINERS)}.",
        ),
    ] = "processes",
    rate: Annotated[
        float, typer.Option(min=1, help="Messages per second of all producers together, if the machine can.")
    ] = 300.0,
    engines: Annotated[
        str, typer.Option(metavar="ENGINE,…", help="The engines of the audit in the end: sql, spark (needs Java).")
    ] = "sql,spark",
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Also write the audit's page of broker-1, with the faults; that of broker-2 goes beside it.",
        ),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave data and logs, and print where they are.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the result page.")] = False,
) -> None:
    """Kill ten nodes in many rounds while all protocols run, then compare every id and audit.

    Four producers, four consumers and two brokers are process groups, each with an embedded server that is killed with
    it. The producers are of one group, and the consumers too.

    Exit status: 0 valid, 1 a proven fault, 2 it could not be judged, or wrong usage.
    """
    try:
        options = Options(
            rounds=_SHORT_ROUNDS if short else rounds,
            interval=_SHORT_INTERVAL if short else interval,
            seed=new_seed(seed),
            rate=rate,
            spread="all" if short else cast("Spread", _words("--spread", spread, SPREADS)[0]),
            faults=cast("tuple[Kind, ...]", _words("--faults", faults, _kinds(nodes))),
            place=(place := cast("Place", _words("--nodes", nodes, PLACES)[0])),
            among=(*NODES, *WORKERS) if place == "containers" else NODES,
            engines=_words("--engines", engines, ENGINES),
            page=report.absolute() if report else None,
            keep=keep,
        )
        with interruptible() as say:
            result = run(options, say)
    except Error as error:
        # Status 1 always means a proven fault.
        typer.echo(f"mqpg: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(2) from None
    finish(result, EXIT_STATUS[result.verdict], as_json=as_json)


def _kinds(nodes: str) -> tuple[str, ...]:
    """The kinds of fault of these nodes."""
    return IN_CONTAINERS if nodes == "containers" else tuple(kind for kind in KINDS if kind not in CUTS)


def _words(option: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    if unknown := [word for word in words if word not in known]:
        raise ConfigurationError(f"{option}: {unknown[0]!r} is none of {', '.join(known)}")
    return words


if __name__ == "__main__":
    main(app)
