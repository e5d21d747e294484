"""mqpg's part of the comparison of Python job queues: `python -m lab.bench.peers.mqpg_side ACTION DSN …`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg

import mqpg
from mqpg import migrate

from .driving import PAYLOAD, Measured, drive, main

TOPIC = GROUP = "jobs"


async def install(dsn: str) -> None:
    """Install the schema and what the other actions use."""
    migrate.upgrade(dsn)
    async with await mqpg.connect_async(dsn) as mq:
        await mq.create_topic(TOPIC)
        await mq.create_producer_group(GROUP)


async def send(dsn: str, tasks: int, seconds: float, how: str) -> Measured:
    """Send one message at a time in each of `tasks` tasks.

    With "half" in `how`, prepare and commit one. With "alone" there is no batching.
    """
    async with await mqpg.connect_async(dsn, batching="alone" not in how, pool_max_size=16) as mq:

        async def once() -> None:
            if "half" in how:
                await mq.commit(await mq.prepare(TOPIC, PAYLOAD, GROUP))
            else:
                await mq.send(TOPIC, PAYLOAD)

        return await drive(once, tasks, seconds)


async def consume(dsn: str, count: int, concurrency: int, where: str) -> Measured:
    """Handle `count` messages by a handler that does nothing.

    `where`: "broker" is C1. The others are C3: "each" and "delivery" are what it acknowledges, and
    "batch" is a handler that takes whole deliveries.
    """
    stop, left = asyncio.Event(), count

    def done(handled: int) -> None:
        nonlocal left
        left -= handled
        if not left:
            stop.set()

    async def broker(message: Any, conn: Any) -> None:
        done(1)

    async def external(message: Any) -> None:
        done(len(message) if where == "batch" else 1)

    every: dict[str, dict[str, Any]] = {
        "broker": {},
        "each": {"effect": "external"},
        "delivery": {"effect": "external", "ack": "delivery"},
        "batch": {"effect": "external", "batch": True},
    }
    handler = broker if where == "broker" else external
    consumer: Any = mqpg.consumer(TOPIC, group=where, concurrency=concurrency, **every[where])(handler)
    async with await mqpg.connect_async(dsn, pool_max_size=16) as mq:
        await mq.subscribe(where, TOPIC)
        for at in range(0, count, 1000):
            await mq.send_batch(TOPIC, [PAYLOAD] * min(1000, count - at))
        await _appended(dsn, count)
        began = time.perf_counter()
        await consumer.run(mq, stop)
        return count, time.perf_counter() - began


async def _appended(dsn: str, count: int) -> None:
    """Wait until the appender has moved everything: the backlog is in the queues."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        while True:
            found = await (await conn.execute("select sum(n) from mqpg.consume_queue")).fetchone()
            if found is not None and (found[0] or 0) >= count:
                return
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    main(install, send, consume)
