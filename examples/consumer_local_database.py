"""C2: the effect is in another database (here SQLite).

    MQPG_DATABASE_URL=postgresql://… python examples/consumer_local_database.py stock.db

That database also keeps the offset, in the transaction of the effect, so the effect happens exactly
once. A crash between the local commit and the acknowledgement repeats nothing, because the local
offset is the truth.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Column, Connection, Integer, MetaData, String, Table, create_engine, select
from sqlalchemy.dialects.sqlite import insert

import mqpg

metadata = MetaData()
stock = Table("stock", metadata, Column("item", String, primary_key=True), Column("pieces", Integer, nullable=False))


def book(messages: Sequence[mqpg.Message], conn: Connection) -> None:
    """Add a batch to the stock, in the transaction that also moves the offset."""
    for message in messages:
        row = insert(stock).values(item=message.payload["item"], pieces=message.payload["pieces"])
        more = {"pieces": stock.c.pieces + row.excluded.pieces}
        conn.execute(row.on_conflict_do_update(index_elements=[stock.c.item], set_=more))


def main(path: Path) -> None:
    engine = create_engine(f"sqlite:///{path}")
    metadata.create_all(engine)
    consumer = mqpg.consumer("deliveries", group="stock", database=engine, batch=True, consumer="stock-1")(book)
    with mqpg.connect() as mq:
        mq.create_topic("deliveries", queues=2)
        mq.subscribe("stock", "deliveries", mode="pinned")
        for item, pieces in (("bolt", 100), ("nut", 80), ("bolt", -30)):
            mq.send("deliveries", {"item": item, "pieces": pieces}, key=item)
        mq.append()  # `mqpg worker` does this all the time

        while consumer.step(mq):
            pass
    with engine.connect() as conn:
        print(f"stock: {[tuple(row) for row in conn.execute(select(stock).order_by(stock.c.item))]}")
    engine.dispose()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "stock.db"))
