"""FastMiniMQ's producer: messages are stored with the business until their broker has them.

    MQPG_DATABASE_URL=postgresql://… python examples/outbox.py outbox.db

No check-back is needed. A message of QoS 2 is prepared, committed and delivered once. A message of
QoS 1 is sent with a dedup id after the business has committed.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Column, Integer, MetaData, Table, create_engine, insert

import mqpg
from mqpg.protocols import OutboxProducer

metadata = MetaData()
orders = Table("orders", metadata, Column("id", Integer, primary_key=True))


def main(path: Path) -> None:
    shop = create_engine(f"sqlite:///{path}")
    metadata.create_all(shop)
    with mqpg.connect() as mq:
        mq.create_topic("stored-orders", queues=1)
        mq.create_producer_group("stored")
        mq.subscribe("shipping", "stored-orders")
        producer = OutboxProducer(mq, group="stored", database=shop)
        producer.create_outbox()

        with producer.transaction("stored-orders", {"id": 1}) as tx:  # QoS 2
            tx.execute(insert(orders).values(id=1))
        with shop.begin() as conn:  # QoS 1, in your own transaction
            conn.execute(insert(orders).values(id=2))
            producer.send("stored-orders", {"id": 2}, conn=conn)
        # A block `with producer:` does that every second.
        finished = producer.recover(older_than=timedelta(0))
        print(f"finished by recovery: {finished}")

        mq.append()  # `mqpg worker` does this all the time
        print(f"received: {[message.payload['id'] for message in mq.receive('shipping', 'stored-orders')]}")
    with shop.connect() as conn:
        print(f"left in the outbox: {conn.exec_driver_sql('select count(*) from mqpg_outbox').scalar()}")
    shop.dispose()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "outbox.db"))
