"""A business in a database of its own, and what consumers got."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, create_engine, text

import mqpg

__all__ = ["INSERT", "business", "business_at", "delivered", "rows"]

INSERT = text("insert into business (id) values (:id)")


@contextmanager
def business_at(url: str, column: str = "id int primary key") -> Iterator[Engine]:
    """Open an engine for an empty database, and make the table `business` there."""
    engine = create_engine(url)
    with engine.begin() as conn:
        conn.execute(text(f"create table business ({column})"))
    yield engine
    engine.dispose()


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
