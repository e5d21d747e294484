"""A full disk is no fault of the messages: they wait, and no attempt is counted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, create_engine, event, text

import mqpg
from tests.support.business import INSERT, business
from tests.support.consuming import drain, send

FULL = (
    "create function full_disk() returns trigger language plpgsql as $$ begin"
    " raise exception using errcode = '{}', message = 'could not extend file: No space left on device'; end $$"
)
TRIGGER = "create trigger full_disk before insert on business for each row execute function full_disk()"


@pytest.fixture
def sent(mq: mqpg.Client, topic: str) -> Callable[[mqpg.Consumer], None]:
    """Subscribe a consumer, and send it two messages."""

    def subscribe_and_send(consumer: mqpg.Consumer) -> None:
        assert consumer.step(mq) == 0
        send(mq, [1, 2])

    return subscribe_and_send


def refused(consumer: mqpg.Consumer, mq: mqpg.Client, words: str) -> None:
    """Let several iterations fail for want of space."""
    for _ in range(3):
        mq.append()
        with pytest.raises(Exception, match=words):
            consumer.step(mq)


def dead(mq: mqpg.Client) -> list[Any]:
    return list(mq.dead_letters("g", "orders"))


@pytest.mark.parametrize("sqlstate", ["53100", "58030"])
def test_same_database(
    mq: mqpg.Client, topic: str, db: psycopg.Connection[Any], sent: Callable[[mqpg.Consumer], None], sqlstate: str
) -> None:
    attempts: list[int] = []
    db.execute("create table business (id int)")

    @mqpg.consumer(topic, group="g", max_attempts=1)
    def bill(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        attempts.append(message.attempt)
        conn.execute("insert into business (id) values (%s)", [message.payload["id"]])

    sent(bill)
    db.execute(FULL.format(sqlstate).encode())
    db.execute(TRIGGER)
    refused(bill, mq, "No space left")
    db.execute("drop trigger full_disk on business")
    drain(bill, mq)
    assert db.execute("select id from business order by id").fetchall() == [(1,), (2,)]
    assert (dead(mq), set(attempts)) == ([], {1})


@pytest.mark.parametrize("when", ["at once", "at the commit"])
def test_a_database_of_its_own(
    mq: mqpg.Client, topic: str, new_database: Callable[..., str], sent: Callable[[mqpg.Consumer], None], when: str
) -> None:
    engine = create_engine(new_database(empty=True).replace("postgresql://", "postgresql+psycopg://", 1))
    with engine.begin() as conn:
        conn.execute(text("create table business (id int)"))

    @mqpg.consumer(topic, group="g", database=engine, max_attempts=1)
    def bill(message: mqpg.Message, conn: Connection) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})

    sent(bill)
    trigger = TRIGGER
    if when == "at the commit":
        trigger = TRIGGER.replace("create trigger", "create constraint trigger").replace("before", "after")
        trigger = trigger.replace("for each row", "deferrable initially deferred for each row")
    with engine.begin() as conn:
        conn.execute(text(FULL.format("53100")))
        conn.execute(text(trigger))
    refused(bill, mq, "No space left")
    with engine.begin() as conn:
        conn.execute(text("drop trigger full_disk on business"))
    drain(bill, mq)
    assert (business(engine), dead(mq)) == ([1, 2], [])
    engine.dispose()


def test_sqlite(mq: mqpg.Client, topic: str, tmp_path: Path, sent: Callable[[mqpg.Consumer], None]) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'local.db'}")
    pages = [1_000_000]

    @event.listens_for(engine, "checkout")
    def limit(connection: Any, *_: object) -> None:
        connection.execute(f"pragma max_page_count = {pages[0]}")

    with engine.begin() as conn:
        conn.execute(text("create table business (id int, filler text default (hex(zeroblob(20000))))"))

    @mqpg.consumer(topic, group="g", database=engine, max_attempts=1)
    def bill(message: mqpg.Message, conn: Connection) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})

    sent(bill)
    pages[0] = 1  # the file may not grow any more
    refused(bill, mq, "no such savepoint|disk is full")
    pages[0] = 1_000_000
    drain(bill, mq)
    assert (business(engine), dead(mq)) == ([1, 2], [])
    engine.dispose()


@pytest.mark.mariadb
@pytest.mark.parametrize("number", [1021, 1114])
def test_mariadb(
    mq: mqpg.Client, topic: str, mariadb_url: str, sent: Callable[[mqpg.Consumer], None], number: int
) -> None:
    engine = create_engine(mariadb_url)
    with engine.begin() as conn:
        conn.execute(text("create table business (id int)"))

    @mqpg.consumer(topic, group="g", database=engine, max_attempts=1)
    def bill(message: mqpg.Message, conn: Connection) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})

    sent(bill)
    full = f"signal sqlstate 'HY000' set mysql_errno = {number}, message_text = 'no space left'"
    with engine.begin() as conn:
        conn.execute(text(f"create trigger full_disk before insert on business for each row {full}"))
    refused(bill, mq, "no space left")
    with engine.begin() as conn:
        conn.execute(text("drop trigger full_disk"))
    drain(bill, mq)
    assert (business(engine), dead(mq)) == ([1, 2], [])
    engine.dispose()
