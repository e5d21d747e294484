"""T4 over RabbitMQ: FastMiniMQ's dedupe at the consumer, with any broker that has acknowledgements.

    pip install pika
    python examples/rabbitmq/orders.py amqp://guest:guest@localhost/ shop.db warehouse.db

The shop stores each message before it sends it (P1 to P7). The warehouse holds a PREPARE in its
inbox until the COMMIT arrives (S1 to S8). Either may crash at any step, and so may RabbitMQ: what is
sold is shipped exactly once. PostgreSQL, and mqpg's own broker, are not needed.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from uuid import uuid4

import pika
from sqlalchemy import (
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    delete,
    insert,
    select,
    update,
)

from mqpg.protocols import Inbox

of_shop, of_warehouse = MetaData(), MetaData()
orders = Table("orders", of_shop, Column("id", Integer, primary_key=True))
# A message is here until RabbitMQ has its decision: stored, commit or rollback.
outbox = Table(
    "outbox",
    of_shop,
    Column("id", String(32), primary_key=True),
    Column("state", String(8), nullable=False),
)
shipped = Table(
    "shipped", of_warehouse, Column("number", Integer, primary_key=True), Column("order_id", Integer, nullable=False)
)


class Shop:
    """A producer. One process at a time uses its database, because `recover` decides every row."""

    def __init__(self, engine: Engine, channel: Any, queue: str) -> None:
        self.engine, self.channel, self.queue = engine, channel, queue
        of_shop.create_all(engine)
        channel.confirm_delivery()  # publish() then waits until RabbitMQ has the message on its disk

    def sell(self, order: int, amount: int) -> None:
        """Place an order and send it. If this raises, `recover` finishes it or rolls it back."""
        id = uuid4().hex
        self.store(id)  # P1
        self.publish(id, "prepare", {"order": order, "amount": amount})  # P2, P3
        with self.engine.begin() as conn:  # P4
            conn.execute(insert(orders).values(id=order))
            if amount <= 0:
                raise ValueError(f"order {order} has no amount")
            self.decide(conn, id, "commit")
        self.publish(id, "commit")  # P5, P6
        self.delete(id)  # P7

    def recover(self) -> None:
        """Finish what an error or a crash has left."""
        with self.engine.connect() as conn:
            left = list(conn.execute(select(outbox.c.id, outbox.c.state)))
        for id, state in left:
            if state == "stored":
                with self.engine.begin() as conn:
                    self.decide(conn, id, "rollback")
            self.publish(id, "commit" if state == "commit" else "rollback")
            self.delete(id)

    def store(self, id: str) -> None:
        with self.engine.begin() as conn:
            conn.execute(insert(outbox).values(id=id, state="stored"))

    def publish(self, id: str, phase: str, body: Any = None) -> None:
        """Send one phase. Raises an error of pika unless RabbitMQ confirms it."""
        headers = {"mqpg-phase": phase, "mqpg-handle": id}
        properties = pika.BasicProperties(delivery_mode=2, headers=headers)  # 2: on disk
        self.channel.basic_publish("", self.queue, json.dumps(body).encode(), properties, mandatory=True)

    def decide(self, conn: Connection, id: str, decision: str) -> None:
        open_row = (outbox.c.id == id, outbox.c.state == "stored")
        if conn.execute(update(outbox).where(*open_row).values(state=decision)).rowcount != 1:
            raise RuntimeError(f"message {id} was decided before")

    def delete(self, id: str) -> None:
        with self.engine.begin() as conn:
            conn.execute(delete(outbox).where(outbox.c.id == id))


class Warehouse:
    """A consumer. An error ends it, and its connection: what it did not acknowledge comes again, in order."""

    def __init__(self, engine: Engine, channel: Any, queue: str) -> None:
        self.engine, self.channel, self.queue = engine, channel, queue
        of_warehouse.create_all(engine)
        self.inbox = Inbox(engine, name="warehouse")
        self.inbox.create_inbox()
        channel.basic_qos(prefetch_count=100)

    def work(self, patience: float | None = None) -> None:
        """Handle messages until none has come for `patience` seconds. None: for ever."""
        for method, properties, body in self.channel.consume(self.queue, inactivity_timeout=patience):  # S1, S2, S5, S6
            if method is None:
                break
            with self.engine.begin() as conn:
                self.handle(conn, properties.headers, json.loads(body))  # S3, S7
            self.acknowledge(method.delivery_tag)  # S4, S8
        self.channel.cancel()

    def handle(self, conn: Connection, headers: dict[str, str], body: Any) -> None:
        phase, id = headers["mqpg-phase"], headers["mqpg-handle"]
        if phase == "prepare":
            self.inbox.prepare(conn, id, body)
        elif phase == "rollback":
            self.inbox.rollback(conn, id)
        elif (committed := self.inbox.commit(conn, id)) is not None:
            self.ship(conn, committed)

    def ship(self, conn: Connection, body: Any) -> None:
        conn.execute(insert(shipped).values(order_id=body["order"]))

    def acknowledge(self, tag: int) -> None:
        self.channel.basic_ack(tag)


def open_channel(url: str, queue: str) -> Any:
    """A channel to a queue that survives a crash and has one consumer at a time, so that its order stays.

    RabbitMQ confirms a declaration before it is on its disk. If RabbitMQ crashes some seconds later, the
    queue is gone, with its messages: in production, declare it long before the first order.
    """
    channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
    channel.queue_declare(queue, durable=True, arguments={"x-single-active-consumer": True})
    return channel


def main(url: str, shop_file: str, warehouse_file: str) -> None:
    shop = Shop(create_engine(f"sqlite:///{shop_file}"), open_channel(url, "orders"), "orders")
    shop.recover()
    for order, amount in ((1, 90), (2, 0), (3, 30)):
        try:
            shop.sell(order, amount)
        except ValueError as error:
            print(f"rolled back: {error}")
            shop.recover()
    warehouse = Warehouse(create_engine(f"sqlite:///{warehouse_file}"), open_channel(url, "orders"), "orders")
    warehouse.work(patience=1)
    for name, one, column in (("sold", shop, orders.c.id), ("shipped", warehouse, shipped.c.order_id)):
        with one.engine.connect() as conn:
            print(f"{name}: {list(conn.execute(select(column)).scalars())}")
        one.channel.connection.close()
        one.engine.dispose()


if __name__ == "__main__":
    main(*sys.argv[1:])
