"""A business in a database of its own, and what consumers got."""

from typing import Any

from sqlalchemy import Engine, text

import mqpg

__all__ = ["INSERT", "business", "delivered", "rows"]

INSERT = text("insert into business (id) values (:id)")


def business(engine: Engine) -> list[int]:
    """Return the ids of the business rows."""
    with engine.connect() as conn:
        return list(conn.execute(text("select id from business order by id")).scalars())


def rows(engine: Engine, table: str) -> int:
    """Return how many rows a table has."""
    with engine.connect() as conn:
        return int(conn.execute(text(f"select count(*) from {table}")).scalar_one())


def delivered(mq: mqpg.Client, topic: str, group: str = "readers") -> list[Any]:
    """Receive and acknowledge everything for a group, and return the payloads."""
    mq.append()
    found = []
    while messages := mq.receive(group, topic):
        found += [message.payload for message in messages]
        messages.ack()
    return found
