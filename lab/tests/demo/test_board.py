"""The board's effect: sums per airport and day, once per message, across processes of one name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

import psycopg
import pytest
from sqlalchemy import create_engine

import mqpg
from lab.demo.expected import Cell
from lab.demo.flights import read_flights
from lab.demo.measure import Gauges
from lab.demo.names import BOARD_URL, TOPIC
from lab.demo.servers import Databases
from lab.demo.tables import board_metadata
from mqpg.connection.dsn import to_sqlalchemy


@pytest.fixture
def places(dsn: str, new_database: Callable[..., str]) -> Databases:
    return Databases(dsn, new_database(empty=True), new_database(empty=True))


@pytest.fixture
def board(places: Databases, monkeypatch: pytest.MonkeyPatch) -> Iterator[mqpg.Consumer]:
    """The consumer as `mqpg consume lab.demo.board:board` imports it."""
    engine = create_engine(to_sqlalchemy(places.board))
    board_metadata.create_all(engine)
    engine.dispose()
    monkeypatch.setenv(BOARD_URL, places.board_url)
    monkeypatch.setenv("MQPG_CONSUMER", "board-1")
    module = importlib.reload(importlib.import_module("lab.demo.board"))
    yield module.board
    module.board.close()


def test_departures_are_added_up_once(places: Databases, board: mqpg.Consumer) -> None:
    flights = [flight for flight in read_flights(200) if not flight.cancelled]
    with mqpg.connect(places.broker) as mq:
        mq.create_topic(TOPIC, queues=4)
        for half in (flights[:120], flights[120:]):
            mq.send_batch(TOPIC, [flight.as_message() for flight in half], keys=[flight.tail for flight in half])
            mq.append()
            while board.step(mq):
                pass
    gauges = Gauges(places)
    cells = gauges.board()
    gauges.close()
    assert sum(cell.departures for cell in cells.values()) == len(flights)
    jfk = [flight.delay or 0 for flight in flights if flight.origin == "JFK"]
    assert cells["JFK", "2013-01-01"] == Cell(len(jfk), sum(jfk))
    with psycopg.connect(places.board) as conn:
        journal = conn.execute("select count(*), count(distinct message_id) from mqpg_applied").fetchone()
    assert journal == (len(flights), len(flights))


def test_counts_are_none_while_a_database_does_not_answer() -> None:
    away = "postgresql://nobody@127.0.0.1:1/none"
    gauges = Gauges(Databases(away, away, away))
    assert gauges.reading() is None
    assert gauges.backlog() is None
    gauges.close()
