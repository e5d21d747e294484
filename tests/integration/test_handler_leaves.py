"""What a handler leaves behind in the connection that it was given: at worst its own message fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from sqlalchemy import QueuePool, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection

import mqpg
from mqpg import errors
from mqpg._sync.stores.database import UserDatabase
from tests.support.business import INSERT, business, business_at
from tests.support.consuming import drain, is_acknowledged, sent
from tests.support.proven import prove

pytestmark = pytest.mark.shared_database

NUMBERS = "select generate_series(1, 10000)"
LEFT_OPEN = "WrongState: the handler has left a stream, a COPY, a pipeline or a transaction() of its connection open"


@pytest.fixture
def effects(mq: mqpg.Client, db: psycopg.Connection[Any]) -> Callable[[], list[int]]:
    mq.create_topic("orders", queues=1)
    db.execute("create table effect (id int)")
    return lambda: [row[0] for row in db.execute("select id from effect order by 1")]


def letters(mq: mqpg.Client) -> list[tuple[Any, str | None]]:
    return [(letter.payload, letter.reason) for letter in mq.dead_letters("g", "orders")]


def handle_four(mq: mqpg.Client, kind: str, act: Callable[[mqpg.Message, Any], object], **options: Any) -> None:
    """Let a handler insert the numbers 1 to 4, and `act` behind that."""
    if kind == "psycopg":

        def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
            conn.execute("insert into effect values (%s)", [message.payload])
            act(message, conn)
    else:

        def handle(message: mqpg.Message, conn: sqlalchemy.Connection) -> None:  # type: ignore[misc]
            conn.execute(text("insert into public.effect values (:id)"), {"id": message.payload})
            act(message, conn)

    if kind == "own":
        options |= {"database": mq.dsn, "consumer": "one"}
    consumer = mqpg.consumer("orders", group="g", max_attempts=2, retry_delay=0, **options)(handle)
    consumer.step(mq)
    if kind != "own":
        prove(consumer)
    mq.send_batch("orders", [1, 2, 3, 4])
    drain(consumer, mq)
    consumer.close()


def enters(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What enters a context manager, and never leaves it."""

    def enter(driver: Any) -> Any:
        entered = make(driver)
        return entered, entered.__enter__()

    return enter


def begin_stream(driver: Any) -> Any:
    rows = driver.cursor().stream(NUMBERS)
    next(rows)
    return rows


OPENS = {
    "stream": begin_stream,
    "copy": enters(lambda driver: driver.cursor().copy("copy effect from stdin")),
    "pipeline": enters(lambda driver: driver.pipeline()),
    "transaction": enters(lambda driver: driver.transaction()),
}


@pytest.mark.parametrize("kind", ["psycopg", "sqlalchemy", "own"])
@pytest.mark.parametrize("opened", OPENS)
def test_what_is_left_open(mq: mqpg.Client, effects: Callable[[], list[int]], kind: str, opened: str) -> None:
    kept: list[Any] = []

    def act(message: mqpg.Message, conn: Any) -> None:
        if message.payload == 2:
            driver = conn if kind == "psycopg" else conn.connection.driver_connection
            kept.append(OPENS[opened](driver))

    handle_four(mq, kind, act)
    assert (effects(), letters(mq)) == ([1, 3, 4], [(2, LEFT_OPEN)])


def test_an_error_while_something_is_open_is_the_reason(mq: mqpg.Client, effects: Callable[[], list[int]]) -> None:
    """A variable keeps the stream as long as the traceback lives."""

    def act(message: mqpg.Message, conn: Any) -> None:
        if message.payload == 2:
            rows = conn.cursor().stream(NUMBERS)
            for _ in rows:
                raise ValueError("enough")

    handle_four(mq, "psycopg", act)
    assert (effects(), letters(mq)) == ([1, 3, 4], [(2, "ValueError: enough")])


