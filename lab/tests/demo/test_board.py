"""The board's effect: sums per airport and day, once per message, across processes of one name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

import psycopg
import pytest
from sqlalchemy import create_engine

import mqpg
from lab.audits import sqlalchemy_url
from lab.demo.counts import Databases, Gauges
from lab.demo.flights import expected_board, read_flights
from lab.demo.tables import BOARD_URL, TOPIC, board_metadata


@pytest.fixture
def three(dsn: str, new_database: Callable[..., str]) -> Databases:
    return Databases(dsn, new_database(empty=True), new_database(empty=True))


@pytest.fixture
def board(three: Databases, monkeypatch: pytest.MonkeyPatch) -> Iterator[mqpg.Consumer]:
    """The consumer as `mqpg consume lab.demo.board:board` imports it."""
    url = sqlalchemy_url(three.board)
    engine = create_engine(url)
    board_metadata.create_all(engine)
    engine.dispose()
    monkeypatch.setenv(BOARD_URL, url)
    monkeypatch.setenv("MQPG_CONSUMER", "board-1")
    module = importlib.reload(importlib.import_module("lab.demo.board"))
    yield module.board
    module.board.close()


def test_departures_are_added_up_once(three: Databases, board: mqpg.Consumer) -> None:
    flights = [flight for flight in read_flights(200) if not flight.cancelled]
    with mqpg.connect(three.broker) as mq:
        mq.create_topic(TOPIC, queues=4)
        for half in (flights[:120], flights[120:]):
            mq.send_batch(TOPIC, [flight.as_message() for flight in half], keys=[flight.tail for flight in half])
            mq.append()
            while board.step(mq):
                pass
    with Gauges(three) as gauges:
        assert gauges.board() == expected_board(flights)
    with psycopg.connect(three.board) as conn:
        journal = conn.execute("select count(*), count(distinct message_id) from mqpg_applied").fetchone()
    assert journal == (len(flights), len(flights))


def test_counts_are_none_while_a_database_does_not_answer() -> None:
    away = "postgresql://nobody@127.0.0.1:1/none"
    with Gauges(Databases(away, away, away)) as gauges:
        assert gauges.read(backlog=True) is None
