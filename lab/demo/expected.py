"""What the board must show, computed directly from the file, and the comparison cell by cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .flights import Flight

__all__ = ["Board", "Cell", "Mismatch", "compare", "expected_board"]


@dataclass(frozen=True, slots=True)
class Cell:
    """Departures, and the sum of their delays in minutes.

    A departure ahead of time is a negative delay.
    """

    departures: int
    delay: int


Board = dict[tuple[str, str], Cell]  # (origin, ISO day) -> cell


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A cell that differs. None means that one side has no such row."""

    origin: str
    day: str
    expected: Cell | None
    shown: Cell | None


def expected_board(flights: Iterable[Flight]) -> Board:
    """Add up all flights that departed."""
    board: Board = {}
    for flight in flights:
        if flight.delay is None:
            continue
        place = (flight.origin, flight.day)
        old = board.get(place, Cell(0, 0))
        board[place] = Cell(old.departures + 1, old.delay + flight.delay)
    return board


def compare(expected: Board, shown: Board) -> list[Mismatch]:
    """The cells that differ, in order of origin and day.

    An empty list means that every cell is equal.
    """
    places = sorted(expected.keys() | shown.keys())
    pairs = ((place, expected.get(place), shown.get(place)) for place in places)
    return [Mismatch(*place, left, right) for place, left, right in pairs if left != right]