async def test_an_asynchronous_stream_that_a_break_leaves_open(
    mq: mqpg.Client, amq: mqpg.AsyncClient, effects: Callable[[], list[int]]
) -> None:
    @mqpg.consumer("orders", group="g", max_attempts=2, retry_delay=0)
    async def handle(message: mqpg.Message, conn: psycopg.AsyncConnection[Any]) -> None:
        await conn.execute("insert into effect values (%s)", [message.payload])
        if message.payload == 2:
            async for _ in conn.cursor().stream(NUMBERS):
                break

    await _drain(handle, amq, mq)
    assert (effects(), letters(mq)) == ([1, 3, 4], [(2, LEFT_OPEN)])


@pytest.mark.parametrize("kind", ["sqlalchemy", "own"])
@pytest.mark.parametrize(
    "options", [{"stream_results": True}, {"yield_per": 10}, {"schema_translate_map": {None: "elsewhere"}}]
)
def test_options_of_the_connection_end_with_the_handler(
    mq: mqpg.Client, db: psycopg.Connection[Any], effects: Callable[[], list[int]], kind: str, options: dict[str, Any]
) -> None:
    """SQLAlchemy's page on server-side cursors sets them like this."""
    db.execute("create schema elsewhere")
    db.execute("create table elsewhere.place (id int)")
    db.execute("create table place (id int)")
    place = sqlalchemy.Table("place", sqlalchemy.MetaData(), sqlalchemy.Column("id", sqlalchemy.Integer))

    def act(message: mqpg.Message, conn: sqlalchemy.Connection) -> None:
        if message.payload == 2:
            conn.execution_options(**options).execute(text(NUMBERS)).first()
        else:
            conn.execute(place.insert().values(id=message.payload))

    handle_four(mq, kind, act)
    assert (effects(), letters(mq)) == ([1, 2, 3, 4], [])
    assert db.execute("select id from public.place order by 1").fetchall() == [(1,), (3,), (4,)]


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("set local search_path = pg_catalog", 'relation "mqpg_inbox" does not exist'),
        ("set local role pg_monitor", "permission denied for table mqpg_inbox"),
    ],
)
def test_what_hides_the_offsets_of_a_database_of_its_own(
    mq: mqpg.Client, effects: Callable[[], list[int]], sql: str, reason: str
) -> None:
    def act(message: mqpg.Message, conn: sqlalchemy.Connection) -> None:
        if message.payload == 2:
            conn.execute(text(sql))

    handle_four(mq, "own", act)
    [(payload, why)] = letters(mq)
    assert (effects(), payload) == ([1, 3, 4], 2)
    assert reason in str(why)


def dict_rows(conn: sqlalchemy.Connection) -> None:
    driver: Any = conn.connection.driver_connection
    driver.row_factory = psycopg.rows.dict_row


@pytest.mark.parametrize(
    "act", [lambda conn: conn.execute(text("set default_transaction_read_only = on")), dict_rows], ids=["sql", "driver"]
)
def test_what_a_session_of_a_database_of_its_own_is_left_with(
    mq: mqpg.Client, effects: Callable[[], list[int]], act: Callable[[Any], object]
) -> None:
    """It hinders the next delivery once, and not for as long as the session lives."""

    @mqpg.consumer("orders", group="g", max_attempts=1, database=mq.dsn, consumer="one")
    def handle(message: mqpg.Message, conn: sqlalchemy.Connection) -> None:
        conn.execute(text("insert into effect values (:id)"), {"id": message.payload})
        if message.payload == 1:
            act(conn)

    handle.step(mq)
    mq.send("orders", 1)
    drain(handle, mq)
    sent(mq, "orders", 2)
    with pytest.raises((errors.DatabaseError, TypeError)):
        handle.step(mq)
    drain(handle, mq)
    handle.close()
    assert (effects(), letters(mq)) == ([1, 2], [])


