"""The cells of the benchmark: what is measured, with how many clients, for how long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

__all__ = ["CELLS", "Cell", "Kind", "choose", "quick"]


class Kind(StrEnum):
    """What the clients of a cell do."""

    SEND = "send"  # producers only
    RECEIVE = "receive"  # consumers drain a backlog
    HALF = "half"  # half message and commit, or the nearest thing that the side has
    E2E = "e2e"  # producers and consumers at once


@dataclass(frozen=True)
class Cell:
    """One line of the result. `seconds` is the longest time for which a run of it is measured."""

    name: str
    title: str
    kind: Kind
    clients: int
    batch: int
    seconds: float
    receive: int = 0  # messages asked for by a receive of an end-to-end cell
    held: bool = False  # an old transaction holds xmin during the run
    # Receive and ack are in one transaction, like a consumer whose effects are in it too.
    together: bool = False
    singly: bool = False  # the backlog was sent one message at a time
    packed: bool = False  # the MNS scheme in one statement per transaction, not one per step
    sides: tuple[str, ...] = ("mqpg", "pgmq", "bare")

    @property
    def scripted(self) -> bool:
        """Whether a call has one message. Then pgbench is the client, not processes in Python."""
        return self.batch == 1


CELLS = (
    Cell("send-1", "send ×1, 16 clients", Kind.SEND, 16, 1, 5),
    Cell("send-1000", "send ×1000, 2 clients", Kind.SEND, 2, 1000, 3),
    Cell("receive-100", "receive+ack ×100, 2 clients", Kind.RECEIVE, 2, 100, 3),
    Cell(
        "receive-100-together",
        "the same in one transaction",
        Kind.RECEIVE,
        2,
        100,
        3,
        together=True,
        sides=("mqpg", "pgmq"),
    ),
    Cell(
        "receive-100-singly", "the same, sent one by one", Kind.RECEIVE, 2, 100, 3, singly=True, sides=("mqpg", "pgmq")
    ),
    Cell("receive-1000", "receive+ack ×1000, 2 clients", Kind.RECEIVE, 2, 1000, 3),
    Cell("half-1", "half+commit ×1, 16 clients", Kind.HALF, 16, 1, 5),
    Cell("half-1-packed", "the same, MNS in 2 statements", Kind.HALF, 16, 1, 5, packed=True, sides=("mqpg", "pgmq")),
    Cell("half-100", "half+commit ×100, 2 clients", Kind.HALF, 2, 100, 3),
    Cell("e2e-100", "end to end 2+2, send ×100, receive ×100", Kind.E2E, 2, 100, 30, 100),
    Cell("e2e", "end to end 2+2, send ×100, receive ×1000", Kind.E2E, 2, 100, 30, 1000),
    Cell("e2e-held", "end to end, xmin held", Kind.E2E, 2, 100, 30, 1000, held=True, sides=("mqpg", "pgmq")),
)


def choose(names: Iterable[str]) -> tuple[Cell, ...]:
    """The cells with these names, in the table's order; all cells where no name is given.

    Raises:
        ValueError: There is no cell of that name.
    """
    wanted = set(names)
    unknown = wanted - {cell.name for cell in CELLS}
    if unknown:
        known = ", ".join(cell.name for cell in CELLS)
        raise ValueError(f"unknown cell {', '.join(sorted(unknown))}; there are: {known}")
    return tuple(cell for cell in CELLS if not wanted or cell.name in wanted)


def quick(cell: Cell) -> Cell:
    """The same cell, measured for a shorter time."""
    return replace(cell, seconds=3 if cell.kind is Kind.E2E else 1)
