# ruff: noqa: PT012  (what raises is the end of the block)
"""Blocks of a producer that end their local transaction by means that SQLAlchemy does not notice.

What the ledger says when the block is over decides: no message is sent without its business, and none is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import mqpg
from mqpg import errors
from mqpg.connection.dsn import to_sqlalchemy
from mqpg.protocols import OutboxProducer
from tests.support.business import INSERT, business, business_at, delivered
from tests.support.servers import temporary_server

pytestmark = pytest.mark.shared_database

Act = Callable[[Connection], object]


@pytest.fixture
def engine(local_url: str) -> Iterator[Engine]:
    with business_at(local_url) as engine:
        yield engine


@pytest.fixture
def shop(new_database: Callable[..., str]) -> Iterator[Engine]:
    """A business in PostgreSQL."""
    with business_at(to_sqlalchemy(new_database(empty=True)).render_as_string(hide_password=False)) as engine:
        yield engine


def made(mq: mqpg.Client, engine: Engine, kind: str = "ledger") -> Any:
    if kind == "outbox":
        outbox = OutboxProducer(mq, database=engine, group="shop")
        outbox.create_outbox()
        return outbox
    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=engine)
    producer.create_ledger()
    return producer


def driver(conn: Connection) -> Any:
    return conn.connection.driver_connection


def sends(*statements: str) -> Act:
    """Sends statements through the driver."""

    def act(conn: Connection) -> None:
        for statement in statements:
            cursor = conn.connection.cursor()
            cursor.execute(statement)
            cursor.close()

    return act


UNDO: dict[str, tuple[Act, Act]] = {
    "statements": (sends("rollback", "begin"), sends("commit", "begin")),
    "the driver": (lambda conn: driver(conn).rollback(), lambda conn: driver(conn).commit()),
}


@pytest.mark.parametrize("kind", ["ledger", "outbox"])
@pytest.mark.parametrize("way", UNDO)
def test_a_block_that_rolls_back_and_begins_again_sends_nothing(
    mq: mqpg.Client, orders: str, engine: Engine, way: str, kind: str
) -> None:
    mq.subscribe("readers", orders)
    producer = made(mq, engine, kind)
    with pytest.raises(errors.WrongState, match="no ledger row"), producer.transaction(orders, 1) as tx:
        tx.execute(INSERT, {"id": 1})
        UNDO[way][0](tx.connection)
        tx.execute(INSERT, {"id": 2})
    assert producer.recover(older_than=timedelta(0)) == (1 if kind == "outbox" and tx.outcome is None else 0)
    assert (business(engine), delivered(mq, orders)) == ([], [])
    assert mq.rollback(tx.handle) is mqpg.Outcome.ALREADY_ROLLED_BACK


@pytest.mark.parametrize("kind", ["ledger", "outbox"])
@pytest.mark.parametrize("way", UNDO)
@pytest.mark.parametrize("fails", [False, True])
def test_a_block_that_commits_and_begins_again_sends(
    mq: mqpg.Client, orders: str, engine: Engine, way: str, kind: str, fails: bool
) -> None:
    mq.subscribe("readers", orders)
    producer = made(mq, engine, kind)
    try:
        with producer.transaction(orders, 1) as tx:
            tx.execute(INSERT, {"id": 1})
            UNDO[way][1](tx.connection)
            tx.execute(INSERT, {"id": 2})
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        producer.recover(older_than=timedelta(0))
    assert (business(engine), delivered(mq, orders)) == ([1] if fails else [1, 2], [1])


# What only PostgreSQL has. The second value: the business that is committed.
POSTGRESQL: dict[str, tuple[Act, list[int]]] = {
    sql: (lambda conn, sql=sql: conn.exec_driver_sql(sql), found)  # type: ignore[misc]
    for sql, found in {
        "rollback; begin": [],
        "select 1; rollback; begin": [],
        "rollback and chain": [],
        "abort and chain": [],
        "rollback; begin isolation level serializable": [],
        "rollback; start transaction; set local search_path = pg_catalog, public": [],
        "commit; begin": [1, 2],
        "commit and chain": [1, 2],
        "end and chain": [1, 2],
        "commit": [1, 2],
        "set local role none; reset all": [1, 2],
        "set session_replication_role = replica": [1, 2],
        "set constraints all deferred": [1, 2],
        "savepoint mqpg_commit": [1, 2],
        "do $$ begin perform 1; exception when others then null; end $$": [1, 2],
    }.items()
}


def test_a_pipeline_of_psycopg_is_refused(mq: mqpg.Client, orders: str, shop: Engine) -> None:
    mq.subscribe("readers", orders)
    producer = made(mq, shop)
    refused = pytest.raises(errors.WrongState, match="pipeline mode")
    with shop.connect() as conn, driver(conn).pipeline(), refused, producer.transaction(orders, 1, conn=conn):
        pass
    with ExitStack() as left_open, refused, producer.transaction(orders, 1) as tx:
        tx.execute(INSERT, {"id": 1})
        left_open.enter_context(driver(tx.connection).pipeline())
    with producer.transaction(orders, 2) as tx, driver(tx.connection).pipeline():
        sends("insert into business values (2)")(tx.connection)
    assert (business(shop), delivered(mq, orders)) == ([2], [2])


@pytest.mark.parametrize("with_session", [False, True], ids=["connection", "session"])
@pytest.mark.parametrize("sql", POSTGRESQL)
def test_statements_of_postgresql(mq: mqpg.Client, orders: str, shop: Engine, sql: str, with_session: bool) -> None:
    mq.subscribe("readers", orders)
    producer = made(mq, shop)
    act, found = POSTGRESQL[sql]
    with (Session if with_session else Engine.connect)(shop) as conn:
        try:
            with producer.transaction(orders, 1, conn=conn) as tx:
                tx.execute(INSERT, {"id": 1})
                act(tx.connection)
                tx.execute(INSERT, {"id": 2})
        except errors.WrongState:
            assert found == []
            assert tx.outcome is mqpg.Outcome.ROLLED_BACK
        # What was lent can be used as before.
        with producer.transaction(orders, 2, conn=conn) as tx:
            tx.execute(INSERT, {"id": 3})
    assert (business(shop), delivered(mq, orders)) == ([*found, 3], [1, 2] if found else [2])


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
@pytest.mark.parametrize("way", ["rollback; begin", "commit; begin", "select 1"])
async def test_asynchronously(amq: mqpg.AsyncClient, orders: str, shop: Engine, way: str, driver: str) -> None:
    engine: AsyncEngine = create_async_engine(shop.url.set(drivername=f"postgresql+{driver}"))
    producer = mqpg.AsyncTransactionalProducer(amq, group="shop", ledger=engine)
    await producer.create_ledger()
    kept = not way.startswith("rollback")
    for lent in (None, AsyncSession(engine)):
        try:
            async with producer.transaction(orders, 1, conn=lent) as tx:
                await tx.execute(INSERT, {"id": 1})
                for sql in way.split("; "):
                    await tx.connection.exec_driver_sql(sql)
        except errors.WrongState:
            pass
        assert tx.outcome is (mqpg.Outcome.COMMITTED if kept else mqpg.Outcome.ROLLED_BACK)
        assert business(shop) == [1] * kept
        with shop.begin() as conn:
            conn.execute(text("delete from business"))
        if lent is not None:
            await lent.close()
    await engine.dispose()


def test_a_transaction_that_the_block_has_prepared_is_left_to_the_ledger(mq: mqpg.Client, orders: str) -> None:
    """It may still be committed, and its message would be missing."""
    mq.subscribe("readers", orders)
    with (
        temporary_server(settings={"max_prepared_transactions": "2", "fsync": "off"}) as server,
        business_at(to_sqlalchemy(server.dsn("postgres")).render_as_string(hide_password=False)) as shop,
    ):
        _leave_prepared(mq, orders, shop)


def _leave_prepared(mq: mqpg.Client, orders: str, shop: Engine) -> None:
    producer = made(mq, shop)
    with pytest.raises(errors.WrongState, match="no ledger row"), producer.transaction(orders, 1) as tx:
        tx.execute(INSERT, {"id": 1})
        tx.connection.exec_driver_sql("prepare transaction 'of a block'")
    assert tx.outcome is None
    assert producer.ledger.verdict(tx.handle, lock_timeout=0.1) is mqpg.Verdict.WAIT
    with shop.connect() as conn:
        conn.execution_options(isolation_level="AUTOCOMMIT").execute(text("commit prepared 'of a block'"))
    producer.recover(older_than=timedelta(0))
    assert (business(shop), delivered(mq, orders)) == ([1], [1])


@pytest.mark.parametrize("sql", ["set local role {}", "set role {}", "set local search_path = elsewhere"])
def test_a_role_or_a_path_of_the_block_hides_the_ledger(mq: mqpg.Client, orders: str, shop: Engine, sql: str) -> None:
    """The transaction is the same, so that nobody has to look for its row."""
    mq.subscribe("readers", orders)
    role = f"tenant_of_{shop.url.database}"
    producer = made(mq, shop)
    with shop.begin() as conn:
        conn.exec_driver_sql("create schema elsewhere")
        conn.exec_driver_sql(f"create role {role}")
        conn.exec_driver_sql(f"grant all on business to {role}")
    try:
        with producer.transaction(orders, 1) as tx:
            tx.execute(INSERT, {"id": 1})
            tx.connection.exec_driver_sql(sql.format(role))
        assert tx.outcome is mqpg.Outcome.COMMITTED
    finally:
        shop.dispose()
        with shop.begin() as conn:
            conn.exec_driver_sql(f"drop owned by {role}")
            conn.exec_driver_sql(f"drop role {role}")
    assert (business(shop), delivered(mq, orders)) == ([1], [1])


def test_a_hook_that_ends_the_transaction_just_before_the_commit(mq: mqpg.Client, orders: str, shop: Engine) -> None:
    mq.subscribe("readers", orders)
    producer = made(mq, shop)
    with Session(shop) as session:
        event.listen(session, "before_commit", lambda of: of.connection().exec_driver_sql("rollback; begin"))
        with pytest.raises(errors.WrongState, match="no ledger row"), producer.transaction(orders, 1, conn=session):
            session.execute(INSERT, {"id": 1})
    assert (business(shop), delivered(mq, orders)) == ([], [])


def test_a_session_that_takes_part_in_another_transaction(mq: mqpg.Client, orders: str, engine: Engine) -> None:
    """Its commit() commits nothing."""
    mq.subscribe("readers", orders)
    producer = made(mq, engine)
    with engine.connect() as outer, outer.begin() as transaction:
        with (
            Session(outer) as session,
            pytest.raises(errors.InvalidArgument, match="conn is in a transaction"),
            producer.transaction(orders, 1, conn=session),
        ):
            session.execute(INSERT, {"id": 1})
        transaction.rollback()
    assert (business(engine), delivered(mq, orders)) == ([], [])
    with engine.connect() as outer, Session(outer) as session, producer.transaction(orders, 2, conn=session):
        session.execute(INSERT, {"id": 2})
    assert (business(engine), delivered(mq, orders)) == ([2], [2])


def test_an_error_of_the_commit_stays_what_it_is(mq: mqpg.Client, orders: str, shop: Engine) -> None:
    """Also one that the look raises if the transaction is another one."""
    mq.subscribe("readers", orders)
    producer = made(mq, shop)
    with shop.begin() as conn:
        conn.exec_driver_sql(
            "create function fails() returns trigger language plpgsql as 'begin perform 1 / (new.id - 1); return new; end'"
        )
        conn.exec_driver_sql(
            "create constraint trigger late after insert on business deferrable initially deferred "
            "for each row execute function fails()"
        )
    with pytest.raises(Exception, match="division by zero") as caught, producer.transaction(orders, 1) as tx:
        tx.execute(INSERT, {"id": 1})
    assert isinstance(getattr(caught.value, "orig", None), psycopg.errors.DivisionByZero)
    assert tx.outcome is mqpg.Outcome.ROLLED_BACK
    with producer.transaction(orders, 2) as tx:
        tx.execute(INSERT, {"id": 2})
    assert (business(shop), delivered(mq, orders)) == ([2], [2])


def test_the_local_commit_is_durable_though_the_block_has_switched_that_off(
    mq: mqpg.Client, orders: str, shop: Engine
) -> None:
    """The message is sent right after it, and a crash must not take the business away."""
    producer = made(mq, shop)
    with shop.begin() as conn:
        conn.exec_driver_sql("create table said (value text)")
        conn.exec_driver_sql(
            "create function says() returns trigger language plpgsql as "
            "'begin insert into said values (current_setting(''synchronous_commit'')); return new; end'"
        )
        conn.exec_driver_sql(
            "create constraint trigger late after insert on business deferrable initially deferred "
            "for each row execute function says()"
        )
    for number, sql in enumerate(
        ("select 1", "set local synchronous_commit = off", "commit; begin; set local synchronous_commit = off")
    ):
        with producer.transaction(orders, 1) as tx:
            tx.connection.exec_driver_sql(sql)
            tx.execute(INSERT, {"id": number})
    with shop.connect() as conn:
        assert conn.execute(text("select value from said")).scalars().all() == ["on"] * 3


@pytest.mark.parametrize("committed", [False, True])
def test_a_session_that_is_lost_in_the_block(mq: mqpg.Client, orders: str, shop: Engine, committed: bool) -> None:
    mq.subscribe("readers", orders)
    producer = made(mq, shop)
    with pytest.raises(DBAPIError), producer.transaction(orders, 1) as tx:
        tx.execute(INSERT, {"id": 1})
        if committed:
            tx.connection.exec_driver_sql("commit; begin")
        tx.connection.exec_driver_sql("select pg_terminate_backend(pg_backend_pid())")
    assert tx.outcome is not mqpg.Outcome.COMMITTED
    assert producer.ledger.verdict(tx.handle) is (mqpg.Verdict.COMMIT if committed else mqpg.Verdict.ROLLBACK)
    producer.recover(older_than=timedelta(0))
    assert (business(shop), delivered(mq, orders)) == ([1] * committed, [1] * committed)


def test_a_session_with_two_phases(mq: mqpg.Client, orders: str) -> None:
    mq.subscribe("readers", orders)
    with (
        temporary_server(settings={"max_prepared_transactions": "2", "fsync": "off"}) as server,
        business_at(to_sqlalchemy(server.dsn("postgres")).render_as_string(hide_password=False)) as shop,
    ):
        producer = made(mq, shop)
        for number, (sql, raises) in enumerate(TWO_PHASES.items()):
            with (
                Session(shop, twophase=True) as session,
                pytest.raises(raises) if raises else nullcontext(),
                producer.transaction(orders, number, conn=session) as tx,
            ):
                session.execute(INSERT, {"id": number})
                session.connection().exec_driver_sql(sql)
            assert tx.outcome is (mqpg.Outcome.ROLLED_BACK if raises else mqpg.Outcome.COMMITTED)
        assert (business(shop), delivered(mq, orders)) == ([0], [0])


TWO_PHASES = {"select 1": None, "select 1 / 0": DBAPIError, "rollback; begin": errors.WrongState}