@pytest.mark.parametrize("act", ["query_only", "closed", "given back"])
def test_what_is_left_in_a_connection_of_sqlite(mq: mqpg.Client, tmp_path: Path, act: str) -> None:
    mq.create_topic("orders", queues=1)
    with business_at(f"sqlite:///{tmp_path}/local.db") as engine:

        @mqpg.consumer("orders", group="g", max_attempts=2, retry_delay=0, database=engine, consumer="one")
        def handle(message: mqpg.Message, conn: sqlalchemy.Connection) -> None:
            conn.execute(INSERT, {"id": message.payload})
            if message.payload == 2 and act == "closed":
                conn.connection.invalidate()
            elif message.payload == 2 and act == "given back":
                conn.connection.commit()
                conn.connection.close()
            elif message.payload == 2:
                conn.exec_driver_sql("pragma query_only = 1")

        handle.step(mq)
        mq.send_batch("orders", [1, 2, 3, 4])
        drain(handle, mq)
        # Otherwise it is not known whether the handler had committed what was there by then.
        done = {"query_only": [1, 3, 4], "closed": [3, 4], "given back": [1, 2, 3, 4]}[act]
        dead = [2] if act == "query_only" else [2, 1]
        assert (business(engine), [payload for payload, _ in letters(mq)]) == (done, dead)


@pytest.mark.parametrize("name", ["file:own?mode=memory&", "file::memory:?"])
def test_data_of_sqlite_that_end_with_the_last_connection(name: str) -> None:
    """They are kept when the connections are renewed."""
    engine = create_engine(f"sqlite:///{name}cache=shared&uri=true", poolclass=QueuePool)
    database = UserDatabase(engine)
    with database.begin() as conn:
        conn.exec_driver_sql("create table kept (id int)")
    database.renew()
    with database.connect() as conn:
        assert conn.exec_driver_sql("select * from kept").all() == []
    engine.dispose()


def test_a_role_that_hides_the_inbox_of_a_relay_topic(mq: mqpg.Client, db: psycopg.Connection[Any]) -> None:
    mq.create_topic("orders", queues=1, kind="relay")
    db.execute("create table effect (id int)")

    @mqpg.consumer("orders", group="g", max_attempts=2, retry_delay=0, database=mq.dsn, consumer="one")
    def handle(message: mqpg.Message, conn: sqlalchemy.Connection) -> None:
        conn.execute(text("insert into effect values (:id)"), {"id": message.payload})
        if message.payload == 2:
            conn.execute(text("set local role pg_monitor"))

    mq.create_producer_group("shop")
    handle.step(mq)
    for number in range(1, 5):
        mq.commit(mq.prepare("orders", number, "shop"))
    drain(handle, mq)
    handle.close()
    [(payload, _)] = letters(mq)
    assert payload == 2
    assert db.execute("select id from effect order by 1").fetchall() == [(1,), (3,), (4,)]


@pytest.mark.parametrize("code", ["57014", "53200"])
def test_no_message_is_blamed_for_what_happens_to_the_database(
    mq: mqpg.Client, effects: Callable[[], list[int]], db: psycopg.Connection[Any], code: str
) -> None:
    calls = []

    @mqpg.consumer("orders", group="g", max_attempts=1, database=mq.dsn, consumer="one")
    def handle(message: mqpg.Message, conn: sqlalchemy.Connection) -> None:
        calls.append(message.payload)
        conn.execute(text("insert into effect values (:id)"), {"id": message.payload})

    handle.step(mq)
    mq.send_batch("orders", [1])
    drain(handle, mq)
    db.execute("create sequence asked")
    db.execute(
        "create function hiccups() returns trigger language plpgsql as "
        f"'begin if nextval(''asked'') = 1 then raise sqlstate ''{code}''; end if; return new; end'"
    )
    db.execute("create trigger hiccups before update on mqpg_offsets for each row execute function hiccups()")
    mq.send_batch("orders", [2])
    with pytest.raises(errors.DatabaseError):
        drain(handle, mq)
    drain(handle, mq)
    handle.close()
    assert (calls, effects(), letters(mq)) == ([1, 2, 2], [1, 2], [])


