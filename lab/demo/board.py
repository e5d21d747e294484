"""The departure board, `mqpg consume lab.demo.board:board`.

Its effects are in its own database, exactly once (protocol C2). The offset moves in the transaction
of the sums. As a consequence, a killed consumer neither repeats nor loses a message.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from datetime import date

from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

import mqpg

from .tables import BOARD_URL, CONSUMER_GROUP, TOPIC, board_cell

__all__ = ["board", "post"]


def post(messages: Sequence[mqpg.Message], conn: Connection) -> None:
    """Add a batch of messages to the board, in the caller's transaction."""
    departures, delays = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for flight in (message.payload for message in messages):
        departures[flight["origin"], flight["day"]] += 1
        delays[flight["origin"], flight["day"]] += flight["delay"]
    # Sorted, so that two consumers that update the same cells lock the rows in the same order.
    new = insert(board_cell).values(
        [
            {"origin": place[0], "day": date.fromisoformat(place[1]), "departures": number, "delay": delays[place]}
            for place, number in sorted(departures.items())
        ]
    )
    sums = {name: board_cell.c[name] + new.excluded[name] for name in ("departures", "delay")}
    conn.execute(new.on_conflict_do_update(index_elements=[board_cell.c.origin, board_cell.c.day], set_=sums))


board = mqpg.consumer(
    TOPIC, group=CONSUMER_GROUP, database=os.environ[BOARD_URL], batch=True, max_messages=500, journal=True
)(post)
