"""A full disk is no fault of the messages: they wait, and no attempt is counted."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, Engine, event, text

import mqpg
from tests.support.business import INSERT, business, business_at
from tests.support.consuming import drain, send

FULL = (
    "create function full_disk() returns trigger language plpgsql as $$ begin"
    " raise exception using errcode = '{}', message = 'could not extend file: No space left on device'; end $$"
)
TRIGGER = "create trigger full_disk before insert on business for each row execute function full_disk()"


def insert(message: mqpg.Message, conn: Connection) -> None:
    conn.execute(INSERT, {"id": message.payload["id"]})


def require_waiting(
    mq: mqpg.Client,
    consumer: mqpg.Consumer,
    words: str,
    fill: Callable[[], object],
    free: Callable[[], object],
    applied: Callable[[], list[int]],
) -> None:
    """Send two messages, let several iterations fail for want of space, and then go on."""
    assert consumer.step(mq) == 0
    send(mq, [1, 2])
    fill()
    for _ in range(3):
        mq.append()
        with pytest.raises(Exception, match=words):
            consumer.step(mq)
    free()
    drain(consumer, mq)
    consumer.close()
    assert (applied(), list(mq.dead_letters("g", "orders"))) == ([1, 2], [])


@pytest.mark.parametrize("sqlstate", ["53100", "58030"])
def test_same_database(mq: mqpg.Client, topic: str, db: psycopg.Connection[Any], sqlstate: str) -> None:
    attempts: list[int] = []
    db.execute("create table business (id int)")

    @mqpg.consumer(topic, group="g", max_attempts=1)
    def bill(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        attempts.append(message.attempt)
        conn.execute("insert into business (id) values (%s)", [message.payload["id"]])

    def fill() -> None:
        db.execute(FULL.format(sqlstate).encode())
        db.execute(TRIGGER)

    def applied() -> list[int]:
        return [row[0] for row in db.execute("select id from business order by id")]

    free = partial(db.execute, "drop trigger full_disk on business")
    require_waiting(mq, bill, "No space left", fill, free, applied)
    assert set(attempts) == {1}


def executes(engine: Engine, *statements: str) -> None:
    with engine.begin() as conn:
        for statement in statements:
            conn.execute(text(statement))


@pytest.mark.parametrize("when", ["at once", "at the commit"])
def test_a_database_of_its_own(mq: mqpg.Client, topic: str, new_database: Callable[..., str], when: str) -> None:
    trigger = TRIGGER
    if when == "at the commit":
        trigger = TRIGGER.replace("create trigger", "create constraint trigger").replace("before", "after")
        trigger = trigger.replace("for each row", "deferrable initially deferred for each row")
    with business_at(new_database(empty=True).replace("postgresql://", "postgresql+psycopg://", 1)) as engine:
        bill = mqpg.consumer(topic, group="g", database=engine, max_attempts=1)(insert)
        fill = partial(executes, engine, FULL.format("53100"), trigger)
        free = partial(executes, engine, "drop trigger full_disk on business")
        require_waiting(mq, bill, "No space left", fill, free, partial(business, engine))


def test_sqlite(mq: mqpg.Client, topic: str, tmp_path: Path) -> None:
    pages = [1_000_000]
    column = "id int, filler text default (hex(zeroblob(20000)))"
    with business_at(f"sqlite:///{tmp_path / 'local.db'}", column) as engine:

        @event.listens_for(engine, "checkout")
        def limit(connection: Any, *_: object) -> None:
            connection.execute(f"pragma max_page_count = {pages[0]}")

        bill = mqpg.consumer(topic, group="g", database=engine, max_attempts=1)(insert)
        fill, free = (partial(pages.__setitem__, 0, most) for most in (1, 1_000_000))  # the file may not grow any more
        require_waiting(mq, bill, "no such savepoint|disk is full", fill, free, partial(business, engine))


@pytest.mark.mariadb
@pytest.mark.parametrize("number", [1021, 1114])
def test_mariadb(mq: mqpg.Client, topic: str, mariadb_url: str, number: int) -> None:
    full = f"signal sqlstate 'HY000' set mysql_errno = {number}, message_text = 'no space left'"
    with business_at(mariadb_url) as engine:
        bill = mqpg.consumer(topic, group="g", database=engine, max_attempts=1)(insert)
        fill = partial(executes, engine, f"create trigger full_disk before insert on business for each row {full}")
        free = partial(executes, engine, "drop trigger full_disk")
        require_waiting(mq, bill, "no space left", fill, free, partial(business, engine))
