"""The producer process on real databases: killed anywhere, it continues where it stood."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event

import psycopg
import pytest
from sqlalchemy import Engine, create_engine

import mqpg
from lab.audits import sqlalchemy_url
from lab.demo.airline import Airline
from lab.demo.flights import Flight, read_flights
from lab.demo.tables import LEDGER_URL, PRODUCER_GROUP, TOPIC, airline_metadata


@dataclass(frozen=True)
class Place:
    """A broker and an airline's database, both ready."""

    broker: str
    airline: str
    mq: mqpg.Client
    engine: Engine

    def numbers(self, table: str) -> list[int]:
        with psycopg.connect(self.airline) as conn:
            return [row[0] for row in conn.execute(f"select number from {table} order by number".encode())]

    def decided(self, op: str) -> int:
        with psycopg.connect(self.broker) as conn:
            row = conn.execute("select count(*) from mqpg.op_log where stage = 0 and op = %s", [op]).fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture
def place(dsn: str, new_database: Callable[..., str]) -> Iterator[Place]:
    airline = new_database(empty=True)
    engine = create_engine(sqlalchemy_url(airline))
    airline_metadata.create_all(engine)
    mqpg.Ledger(engine).create()
    with mqpg.connect(dsn) as mq:
        mq.create_topic(TOPIC, queues=8)
        mq.create_producer_group(PRODUCER_GROUP, check_after="1 s", checker="url", checker_target="airline")
        yield Place(dsn, airline, mq, engine)
    engine.dispose()


def flight(number: int, delay: int | None = 3) -> Flight:
    return Flight(number, "2013-01-01", "UA", 1, "N1", "EWR", "IAH", delay)


def test_a_departure_is_a_row_and_a_committed_half(place: Place) -> None:
    Airline(place.mq, place.engine, Event()).handle(flight(1))
    assert (place.numbers("departure"), place.numbers("cancellation")) == ([1], [])
    assert (place.decided("c"), place.decided("b")) == (1, 0)


def test_a_cancelled_flight_rolls_both_back_and_is_recorded(place: Place) -> None:
    Airline(place.mq, place.engine, Event()).handle(flight(1, None))
    assert (place.numbers("departure"), place.numbers("cancellation")) == ([], [1])
    assert (place.decided("c"), place.decided("b")) == (0, 1)
    with psycopg.connect(place.airline) as conn:
        assert conn.execute("select count(*) from mqpg_ledger where entry = 'local'").fetchone() == (0,)


@pytest.mark.parametrize("delay", [3, None])
def test_a_flight_is_never_booked_twice(place: Place, delay: int | None) -> None:
    airline = Airline(place.mq, place.engine, Event())
    airline.handle(flight(1, delay))
    airline.handle(flight(1, delay))
    assert len(place.numbers("departure") + place.numbers("cancellation")) == 1
    assert place.decided("c") == (0 if delay is None else 1)


def test_a_killed_process_goes_on_where_it_stood(place: Place) -> None:
    limit, cancelled = 900, 4
    env = {
        **os.environ,
        "MQPG_DATABASE_URL": place.broker,
        LEDGER_URL: sqlalchemy_url(place.airline),
    }
    command = [sys.executable, "-m", "lab.demo.airline", "--flights", str(limit), "--threads", "4"]
    killed = subprocess.Popen([*command, "--rate", "200"], env=env)
    try:
        while len(place.numbers("departure")) < 100:
            assert killed.poll() is None
            time.sleep(0.05)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    assert len(place.numbers("departure")) < limit - cancelled
    subprocess.run(command, env=env, check=True, timeout=60)
    flights = list(read_flights(limit))
    assert place.numbers("departure") == [flight.number for flight in flights if not flight.cancelled]
    assert place.numbers("cancellation") == [flight.number for flight in flights if flight.cancelled]
    assert place.decided("c") == len(place.numbers("departure")), "recovery sent what the killed process had not"
