# ruff: noqa: PT012  (what raises is the end of the block)
"""The asynchronous library.

The generated twin has all the tests, and this module has what may differ.
"""

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, create_async_engine

import mqpg
from mqpg import errors
from mqpg.connection.dsn import to_sqlalchemy
from tests.support.business import INSERT


@pytest.fixture
async def engine(local_url: str) -> AsyncIterator[AsyncEngine]:
    url = to_sqlalchemy(local_url, asynchronous=True)
    # The synchronous twin of what is tested here has psycopg.
    engine = create_async_engine(url.set(drivername=url.drivername.replace("psycopg", "asyncpg")))
    async with engine.begin() as conn:
        await conn.execute(text("create table business (id int)"))
    yield engine
    await engine.dispose()


async def ids(engine: AsyncEngine) -> list[int]:
    async with engine.connect() as conn:
        return list((await conn.execute(text("select id from business order by id"))).scalars())


@pytest.mark.parametrize("options", [{}, {"database": "sqlite://"}, {"effect": "external"}])
async def test_a_consumer_wants_its_own_kind_of_client(
    mq: mqpg.Client, amq: mqpg.AsyncClient, options: dict[str, Any]
) -> None:
    @mqpg.consumer("orders", group="g", **options)
    def handle(message: mqpg.Message) -> None: ...

    @mqpg.consumer("orders", group="g", **options)
    async def handle_async(message: mqpg.Message) -> None: ...

    untyped: Any = (handle, handle_async, mq, amq)
    sync, other, client, async_client = untyped
    for call in (sync.step, lambda given: sync.run(given, threading.Event())):
        with pytest.raises(errors.ConfigurationError, match=r"runs with Client, as mqpg.connect gives it, not AsyncC"):
            call(async_client)
    for call in (other.step, lambda given: other.run(given, asyncio.Event())):
        with pytest.raises(errors.ConfigurationError, match=r"with AsyncClient, as mqpg.connect_async gives it, not C"):
            await call(client)


async def test_the_callers_transaction(amq: mqpg.AsyncClient, orders: str, dsn: str) -> None:
    engine = create_async_engine(to_sqlalchemy(dsn))
    await amq.subscribe("g", orders)
    raw = await psycopg.AsyncConnection.connect(dsn)
    async with engine.connect() as conn, AsyncSession(engine) as session, raw:
        callers: list[Any] = [conn, session, raw]
        for number, caller in enumerate(callers):
            await amq.send(orders, -1, conn=caller)
            await caller.rollback()
            await amq.send(orders, number, conn=caller)
            await caller.commit()
    assert await amq.append() == 3
    found = []
    while messages := await amq.receive("g", orders):
        found += [message.payload for message in messages]
        await messages.ack()
    assert sorted(found) == [0, 1, 2]
    await engine.dispose()


async def test_a_synchronous_connection_is_refused(amq: mqpg.AsyncClient, dsn: str) -> None:
    wanted = "conn must be a psycopg AsyncConnection, a SQLAlchemy AsyncConnection or AsyncSession, not "
    with psycopg.connect(dsn) as raw, create_engine("sqlite://").connect() as conn:
        for given, kind in ((raw, "psycopg.Connection"), (conn, "sqlalchemy.engine.base.Connection")):
            with pytest.raises(errors.InvalidArgument, match=re.escape(wanted + kind)):
                await amq.send("orders", 1, conn=given)  # type: ignore[arg-type]


async def test_errors(amq: mqpg.AsyncClient) -> None:
    with pytest.raises(errors.UnknownTopic):
        await amq.send("nowhere", 1)
    with pytest.raises(errors.ConnectionFailed, match=r"cannot connect to host=127\.0\.0\.1 port=1 dbname=x"):
        await mqpg.connect_async("postgresql://u@127.0.0.1:1/x")


