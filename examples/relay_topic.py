"""T4, FastMiniMQ's dedupe at the consumer: PREPARE and COMMIT travel to the consumer.

    MQPG_DATABASE_URL=postgresql://… python examples/relay_topic.py warehouse.db

The consumer's inbox holds back the messages that are not committed yet. Inbox, offset and effect
are one local transaction, so each committed message takes effect once, at whatever point the
consumer crashes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sqlalchemy import Column, Connection, Integer, MetaData, Table, create_engine, insert, select

import mqpg

metadata = MetaData()
shipped = Table("shipped", metadata, Column("id", Integer, primary_key=True))


def ship(message: mqpg.Message, conn: Connection) -> None:
    """Record a shipment; called for committed messages only."""
    conn.execute(insert(shipped).values(id=message.payload["id"]))


def main(path: Path) -> None:
    warehouse = create_engine(f"sqlite:///{path}")
    metadata.create_all(warehouse)
    consumer = mqpg.consumer("shipments", group="warehouse", database=warehouse, consumer="warehouse-1")(ship)
    with mqpg.connect() as mq:
        mq.create_topic("shipments", queues=1, kind="relay")
        mq.create_producer_group("dispatch")
        first, second, third = (
            mq.prepare("shipments", {"id": number}, "dispatch", key="berlin") for number in (1, 2, 3)
        )
        mq.commit(first)
        mq.rollback(second)
        mq.append()  # `mqpg worker` does this all the time
        while consumer.step(mq):
            pass
        with warehouse.connect() as conn:
            print(f"shipped: {list(conn.execute(select(shipped.c.id)).scalars())}")
            print(f"held back: {conn.exec_driver_sql('select count(*) from mqpg_prepared').scalar()}")
        mq.commit(third)
        mq.append()
        consumer.step(mq)
    with warehouse.connect() as conn:
        print(f"shipped: {list(conn.execute(select(shipped.c.id)).scalars())}")
    consumer.close()
    warehouse.dispose()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "warehouse.db"))
