"""Tasks that are cancelled while they work in a database of the user's: they end, and leave no lock behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

import mqpg
from mqpg import errors
from mqpg._async.producer.loop import run_periodically

# A connection that was still being opened is closed by its finalizer, which says so.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("finalized"),
]


# Each runs for seconds, unless it is cancelled.
SLOW = {
    "sqlite": "with recursive n (i) as (select 1 union all select i + 1 from n where i < 100000000) select max(i) from n",
    "postgresql": "select pg_sleep(60)",
}


@pytest_asyncio.fixture(params=["sqlite", "postgresql"])
async def engine(
    request: pytest.FixtureRequest, new_database: Callable[..., str], tmp_path: Path
) -> AsyncIterator[AsyncEngine]:
    """A user's database with a table `effect`."""
    if request.param == "sqlite":
        url = f"sqlite+aiosqlite:///{tmp_path / 'own.db'}"
    else:
        url = new_database(empty=True).replace("postgresql://", "postgresql+psycopg://", 1)
    made = create_async_engine(url)
    async with made.begin() as conn:
        await conn.execute(text("create table effect (id int)"))
    yield made
    await made.dispose()


async def effects(engine: AsyncEngine) -> list[int]:
    async with engine.connect() as conn:
        return [row[0] for row in await conn.execute(text("select id from effect order by id"))]


async def ends(task: asyncio.Task[None]) -> None:
    """It ends soon, and by its cancellation."""
    task.cancel()
    await asyncio.wait([task], timeout=45)
    assert task.cancelled()


@pytest.mark.parametrize("own", [True, False], ids=["url", "engine"])
async def test_a_consumer_that_is_cancelled_at_any_moment(
    dsn: str, orders: str, engine: AsyncEngine, own: bool, seed: int
) -> None:
    chance = random.Random(seed)
    database = engine.url.render_as_string(hide_password=False) if own else engine

    @mqpg.consumer(orders, group="g", database=database, consumer="c", max_messages=2)
    async def handle(message: mqpg.Message, conn: AsyncConnection) -> None:
        await conn.execute(text("insert into effect values (:id)"), {"id": message.payload})
        await asyncio.sleep(0.002)

    async with await mqpg.connect_async(dsn) as mq:
        await mq.subscribe("g", orders, "pinned", max_attempts=100)
        for number in range(60):
            await mq.send(orders, number, key=str(number))
        await mq.append()
        for times in range(500):
            task = asyncio.create_task(handle.run(mq, asyncio.Event()))
            await asyncio.sleep(0.02 * times * chance.random())
            await ends(task)
            if await effects(engine) == list(range(60)):
                break
        assert await effects(engine) == list(range(60))
        await handle.close()


async def test_a_consumer_that_is_cancelled_inside_a_statement(dsn: str, orders: str, engine: AsyncEngine) -> None:
    inside, calls = asyncio.Event(), 0

    @mqpg.consumer(orders, group="g", database=engine, consumer="c")
    async def handle(message: mqpg.Message, conn: AsyncConnection) -> None:
        nonlocal calls
        calls += 1
        await conn.execute(text("insert into effect values (1)"))
        if calls == 1:
            inside.set()
            await conn.execute(text(SLOW[engine.dialect.name]))

    async with await mqpg.connect_async(dsn) as mq:
        await mq.subscribe("g", orders, "pinned")
        await mq.send(orders, 1)
        await mq.append()
        task = asyncio.create_task(handle.run(mq, asyncio.Event()))
        await asyncio.wait_for(inside.wait(), 20)
        await asyncio.sleep(0.1)
        await ends(task)
        assert await asyncio.wait_for(handle.step(mq), 10) == 1
    assert await effects(engine) == [1]


@pytest.mark.parametrize("keep_messages", [False, True])
async def test_a_transaction_that_is_cancelled_inside_a_statement(
    dsn: str, orders: str, engine: AsyncEngine, keep_messages: bool
) -> None:
    inside = asyncio.Event()
    async with await mqpg.connect_async(dsn) as mq:
        producer = mqpg.AsyncTransactionalProducer(mq, ledger=engine, group="shop", keep_messages=keep_messages)
        await producer.ledger.create(keep_messages=keep_messages)

        async def sale(statement: str) -> None:
            async with producer.transaction(orders, 1) as tx:
                await tx.connection.execute(text("insert into effect values (1)"))
                inside.set()
                await tx.connection.execute(text(statement))

        task = asyncio.create_task(sale(SLOW[engine.dialect.name]))
        await asyncio.wait_for(inside.wait(), 20)
        await asyncio.sleep(0.1)
        await ends(task)
        assert await effects(engine) == []
        assert await mq.append() == 0
        await asyncio.wait_for(sale("select 1"), 10)
    assert await effects(engine) == [1]


async def test_a_wait_for_a_lock_that_is_cancelled(tmp_path: Path) -> None:
    """A connection apart from the pool, as check-backs use it."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'ledger.db'}")
    ledger = mqpg.AsyncLedger(engine)
    await ledger.create()

    async def ask(handle: str) -> None:
        await ledger.verdict(handle)

    async with engine.connect() as holder:
        await holder.exec_driver_sql("begin immediate")
        task = asyncio.create_task(ask("1.1.1"))
        await asyncio.sleep(0.2)
        await ends(task)
    for number in range(60):
        task = asyncio.create_task(ask(f"1.1.{number}"))
        await asyncio.sleep(0.0003 * number)
        task.cancel()
        await asyncio.wait([task], timeout=45)
    async with engine.begin() as conn:
        await asyncio.wait_for(conn.exec_driver_sql("begin immediate"), 45)
    await engine.dispose()


@pytest.mark.parametrize("answer", ["raises", "returns"])
async def test_a_loop_whose_cancellation_is_lost_in_an_error(answer: str) -> None:
    """What a driver raises in its clean-up, or code that catches it."""
    begun = asyncio.Event()

    async def work() -> int:
        begun.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            if answer == "raises":
                raise errors.ConnectionFailed("no answer to the rollback") from None
        return 0

    task = asyncio.create_task(run_periodically(work, asyncio.Event(), 0.01, "recovery"))
    await begun.wait()
    await ends(task)