async def test_producer(
    amq: mqpg.AsyncClient, orders: str, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await amq.subscribe("g", orders)
    async with mqpg.AsyncTransactionalProducer(amq, group="shop", ledger=engine) as producer:
        await producer.create_ledger()

        async def sell(number: int) -> None:
            async with producer.transaction(orders, number) as tx:
                await tx.execute(INSERT, {"id": number})
                if number % 2:
                    await tx.rollback()

        await asyncio.gather(*map(sell, range(4 if engine.dialect.name == "postgresql" else 1)))
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction(orders, 10) as tx:
                raise ZeroDivisionError
        assert tx.outcome is mqpg.Outcome.ROLLED_BACK
        async with AsyncSession(engine) as session, producer.transaction(orders, 12, conn=session) as tx:
            await session.execute(INSERT, {"id": 12})

        async def unreachable(*_: Any) -> None:
            return None

        monkeypatch.setattr("mqpg._async.producer.transactional.decide", unreachable)
        async with producer.transaction(orders, 14) as tx:
            await tx.execute(INSERT, {"id": 14})
            await tx.commit_payload("fourteen")
        assert await producer.recover(older_than=timedelta(0)) == 1
        done = await ids(engine)
        assert await amq.append() == len(done)
        with pytest.raises(errors.WrongState):
            await tx.execute(INSERT, {"id": 16})


@pytest.mark.parametrize("call", ["execute", "commit_payload", "add", "add_batch", "rollback"])
async def test_a_call_without_await_rolls_the_transaction_back(
    amq: mqpg.AsyncClient, orders: str, engine: AsyncEngine, call: str
) -> None:
    """Otherwise the placeholder payload is delivered, or the business change is missing."""
    arguments = {"execute": (INSERT, {"id": 2}), "add": (orders, 1), "add_batch": (orders, [1])}
    producer = mqpg.AsyncTransactionalProducer(amq, group="shop", ledger=engine)
    await producer.create_ledger()
    with pytest.raises(errors.WrongState, match=rf"tx\.{call}\(\) had no await"):
        async with producer.transaction(orders, {}) as tx:
            await tx.execute(INSERT, {"id": 1})
            getattr(tx, call)(*arguments.get(call, [{"total": 7}][: call == "commit_payload"]))
    assert tx.outcome is mqpg.Outcome.ROLLED_BACK
    assert await ids(engine) == []
    assert await amq.append() == 0


async def test_the_calls_of_a_transaction(amq: mqpg.AsyncClient, orders: str, engine: AsyncEngine) -> None:
    """What only the library may call is not offered."""
    producer = mqpg.AsyncTransactionalProducer(amq, group="shop", ledger=engine)
    await producer.create_ledger()
    async with producer.transaction(orders, {}) as tx:
        calls = {name for name in dir(tx) if not name.startswith("_") and callable(getattr(tx, name))}
        assert calls == {"add", "add_batch", "commit_payload", "execute", "rollback"}
        await asyncio.gather(*(tx.execute(INSERT, {"id": number}) for number in (1,)))
        await asyncio.create_task(tx.commit_payload("a task awaits it"))


async def test_ledger_verdicts(engine: AsyncEngine) -> None:
    ledger = mqpg.AsyncLedger(engine)
    await ledger.create()
    async with engine.connect() as conn:
        await ledger.begin(conn, "b.1.1.x")
        assert await ledger.verdict("b.1.1.x", lock_timeout=0.1) is mqpg.Verdict.WAIT
        await conn.commit()
    assert await ledger.verdict("b.1.1.x") is mqpg.Verdict.COMMIT
    assert await ledger.verdict("b.1.2.x") is mqpg.Verdict.ROLLBACK
    async with engine.connect() as conn:
        with pytest.raises(errors.Fenced):
            await ledger.begin(conn, "b.1.2.x")
    assert await ledger.purge(timedelta(0)) == 0


async def test_consumers(amq: mqpg.AsyncClient, engine: AsyncEngine, dsn: str) -> None:
    await amq.create_topic("orders", queues=1)
    async with amq.transaction() as conn:
        await conn.execute("create table seen (id int)")

    @mqpg.consumer("orders", group="here", retry_delay="10 ms")
    async def here(message: mqpg.Message, conn: psycopg.AsyncConnection[Any]) -> None:
        await conn.execute("insert into seen values (%s)", [message.payload])
        if message.payload == 3 and message.attempt == 1:
            raise ValueError("once")

    @mqpg.consumer(
        "orders", group="there", database=engine, consumer="one", batch=True, journal=True, retry_delay="10 ms"
    )
    async def there(messages: list[mqpg.Message], conn: AsyncConnection) -> None:
        await conn.execute(INSERT, [{"id": message.payload} for message in messages])
        if any(message.payload == 3 and message.attempt == 1 for message in messages):
            raise ValueError("once")

    assert isinstance(here, mqpg.AsyncConsumer)
    assert isinstance(there, mqpg.AsyncConsumer)
    stop = asyncio.Event()
    runs = [asyncio.create_task(one.run(amq, stop)) for one in (here, there)]
    await amq.send_batch("orders", list(range(6)), keys=["k"] * 6)
    async with asyncio.timeout(60):
        while True:
            await amq.append()
            async with amq.transaction() as conn:
                row = await (await conn.execute("select array_agg(id order by id) from seen")).fetchone()
            if row == (list(range(6)),) and await ids(engine) == list(range(6)):
                break
            await asyncio.sleep(0.1)
    stop.set()
    await asyncio.gather(*runs)


# one client in two event loops


@pytest.mark.parametrize("batching", [True, False])
def test_a_client_of_another_event_loop_is_refused(dsn: str, orders: str, batching: bool) -> None:
    loop = asyncio.new_event_loop()
    mq = loop.run_until_complete(mqpg.connect_async(dsn, batching=batching, pool_max_size=1))
    loop.run_until_complete(mq.send(orders, 1))

    async def several() -> None:
        async def in_transaction() -> None:
            async with mq.transaction():
                pass

        calls = [mq.send(orders, 2) for _ in range(3)]
        calls += [mq.append(), mq.receive("g", orders, wait=1), in_transaction(), mq.close()]  # type: ignore[list-item]
        for result in await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 10):
            assert isinstance(result, errors.ConfigurationError)
            assert "made in another event loop" in str(result)

    for _ in range(2):
        asyncio.run(several())
    assert loop.run_until_complete(mq.append()) == 1
    loop.run_until_complete(mq.close())
    loop.close()


async def test_a_client_of_another_thread_is_refused_while_its_own_loop_is_busy(
    amq: mqpg.AsyncClient, orders: str
) -> None:
    stop = asyncio.Event()

    async def send() -> None:
        while not stop.is_set():
            await asyncio.gather(*(amq.send(orders, 1) for _ in range(5)))

    async def refused() -> None:
        for _ in range(20):
            with pytest.raises(errors.ConfigurationError, match="another event loop"):
                await asyncio.wait_for(amq.send(orders, 2), 5)

    task = asyncio.ensure_future(send())
    await asyncio.to_thread(asyncio.run, refused())
    stop.set()
    await task
