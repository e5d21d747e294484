"""Effects that fail where no savepoint catches them: at the commit, at the broker, in a transaction
already aborted. Each failure counts an attempt of its own message only, and the queue continues.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import Session

import mqpg
from mqpg import errors
from tests.support.consuming import drain, send

pytestmark = pytest.mark.shared_database

PARENT = "create table parent (id int primary key)"
CHILD = "create table child (id int, parent_id int references parent deferrable initially deferred)"
CHILD_OF = "insert into child (id, parent_id) values ({}, {})"


@dataclass
class Place:
    """The place of the effects: how a consumer is made for it, and how to read it."""

    options: dict[str, Any]
    engine: Engine
    conn: Any = psycopg.Connection

    def consumer(self, handle: Callable[[mqpg.Message, Callable[[str], Any]], Any], **more: Any) -> mqpg.Consumer:
        """Return a consumer whose handler gets a function that executes SQL."""

        def handler(message: mqpg.Message, conn: Any) -> Any:
            driver = isinstance(conn, psycopg.Connection)
            return handle(message, lambda sql: conn.execute(sql if driver else text(sql)))

        handler.__annotations__["conn"] = self.conn
        options = {"max_attempts": 2, "retry_delay": 0} | self.options | more
        return mqpg.consumer("orders", group="g", **options)(handler)

    def ids(self) -> list[int]:
        with self.engine.connect() as conn:
            return list(conn.execute(text("select id from child order by id")).scalars())


HERE, THERE = ["here", "here shared", "here sqlalchemy", "here session"], ["postgresql", "sqlite"]


@pytest.fixture(params=HERE + THERE)
def place(
    request: pytest.FixtureRequest, mq: mqpg.Client, dsn: str, new_database: Callable[..., str], tmp_path: Path
) -> Any:
    mq.create_topic("orders", queues=1)
    kind: str = request.param
    if kind == "sqlite":
        engine = create_engine(f"sqlite:///{tmp_path / 'own.db'}")
        event.listen(engine, "connect", lambda conn, record: conn.execute("pragma foreign_keys = on"))
    else:
        url = dsn if kind.startswith("here") else new_database(empty=True)
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
    with engine.begin() as conn:
        for sql in (PARENT, CHILD, "insert into parent (id) values (1)"):
            conn.execute(text(sql))
    own = {"database": engine, "consumer": "one"}
    place = {
        "here": Place({}, engine),
        "here shared": Place({"mode": "shared"}, engine),
        "here sqlalchemy": Place({}, engine, sqlalchemy.Connection),
        "here session": Place({}, engine, Session),
    }.get(kind) or Place(own, engine, sqlalchemy.Connection)
    yield place
    engine.dispose()


def lag(db: psycopg.Connection[Any]) -> Any:
    return db.execute("select sum(lag)::int from mqpg.subscription_lag").fetchone()


def test_what_the_commit_refuses_is_its_messages_failure(
    mq: mqpg.Client, db: psycopg.Connection[Any], place: Place
) -> None:
    """The commit refuses a deferred foreign key. Django makes all of them deferred."""
    calls: list[int] = []

    def book(message: mqpg.Message, execute: Callable[[str], Any]) -> None:
        calls.append(message.payload["id"])
        execute(CHILD_OF.format(message.payload["id"], 99 if message.payload["id"] in (1, 3) else 1))

    bill = place.consumer(book)
    assert bill.step(mq) == 0
    send(mq, range(5))
    drain(bill, mq)
    bill.close()
    assert (place.ids(), lag(db)) == ([0, 2, 4], (0,))
    dead = {letter.payload["id"]: letter for letter in mq.dead_letters("g", "orders")}
    assert sorted(dead) == [1, 3]
    assert all(letter.attempts == 2 and "foreign" in str(letter.reason).lower() for letter in dead.values())
    # Once with the others, once alone; what failed again as a retry, alone at once.
    assert max(calls.count(number) for number in range(5)) <= 5


@pytest.mark.parametrize(("on_failure", "first"), [("block_key", [0, 3]), ("block_queue", [0])])
def test_what_the_commit_refuses_blocks_what_must_not_overtake(
    mq: mqpg.Client, db: psycopg.Connection[Any], on_failure: Any, first: list[int]
) -> None:
    mq.create_topic("orders", queues=1)
    for sql in (PARENT, CHILD, "insert into parent (id) values (1)"):
        db.execute(sql)

    @mqpg.consumer("orders", group="g", on_failure=on_failure, retry_delay="1 hour")
    def bill(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        parent = 99 if message.payload["id"] == 1 else 1
        conn.execute("insert into child (id, parent_id) values (%s, %s)", [message.payload["id"], parent])

    assert bill.step(mq) == 0
    mq.send_batch("orders", [{"id": n} for n in range(5)], keys=["a", "b", "b", "c", "b"])
    while mq.append() + bill.step(mq):
        pass
    assert [row[0] for row in db.execute("select id from child order by id")] == first


@pytest.mark.parametrize("place", THERE, indirect=True)
def test_a_gap_of_the_log_that_cannot_be_committed_is_no_endless_loop(
    mq: mqpg.Client, place: Place, db: psycopg.Connection[Any]
) -> None:
    """Such a message has no claim from which it could be nacked.

    It is an error, as for a handler that raises there.
    """
    broken: list[int] = []

    def book(message: mqpg.Message, execute: Callable[[str], Any]) -> None:
        execute(CHILD_OF.format(message.payload["id"], 99 if message.payload["id"] in broken else 1))

    bill = place.consumer(book)
    assert bill.step(mq) == 0
    send(mq, range(2))
    assert bill.step(mq) == 2
    with place.engine.begin() as conn:
        conn.execute(text("update mqpg_offsets set next_offset = next_offset - 1, last_message_id = null"))
    broken.append(1)
    send(mq, [2])
    with pytest.raises(errors.DatabaseError, match=r"(?i)foreign key"):
        bill.step(mq)
    broken.clear()
    assert bill.step(mq) == 1
    bill.close()


@pytest.mark.parametrize("place", [*HERE, "postgresql"], indirect=True)
def test_an_error_that_the_handler_swallowed(mq: mqpg.Client, db: psycopg.Connection[Any], place: Place) -> None:
    """PostgreSQL has aborted the transaction, although the handler swallowed the error."""

    def book(message: mqpg.Message, execute: Callable[[str], Any]) -> None:
        execute(CHILD_OF.format(message.payload["id"], 1))
        if message.payload["id"] == 1:
            with suppress(psycopg.Error, SQLAlchemyError):
                execute("select 1/0")

    bill = place.consumer(book)
    assert bill.step(mq) == 0
    send(mq, range(3))
    drain(bill, mq)
    bill.close()
    assert (place.ids(), lag(db)) == ([0, 2], (0,))
    assert [letter.attempts for letter in mq.dead_letters("g", "orders")] == [2]


@pytest.mark.parametrize("place", ["here session"], indirect=True)
def test_an_error_that_the_handler_swallowed_before_a_commit_of_its_session(
    mq: mqpg.Client, db: psycopg.Connection[Any], place: Place
) -> None:
    @mqpg.consumer("orders", group="g", max_attempts=1)
    def bill(message: mqpg.Message, session: Session) -> None:
        session.execute(text(CHILD_OF.format(message.payload["id"], 1)))
        if message.payload["id"] == 1:
            with suppress(SQLAlchemyError):
                session.execute(text("select 1/0"))
            session.commit()

    assert bill.step(mq) == 0
    send(mq, range(3))
    drain(bill, mq)
    bill.close()
    assert (place.ids(), lag(db)) == ([0, 2], (0,))


@pytest.mark.parametrize(
    ("place", "driver"),
    [("here sqlalchemy", "psycopg"), ("postgresql", "psycopg"), ("postgresql", "asyncpg")],
    indirect=["place"],
)
async def test_asynchronously(amq: mqpg.AsyncClient, db: psycopg.Connection[Any], place: Place, driver: str) -> None:
    options = dict(place.options)
    if "database" in options:
        options["database"] = place.engine.url.set(drivername=f"postgresql+{driver}")

    @mqpg.consumer("orders", group="g", max_attempts=1, **options)
    async def bill(message: mqpg.Message, conn: AsyncConnection) -> None:
        await conn.execute(text(CHILD_OF.format(message.payload["id"], 99 if message.payload["id"] == 1 else 1)))
        if message.payload["id"] == 2:
            with suppress(SQLAlchemyError):
                await conn.execute(text("select 1/0"))

    assert isinstance(bill, mqpg.AsyncConsumer)
    assert await bill.step(amq) == 0
    await amq.send_batch("orders", [{"id": n} for n in range(4)])
    await amq.append()
    while await bill.step(amq):
        pass
    await bill.close()
    assert (place.ids(), lag(db)) == ([0, 3], (0,))
