"""`make bench-rocketmq`: mqpg beside RocketMQ's send, transactional message, end to end and latency."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from lab.processes import LabError

from .brokers import Brokers, class_path

__all__ = ["app"]

# Consumers come first, while there is no backlog, and transactions last: RocketMQ's thread for decisions spins from
# the first of them on.
_CELLS = (
    ("latency", 1),
    ("end-to-end", 8),
    ("send", 16),
    ("send", 64),
    ("send-100", 2),
    ("transaction-one-database", 16),
    ("transaction-one-database", 64),
    ("transaction", 16),
    ("transaction", 64),
    ("transaction-background", 16),
    ("transaction-background", 64),
    ("half-commit", 16),
    ("half-commit", 64),
)
_SIDES = ("mqpg", "rocketmq")


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the medians count.")] = 4,
    seconds: Annotated[float, typer.Option(min=1, help="Measured seconds of each run.")] = 5.0,
    cells: Annotated[str, typer.Option(help="Names of cells, separated by commas; default: all.")] = "",
) -> None:
    """Measure both in turns on this machine. Each round begins with fresh brokers."""
    console = Console(stderr=True, highlight=False, markup=False)
    chosen = [cell for cell in _CELLS if not cells or cell[0] in cells.split(",")]
    rates: dict[tuple[str, int, str], list[list[float]]] = defaultdict(list)
    try:
        classes = class_path(Path(".bench/rocketmq").absolute())
        for number in range(1, rounds + 1):
            with tempfile.TemporaryDirectory() as folder, Brokers.running(classes, Path(folder)) as brokers:
                for cell, clients in chosen:
                    for side in _SIDES:
                        count, measured, *waits = brokers.run(side, cell, clients, seconds)
                        rates[cell, clients, side].append([count / measured, *waits])
                        console.print(f"round {number}  {cell:<25} {clients:>3} {side:<9} {count / measured:>9,.0f} /s")
    except LabError as error:
        console.print(f"error: {error}")
        raise typer.Exit(1) from None
    _show(rates)


def _show(rates: dict[tuple[str, int, str], list[list[float]]]) -> None:
    table = Table("cell", "clients", "mqpg /s", "RocketMQ /s", "mqpg / RocketMQ", "p50, p99 ms: mqpg", "RocketMQ")
    for cell, clients in dict.fromkeys(key[:2] for key in rates):
        ours, theirs = ([median(column) for column in zip(*rates[cell, clients, side], strict=True)] for side in _SIDES)
        waits = [", ".join(f"{value:.1f}" for value in one[1:]) for one in (ours, theirs)]
        table.add_row(
            cell, str(clients), f"{ours[0]:,.0f}", f"{theirs[0]:,.0f}", f"{ours[0] / theirs[0]:.2f}", *waits
        )  # fmt: skip
    Console().print(table)


if __name__ == "__main__":
    app()
