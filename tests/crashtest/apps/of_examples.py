"""The examples that are whole programs, as consumers and producers."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import psycopg
from sqlalchemy import create_engine, insert

import mqpg
from mqpg.protocols import OutboxProducer

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

import consumer_local_database  # type: ignore[import-not-found]
import half_message  # type: ignore[import-not-found]
import outbox  # type: ignore[import-not-found]
import relay_topic  # type: ignore[import-not-found]
import request_reply  # type: ignore[import-not-found]
import same_database_send  # type: ignore[import-not-found]
import several_topics  # type: ignore[import-not-found]

book = mqpg.consumer("deliveries", group="stock", database="sqlite:///stock.db", batch=True)(
    consumer_local_database.book
)
ship = mqpg.consumer("shipments", group="warehouse", database="sqlite:///warehouse.db")(relay_topic.ship)
price = request_reply.price


def make_stock() -> None:
    consumer_local_database.metadata.create_all(create_engine("sqlite:///stock.db"))


def dispatch(mq: mqpg.Client) -> None:
    relay_topic.metadata.create_all(create_engine("sqlite:///warehouse.db"))
    mq.create_topic("shipments", queues=1, kind="relay")
    mq.create_producer_group("dispatch")
    mq.commit(mq.prepare("shipments", {"id": 1}, "dispatch"))
    mq.rollback(mq.prepare("shipments", {"id": 2}, "dispatch"))


def ask_for_prices(mq: mqpg.Client) -> None:
    mq.create_topic("prices", queues=1)
    mq.create_topic("mqpg-replies", queues=1)
    headers = {"mqpg-reply-to": "mqpg-replies", "mqpg-correlation-id": "1"}
    mq.send("prices", {"item": "bolt"}, headers=headers)


def make_orders(mq: mqpg.Client) -> None:
    mq.create_topic("orders", queues=1)
    with mq.transaction() as conn:
        conn.execute("create table orders (id int primary key, amount int not null)")


def place_order(mq: mqpg.Client) -> None:
    with psycopg.connect(mq.dsn) as conn:
        same_database_send.place_order(conn, mq, 1, 90)


def half() -> None:
    half_message.main(Path("shop.db"))


def several() -> None:
    several_topics.main(Path("webshop.db"))


def make_outbox(mq: mqpg.Client) -> None:
    shop = create_engine("sqlite:///outbox.db")
    outbox.metadata.create_all(shop)
    mq.create_topic("stored-orders", queues=1)
    mq.create_producer_group("stored")
    OutboxProducer(mq, group="stored", database=shop).create_outbox()
    shop.dispose()


def qos_1(mq: mqpg.Client) -> None:
    with OutboxProducer(mq, group="stored", database="sqlite:///outbox.db") as producer:
        with producer.outbox.database.engine.begin() as conn:
            conn.execute(insert(outbox.orders).values(id=2))
            producer.send("stored-orders", {"id": 2}, conn=conn)
        producer.recover(older_than=timedelta(0))


def qos_2(mq: mqpg.Client) -> None:
    with (
        OutboxProducer(mq, group="stored", database="sqlite:///outbox.db") as producer,
        producer.transaction("stored-orders", {"id": 1}) as tx,
    ):
        tx.execute(insert(outbox.orders).values(id=1))
