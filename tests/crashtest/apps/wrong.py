"""Handlers and producers that are wrong on purpose, one for each kind of mistake."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import sqlite3
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Connection, create_engine, text

import mqpg

PORT = 9999  # below the ports of outgoing connections and of servers that tests start
INSERT = "insert into bill (order_id) values (%s)"


@mqpg.consumer("orders", group="billing")
def commits(message: mqpg.Message, conn: psycopg.Connection) -> None:
    """Commits the transaction that it was given."""
    conn.execute(INSERT, [message.payload["id"]])
    conn.commit()


@mqpg.consumer("orders", group="billing")
def commits_in_sql(message: mqpg.Message, conn: psycopg.Connection) -> None:
    """Commits behind the library's back, and restores what it has ended."""
    conn.execute(INSERT, [message.payload["id"]])
    for statement in ("commit", "begin", 'savepoint "_pg3_2"'):
        psycopg.Cursor(conn).execute(statement)


@mqpg.consumer("orders", group="billing")
def commits_openly(message: mqpg.Message, conn: psycopg.Connection) -> None:
    conn.execute(INSERT, [message.payload["id"]])
    conn.execute("commit")


@mqpg.consumer("orders", group="copies", database="postgresql+psycopg://nobody@nowhere/shop")
def commits_own_database(message: mqpg.Message, conn: Connection) -> None:
    conn.execute(text("insert into bill (order_id) values (:id)"), message.payload)
    driver: Any = conn.connection.driver_connection
    driver.execute("commit")
    driver.execute("begin")
    driver.execute("savepoint sa_savepoint_1")


@mqpg.consumer("orders", group="billing")
def own_connection(message: mqpg.Message) -> None:
    """Writes on a connection of its own."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as own:
        own.execute(INSERT, [message.payload["id"]])


@mqpg.consumer("orders", group="billing")
def second_database(message: mqpg.Message, conn: psycopg.Connection) -> None:
    """Writes into another database, by SQLAlchemy, without saying so."""
    engine = create_engine(os.environ["SHOP_URL"])
    with engine.begin() as own:
        own.execute(text("insert into bill (order_id) values (:id)"), message.payload)
    engine.dispose()


@mqpg.consumer("orders", group="billing")
def file_effect(message: mqpg.Message, conn: psycopg.Connection) -> None:
    """Writes a file, as a mail or an HTTP request would leave the transaction."""
    with open("mails.txt", "a") as file:
        file.write(f"to {message.payload['id']}\n")


@mqpg.consumer("orders", group="billing")
def thread(message: mqpg.Message, conn: psycopg.Connection) -> None:
    """Hands the work to a thread and returns."""

    def work() -> None:
        with psycopg.connect(os.environ["DATABASE_URL"]) as own:
            own.execute("select pg_sleep(0.1)")
            own.execute(INSERT, [message.payload["id"]])

    threading.Thread(target=work).start()


@mqpg.consumer("orders", group="billing")
def swallows(message: mqpg.Message, conn: psycopg.Connection) -> None:
    """Swallows whatever the database says."""
    with contextlib.suppress(psycopg.Error), conn.transaction():
        conn.execute(INSERT, [message.payload["id"]])


@mqpg.consumer("orders", group="mail", effect="external")
def mail(message: mqpg.Message) -> None:
    """At least once, and nothing by which a repetition is known."""
    with open("mails.txt", "a") as file:
        file.write(f"to {message.payload['id']}\n")


@mqpg.consumer("orders", group="billing", effect="external", ack="receive")
def acknowledges_first(message: mqpg.Message) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"]) as own:
        own.execute(INSERT, [message.payload["id"]])


@mqpg.consumer("orders", group="billing")
def raises(message: mqpg.Message, conn: psycopg.Connection) -> None:
    raise ValueError("no such customer")


def sends_first(mq: mqpg.Client) -> None:
    """The message is committed before its business."""
    order = uuid.uuid4().hex
    mq.send("orders", {"id": order})
    with mq.transaction() as conn:
        conn.execute("insert into placed values (%s)", [order])


def sends_last(mq: mqpg.Client) -> None:
    """The business is committed before its message."""
    with mq.transaction() as conn:
        conn.execute("insert into placed values ('7')")
    mq.send("orders", {"id": "7"})


def no_ledger(mq: mqpg.Client) -> None:
    """A half message whose group nobody can ask."""
    mq.create_producer_group("shop")
    handle = mq.prepare("orders", {"id": "7"}, "shop")
    with mq.transaction() as conn:
        conn.execute("insert into placed values ('7')")
    mq.commit(handle)


@mqpg.consumer("orders", group="billing")
def http_effect(message: mqpg.Message, conn: psycopg.Connection) -> None:
    """Calls a server, which is played by a socket of its own."""
    with socket.create_server(("127.0.0.1", PORT)) as server, socket.create_connection(("127.0.0.1", PORT)):
        server.accept()[0].close()


def post() -> None:
    """Post something to a server, which is played by one end of a pair of sockets."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = http.client.HTTPConnection("shop.example")
        connection.sock = ours
        connection.request("POST", "/", "paid")


def posts_after(message: mqpg.Message, proceed: Callable[[], Any]) -> Any:
    result = proceed()
    post()
    return result


@mqpg.consumer("orders", group="billing", middleware=[posts_after])
def middleware_effect(message: mqpg.Message, conn: psycopg.Connection) -> None:
    """The handler is right, and its middleware is not."""
    conn.execute(INSERT, [message.payload["id"]])


async def async_http(mq: mqpg.Client) -> None:
    """Calls a server before its transaction is committed."""
    with mq.transaction() as conn:
        conn.execute("insert into placed values ('7')")
        mq.send("orders", {"id": "7"}, conn=conn)
        post()


@mqpg.consumer("orders", group="billing")
def own_connection_to_our_prefix(message: mqpg.Message) -> None:
    """Its schema and its table begin as the library's do."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as own:
        own.execute("insert into mqpg_demo.mqpg_bills values (%s)", [message.payload["id"]])


@mqpg.consumer("orders", group="billing")
def own_sqlite_with_our_prefix(message: mqpg.Message) -> None:
    with contextlib.closing(sqlite3.connect("bills.db")) as own, own:
        own.execute("create table if not exists mqpg_bills (order_id int)")
        own.execute("insert into mqpg_bills values (?)", [message.payload["id"]])


@mqpg.consumer("orders", group="billing")
def nothing(message: mqpg.Message) -> None:
    """Nothing shows whether it was called."""


_kept: list[http.client.HTTPConnection] = []


@mqpg.consumer("orders", group="mail", effect="external")
def post_kept_alive(message: mqpg.Message) -> None:
    """Posts all messages over one connection. The file `address` has the port of its server."""
    if not _kept:
        _kept.append(http.client.HTTPConnection("127.0.0.1", int(Path("address").read_text())))
    _kept[0].request("POST", "/", str(message.payload["id"]))
    _kept[0].getresponse().read()
