"""A task that is cancelled at any moment ends, and the pool keeps its connections.

`make test-cancel` makes more calls (CALLS, 100000).
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import text

import mqpg
from mqpg._async import _acompat

CALLS = int(os.environ.get("MQPG_TEST_CALLS", "600"))
Call = Callable[[], Awaitable[object]]

# A connection that was still being opened is closed by its finalizer, which says so.
pytestmark = [
    pytest.mark.timeout(180 + CALLS // 20),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.usefixtures("finalized"),
]


async def calls_of(mq: mqpg.AsyncClient, ledger: mqpg.AsyncLedger) -> list[Call]:
    async def received() -> None:
        if delivery := await mq.receive("g", "orders", 1):
            await delivery.ack()

    async def in_transaction() -> None:
        async with mq.transaction() as conn:
            await mq.send("orders", 1, conn=conn)
            await conn.execute("select 1")

    async def half() -> None:
        await mq.commit(await mq.prepare("orders", 1, "shop"))

    async def waiting() -> None:
        await mq.receive("g", "orders", wait=0.01)

    async def in_ledger() -> None:
        await ledger.mark_done(["none"])

    return [received, in_transaction, half, waiting, in_ledger, lambda: mq.send("orders", 1), mq.append]


async def require_whole(mq: mqpg.AsyncClient, size: int) -> None:
    """All connections can be used at the same time."""
    together = asyncio.Barrier(size)

    async def hold() -> None:
        async with mq.transaction() as conn:
            await conn.execute("select 1")
            await together.wait()

    def stats() -> tuple[int, ...]:
        found: dict[str, int] = mq._pool.get_stats()
        return found["pool_size"], found["pool_available"], found["requests_waiting"]

    await asyncio.wait_for(asyncio.gather(*(hold() for _ in range(size))), 45)
    async with asyncio.timeout(45):
        while stats() != (size, size, 0):
            await asyncio.sleep(0.01)


async def test_cancelled_calls(dsn: str, orders: str, seed: int) -> None:
    chance, ended = random.Random(seed), Counter[str]()
    async with await mqpg.connect_async(dsn, pool_max_size=4) as mq:
        await mq.subscribe("g", orders, mode="shared")
        ledger = mqpg.AsyncLedger(dsn)
        await ledger.create()
        calls = await calls_of(mq, ledger)

        async def work(many: int) -> None:
            for _ in range(many):
                limit = chance.random() * chance.choice([0.001, 0.004, 0.02, 0.1])
                try:
                    if chance.random() < 0.3:
                        with anyio.move_on_after(limit):
                            await chance.choice(calls)()
                    else:
                        await asyncio.wait_for(chance.choice(calls)(), limit)
                    ended["in time"] += 1
                except TimeoutError:
                    ended["cancelled"] += 1

        await asyncio.gather(*(work(CALLS // 10) for _ in range(10)))
        await require_whole(mq, 4)
        async with ledger.database.engine.connect() as conn:
            await conn.execute(text("select 1"))
        await ledger.close()
    assert ended.total() == CALLS // 10 * 10
    assert ended["cancelled"]


@pytest.mark.parametrize("call", range(7))
async def test_a_task_that_is_cancelled_once_ends(dsn: str, orders: str, call: int, seed: int) -> None:
    chance = random.Random(seed)
    ledger = mqpg.AsyncLedger(dsn)
    await ledger.create()
    for _ in range(max(1, CALLS // 1000)):
        async with await mqpg.connect_async(dsn, pool_max_size=3) as mq:
            await mq.subscribe("g", orders, mode="shared")
            one = (await calls_of(mq, ledger))[call]

            async def again(one: Call = one) -> None:
                while True:
                    await one()
                    await asyncio.sleep(0)

            tasks = [asyncio.ensure_future(again()) for _ in range(12)]
            await asyncio.sleep(chance.uniform(0.02, 0.3))
            for task in tasks:
                task.cancel()
                await asyncio.sleep(chance.uniform(0, 0.002))
            _, pending = await asyncio.wait(tasks, timeout=20)
            assert not pending
            assert all(task.cancelled() for task in tasks)
            await require_whole(mq, 3)
    await ledger.close()


async def test_a_wait_that_ends_as_its_task_is_cancelled() -> None:
    event = asyncio.Event()
    task = asyncio.ensure_future(_acompat.wait_for(event, 5))
    await asyncio.sleep(0)
    event.set()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() or not task.cancelling()  # it had ended before


@pytest.mark.parametrize("times", [1, 5])
async def test_a_connection_comes_back_while_its_task_is_cancelled(
    dsn: str, orders: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await mqpg.connect_async(dsn, pool_max_size=1) as mq:
        await mq.send(orders, 1)
        locked = mq._pool._lock
        await locked.acquire()  # another task uses the pool
        task = asyncio.ensure_future(mq._pool.putconn(await take_behind(mq, locked)))
        for _ in range(times):
            await asyncio.sleep(0.01)
            task.cancel()
        locked.release()
        await asyncio.wait([task], timeout=45)
        assert task.cancelled()
        await require_whole(mq, 1)


async def take_behind(mq: mqpg.AsyncClient, lock: asyncio.Lock) -> Any:
    lock.release()
    conn = await mq._take()
    await lock.acquire()
    return conn


async def count_a_cancellation() -> None:
    """Leave the count of cancellations as a TaskGroup that fails does before Python 3.13, and older time limits do."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    assert task.cancelling() > 0


