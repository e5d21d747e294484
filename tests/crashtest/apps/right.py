"""Handlers and producers that are right, of every kind."""

from __future__ import annotations

from typing import Any

import psycopg
from sqlalchemy import Connection, text
from sqlalchemy.orm import Session

import mqpg


@mqpg.consumer("orders", group="billing")
def bill(message: mqpg.Message, conn: psycopg.Connection) -> None:
    conn.execute("insert into bill (order_id) values (%s)", [message.payload["id"]])


@mqpg.consumer("orders", group="billing")
async def bill_async(message: mqpg.Message, conn: psycopg.AsyncConnection) -> None:
    await conn.execute("insert into bill (order_id) values (%s)", [message.payload["id"]])


@mqpg.consumer("orders", group="billing", batch=True)
def bill_session(messages: list[mqpg.Message], session: Session) -> None:
    for message in messages:
        session.execute(text("insert into bill (order_id) values (:id)"), message.payload)


@mqpg.consumer("orders", group="billing")
def count(message: mqpg.Message, conn: psycopg.Connection) -> None:
    """Its table has a number from a sequence, a time, and a sum."""
    conn.execute("insert into entry (order_id) values (%s)", [message.payload["id"]])
    conn.execute("update total set orders = orders + 1, at = clock_timestamp()")


@mqpg.consumer("orders", group="copies", database="postgresql+psycopg://nobody@nowhere/shop")
def copy(message: mqpg.Message, conn: Connection) -> None:
    conn.execute(text("insert into bill (order_id) values (:id)"), message.payload)


@mqpg.consumer("orders", group="copies", database="sqlite:///shop.db")
def copy_sqlite(message: mqpg.Message, conn: Connection) -> None:
    conn.execute(text("insert into bill (order_id) values (:id)"), message.payload)


@mqpg.consumer("orders", group="copies", database="postgresql+psycopg://nobody@nowhere/shop", schema="billing")
def copy_in_schema(message: mqpg.Message, conn: Connection) -> None:
    conn.execute(text("insert into bill (order_id) values (:id)"), message.payload)


@mqpg.consumer("orders", group="mail", effect="external", mode="shared")
def mail(message: mqpg.Message) -> None:
    """One file for each message, so a repetition writes the same again."""
    with open(f"mail-{message.message_id}.txt", "w") as file:
        file.write(f"to {message.payload['id']}\n")


@mqpg.consumer("orders", group="shared", mode="shared")
def share(message: mqpg.Message, conn: psycopg.Connection) -> None:
    conn.execute("insert into bill (order_id) values (%s)", [message.payload["id"]])


def place(mq: mqpg.Client) -> None:
    """T1: row and message in one transaction."""
    with mq.transaction() as conn:
        conn.execute("insert into bill (order_id) values (7)")
        mq.send("orders", {"id": 7}, conn=conn)


def place_half(producer: mqpg.TransactionalProducer) -> None:
    """T2: the row is in another database."""
    with producer.transaction("orders", {"id": 7}) as tx:
        tx.execute(text("insert into bill (order_id) values (7)"))


def create_topic(mq: mqpg.Client) -> None:
    mq.create_topic("orders", queues=1)


def nothing() -> Any:
    return None