def test_a_retry_is_on_disk_before_it_is_acknowledged(
    mq: mqpg.Client, effects: Callable[[], list[int]], db: psycopg.Connection[Any]
) -> None:
    """Nothing gives it again, where the log gives what is lost behind an offset."""
    db.execute("create table said (id int, value text)")
    db.execute(
        "create function says() returns trigger language plpgsql as "
        "'begin insert into said values (new.id, current_setting(''synchronous_commit'')); return new; end'"
    )
    db.execute(
        "create constraint trigger late after insert on effect deferrable initially deferred "
        "for each row execute function says()"
    )

    def act(message: mqpg.Message, conn: sqlalchemy.Connection) -> None:
        conn.execute(text("set local synchronous_commit = off"))
        if message.payload == 2 and message.attempt == 1:
            raise ValueError("again")

    handle_four(mq, "own", act)
    assert effects() == [1, 2, 3, 4]
    assert db.execute("select value from said where id = 2").fetchall() == [("on",)]


@pytest.mark.parametrize("way", ["commit", "rollback", "commit; begin"])
async def test_a_transaction_that_asyncpg_ends(
    mq: mqpg.Client, amq: mqpg.AsyncClient, effects: Callable[[], list[int]], way: str
) -> None:
    """No effect is doubled. Behind `begin` it is not known which message did it."""
    await _handle_four_with_asyncpg(mq, amq, lambda driver: driver.execute(way))
    done, dead = effects(), {payload for payload, _ in letters(mq)}
    assert done == ([3, 4] if way == "rollback" else [1, 2, 3, 4] if way == "commit" else [1, 2])
    assert dead == ({1, 2, 3, 4} if "begin" in way else {1, 2})


async def test_a_statement_of_asyncpg_that_is_not_waited_for(
    mq: mqpg.Client, amq: mqpg.AsyncClient, effects: Callable[[], list[int]]
) -> None:
    kept = []

    async def leave(driver: Any) -> None:
        kept.append(asyncio.ensure_future(driver.execute("select pg_sleep(1)")))
        await asyncio.sleep(0)

    await _handle_four_with_asyncpg(mq, amq, leave)
    await asyncio.gather(*kept, return_exceptions=True)
    assert (effects(), [payload for payload, _ in letters(mq)]) == ([1, 3, 4], [2])


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg_async"])
async def test_a_connection_that_a_handler_gives_back(
    mq: mqpg.Client, amq: mqpg.AsyncClient, effects: Callable[[], list[int]], driver: str
) -> None:
    """Its locks do not stop the consumer. It is not known whether the handler had committed."""

    @mqpg.consumer(
        "orders", group="g", max_attempts=2, retry_delay=0, consumer="one",
        database=make_url(mq.dsn).set(drivername=f"postgresql+{driver}"),
    )  # fmt: skip
    async def handle(message: mqpg.Message, conn: AsyncConnection) -> None:
        await conn.execute(text("insert into effect values (:id)"), {"id": message.payload})
        if message.payload == 2:
            (await conn.get_raw_connection()).close()

    await _drain(handle, amq, mq)
    assert (effects(), sorted(payload for payload, _ in letters(mq))) == ([3, 4], [1, 2])


async def _handle_four_with_asyncpg(
    mq: mqpg.Client, amq: mqpg.AsyncClient, act: Callable[[Any], Awaitable[object]]
) -> None:
    """Let a handler insert the numbers 1 to 4, and `act` with the driver's connection behind 2."""

    @mqpg.consumer(
        "orders", group="g", max_attempts=2, retry_delay=0, consumer="one",
        database=make_url(mq.dsn).set(drivername="postgresql+asyncpg"),
    )  # fmt: skip
    async def handle(message: mqpg.Message, conn: AsyncConnection) -> None:
        await conn.execute(text("insert into effect values (:id)"), {"id": message.payload})
        if message.payload == 2:
            await act((await conn.get_raw_connection()).driver_connection)

    await _drain(handle, amq, mq)


async def _drain(consumer: Any, amq: mqpg.AsyncClient, mq: mqpg.Client) -> None:
    await consumer.step(amq)
    prove(consumer) if hasattr(consumer._site, "_proven") else None
    await amq.send_batch("orders", [1, 2, 3, 4])
    await amq.append()
    async with asyncio.timeout(60):
        while await consumer.step(amq) or not is_acknowledged(mq, "g"):
            await amq.append()
    await consumer.close()
