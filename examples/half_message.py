"""T2: the business tables are in another database (here SQLite).

    MQPG_DATABASE_URL=postgresql://… python examples/half_message.py shop.db

The message is stored first, as a half message that no consumer can see. It is committed after the
local transaction.

A crash at any point loses nothing. The compensator of `mqpg worker` looks into the ledger in
shop.db, which shows whether the local transaction committed. Set MQPG_LEDGER_SHOP=sqlite:///shop.db
for it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sqlalchemy import Column, Integer, MetaData, Table, create_engine, insert, select

import mqpg

metadata = MetaData()
orders = Table("orders", metadata, Column("id", Integer, primary_key=True), Column("amount", Integer, nullable=False))


def main(path: Path) -> None:
    shop = create_engine(f"sqlite:///{path}")
    metadata.create_all(shop)
    with mqpg.connect() as mq:
        mq.create_topic("shop-orders", queues=2)
        mq.create_producer_group("shop", checker="url", checker_target="shop")
        mq.subscribe("shipping", "shop-orders")
        producer = mqpg.TransactionalProducer(mq, group="shop", ledger=shop)
        producer.create_ledger()

        with producer.transaction("shop-orders", {"id": 1}, key="1") as tx:
            tx.execute(insert(orders).values(id=1, amount=90))
        with producer.transaction("shop-orders", {"id": 2}, key="2") as tx:
            tx.execute(insert(orders).values(id=2, amount=0))
            tx.rollback()  # the customer cancels: there is neither a row nor a message

        mq.append()  # `mqpg worker` does this all the time
        for message in mq.receive("shipping", "shop-orders"):
            print(f"received: {message.payload}")
    with shop.connect() as conn:
        print(f"orders in the table: {list(conn.execute(select(orders.c.id)).scalars())}")
    shop.dispose()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "shop.db"))
