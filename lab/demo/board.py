"""The departure board, `mqpg consume lab.demo.board:board`.

Its effects are in its own database, exactly once (protocol C2). The offset moves in the transaction
of the sums. As a consequence, a killed consumer neither repeats nor loses a message.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from sqlalchemy import Connection, text

import mqpg

from .tables import BOARD_URL, CONSUMER_GROUP, TOPIC

__all__ = ["board", "post"]

_ADD = text("""
insert into board_cell values (:origin, cast(:day as date), :departures, :delay) on conflict (origin, day)
do update set departures = board_cell.departures + excluded.departures, delay = board_cell.delay + excluded.delay
""")


def post(messages: Sequence[mqpg.Message], conn: Connection) -> None:
    """Add a batch of messages to the board, in the caller's transaction."""
    departures, delays = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for flight in (message.payload for message in messages):
        departures[flight["origin"], flight["day"]] += 1
        delays[flight["origin"], flight["day"]] += flight["delay"]
    # Sorted, so that two consumers that update the same cells lock the rows in the same order.
    cells = [
        {"origin": place[0], "day": place[1], "departures": number, "delay": delays[place]}
        for place, number in sorted(departures.items())
    ]
    conn.execute(_ADD, cells)


board = mqpg.consumer(
    TOPIC, group=CONSUMER_GROUP, database=os.environ[BOARD_URL], batch=True, max_messages=500, journal=True
)(post)