@pytest.mark.parametrize("timeout", [None, 60])
@pytest.mark.parametrize("kind", ["broker", "database", "external"])
async def test_a_task_group_that_fails_in_a_handler_is_its_failure(
    amq: mqpg.AsyncClient, tmp_path: Path, kind: str, timeout: float | None
) -> None:
    await amq.create_topic("orders", queues=1)
    seen: list[int] = []
    stop = asyncio.Event()

    async def fail() -> None:
        raise ValueError("of the group")

    async def handle(message: mqpg.Message) -> None:
        seen.append(message.payload)
        if message.payload == 2:
            stop.set()
            return
        if message.payload == 0:
            await count_a_cancellation()
            raise KeyError
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    options: dict[str, Any] = {"external": {"effect": "external"}}.get(kind, {})
    if kind == "database":
        options = {"database": f"sqlite:///{tmp_path}/local.db", "consumer": "one"}
    consumer = mqpg.consumer("orders", group="g", timeout=timeout, max_messages=1, max_attempts=1, **options)(handle)
    await amq.subscribe("g", "orders", consumer.options.wanted_mode, max_attempts=1)
    await amq.send_batch("orders", [0, 1, 2], keys=["k"] * 3)
    await amq.append()
    await consumer.run(amq, stop)
    await consumer.close()
    assert seen == [0, 1, 2]
    assert sorted(letter.payload for letter in await amq.dead_letters("g", "orders")) == [0, 1]


async def test_an_error_stays_what_it_is_in_a_task_that_was_cancelled_once(amq: mqpg.AsyncClient) -> None:
    await amq.create_topic("orders", queues=1)

    @mqpg.consumer("orders", group="g", max_attempts=1)
    async def bill(message: mqpg.Message) -> None:
        raise ValueError

    await bill.step(amq)
    await amq.send("orders", 1)
    await amq.append()

    async def later() -> None:
        await count_a_cancellation()
        with pytest.raises(mqpg.errors.UnknownTopic):
            await amq.send("none", 1)
        assert await bill.step(amq) == 1

    await asyncio.create_task(later())
    assert [letter.payload for letter in await amq.dead_letters("g", "orders")] == [1]


@pytest.mark.parametrize("kind", ["broker", "external"])
async def test_what_a_task_of_a_group_asks_for(amq: mqpg.AsyncClient, kind: str) -> None:
    """Reject and Retry count inside of a group, and a lost race of the given connection counts no attempt."""
    await amq.create_topic("orders", queues=1)
    attempts: list[tuple[int, int]] = []

    async def ask(error: Exception) -> None:
        raise error

    async def lose(conn: Any) -> None:
        await conn.execute("do $$ begin raise exception 'lost' using errcode = '40001'; end $$")

    async def handle(message: mqpg.Message, conn: Any = None) -> None:
        attempts.append((message.payload, message.attempt))
        async with asyncio.TaskGroup() as group:
            if message.payload == 0:
                group.create_task(ask(mqpg.Reject("no address")))
            elif message.payload == 1 and message.attempt == 1:
                group.create_task(ask(mqpg.Retry("later", delay=3600)))
            elif message.payload == 2 and conn is not None and attempts.count((2, 1)) == 1:
                group.create_task(lose(conn))

    options: dict[str, Any] = {"effect": "external"} if kind == "external" else {}
    consumer = mqpg.consumer("orders", group="g", max_messages=1, retry_delay=0, **options)(handle)
    await consumer.step(amq)
    for number in range(3):
        await amq.send("orders", number, key="k")
    await amq.append()
    for _ in range(6):
        with suppress(ExceptionGroup):
            await consumer.step(amq)
    assert [(one.payload, one.reason) for one in await amq.dead_letters("g", "orders")] == [(0, "no address")]
    assert attempts == [(0, 1), (1, 1), (2, 1)] + ([(2, 1)] if kind == "broker" else [])
