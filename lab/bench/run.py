"""Runs the cells in interleaved rounds. A run that fails is noted, and the others continue."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import product

from .cells import Cell, Kind
from .crew import Crew
from .measure import run_cell
from .report import Failure, Run
from .server import Server

__all__ = ["clients_needed", "run_all"]

_SET_UP = 2.0  # seconds that a run takes beside the measured ones; an estimate until one was run


def clients_needed(cells: Sequence[Cell]) -> int:
    """How many processes the largest cell needs, including the one of the background."""
    both = (Kind.E2E, Kind.LATENCY)
    ours = [cell.clients * (2 if cell.kind in both else 1) for cell in cells if not cell.scripted]
    return max(ours, default=0) + 1


def run_all(
    server: Server,
    cells: Sequence[Cell],
    sides: Sequence[str],
    rounds: int,
    limit: float,
    progress: Callable[[Run | Failure], None],
) -> bool:
    """Run all cells `rounds` times, each on all its sides in turn, and report each run.

    It ends before a cell that would take it beyond `limit` seconds. A cell is run on all its sides
    or on none. As a consequence, the rounds are interleaved wherever the time is up.

    Returns:
        Whether all of them were run.
    """
    began = time.monotonic()
    took: dict[str, float] = {}  # the seconds that a cell took last on all its sides
    complete = True
    with Crew(clients_needed(cells)) as crew:
        for round_no, cell in product(range(1, rounds + 1), cells):
            if round_no > cell.rounds:
                continue
            cell_began = time.monotonic()
            chosen = [name for name in sides if name in cell.sides]
            expected = took.get(cell.name, len(chosen) * (cell.seconds + _SET_UP))
            if cell_began - began + expected > limit:
                complete = False
                continue
            for side in chosen:
                progress(_run(server, crew, cell, side, round_no))
            took[cell.name] = time.monotonic() - cell_began
    return complete


def _run(server: Server, crew: Crew, cell: Cell, side: str, round_no: int) -> Run | Failure:
    try:
        return run_cell(server, crew, cell, side, round_no)
    except Exception as error:  # whatever it was, the other cells are worth measuring
        crew.restart()
        return Failure(cell.name, side, round_no, f"{type(error).__name__}: {error}".strip())
