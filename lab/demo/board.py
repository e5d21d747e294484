"""The departure board, `mqpg consume lab.demo.board:board`.

Its effects are in its own database, exactly once (protocol C2). The offset moves in the transaction
of the sums. As a consequence, a killed consumer neither repeats nor loses a message.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date

from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert

import mqpg

from .expected import Board, Cell
from .names import BOARD_URL, CONSUMER_GROUP, TOPIC
from .tables import board_cell

__all__ = ["board", "post", "sums"]


def sums(messages: Sequence[mqpg.Message]) -> Board:
    """Add up the departures and delays of these messages for each airport and day."""
    cells: Board = {}
    for message in messages:
        flight = message.payload
        place = (flight["origin"], flight["day"])
        old = cells.get(place, Cell(0, 0))
        cells[place] = Cell(old.departures + 1, old.delay + flight["delay"])
    return cells


def post(messages: Sequence[mqpg.Message], conn: Connection) -> None:
    """Add a batch of messages to the board, in the caller's transaction."""
    # Sorted, so that two consumers that update the same cells lock the rows in the same order.
    rows = [
        {"origin": origin, "day": date.fromisoformat(day), "departures": cell.departures, "delay": cell.delay}
        for (origin, day), cell in sorted(sums(messages).items())
    ]
    new = insert(board_cell).values(rows)
    merge = new.on_conflict_do_update(
        index_elements=[board_cell.c.origin, board_cell.c.day],
        set_={
            "departures": board_cell.c.departures + new.excluded.departures,
            "delay": board_cell.c.delay + new.excluded.delay,
        },
    )
    conn.execute(merge)


board = mqpg.consumer(
    TOPIC,
    group=CONSUMER_GROUP,
    database=os.environ[BOARD_URL],
    batch=True,
    max_messages=500,
    journal=True,
)(post)
