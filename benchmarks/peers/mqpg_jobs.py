"""mqpg's part of the comparison of Python job queues: `mqpg_jobs.py ACTION DSN …`.

The actions print {"count": …, "seconds": …} as JSON. `alone` turns batching off.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import psycopg

import mqpg
from mqpg import migrate

TOPIC = GROUP = "jobs"
PAYLOAD = {"order": 7, "customer": "a name of some length", "amount": "12.50"}


async def install(dsn: str) -> None:
    """Install the schema and what the other actions use."""
    migrate.upgrade(dsn)
    async with await mqpg.connect_async(dsn) as mq:
        await mq.create_topic(TOPIC)
        await mq.create_producer_group(GROUP)


async def send(dsn: str, tasks: int, seconds: float, how: str) -> dict[str, float]:
    """Send one message at a time in each of `tasks` tasks; with "half" prepare and commit one."""
    async with await mqpg.connect_async(dsn, batching="alone" not in how, pool_max_size=16) as mq:

        async def once() -> None:
            if "half" in how:
                await mq.commit(await mq.prepare(TOPIC, PAYLOAD, GROUP))
            else:
                await mq.send(TOPIC, PAYLOAD)

        return await drive(once, tasks, seconds)


async def drive(once: Any, tasks: int, seconds: float) -> dict[str, float]:
    """Call `once` again and again in `tasks` tasks for `seconds`."""
    await asyncio.gather(*(once() for _ in range(tasks)))
    count = 0
    began = time.perf_counter()

    async def loop() -> None:
        nonlocal count
        while time.perf_counter() - began < seconds:
            await once()
            count += 1

    await asyncio.gather(*(loop() for _ in range(tasks)))
    return {"count": count, "seconds": time.perf_counter() - began}


async def consume(dsn: str, count: int, concurrency: int, where: str) -> dict[str, float]:
    """Handle `count` messages by a handler that does nothing.

    `where`: "broker" is C1. The others are C3: "each" and "delivery" are what it acknowledges, and
    "batch" is a handler that takes whole deliveries.
    """
    stop = asyncio.Event()
    left = count

    def done(handled: int) -> None:
        nonlocal left
        left -= handled
        if not left:
            stop.set()

    async def broker(message: Any, conn: Any) -> None:
        done(1)

    async def external(message: Any) -> None:
        done(1)

    async def batch(messages: Any) -> None:
        done(len(messages))

    options: dict[str, Any] = {
        "broker": {},
        "each": {"effect": "external"},
        "delivery": {"effect": "external", "ack": "delivery"},
        "batch": {"effect": "external", "batch": True},
    }[where]
    handler = {"broker": broker, "batch": batch}.get(where, external)
    consumer: Any = mqpg.consumer(TOPIC, group=where, concurrency=concurrency, **options)(handler)
    async with await mqpg.connect_async(dsn, pool_max_size=16) as mq:
        await mq.subscribe(where, TOPIC)
        for at in range(0, count, 1000):
            await mq.send_batch(TOPIC, [PAYLOAD] * min(1000, count - at))
        await appended(dsn, count)
        began = time.perf_counter()
        await consumer.run(mq, stop)
        return {"count": count, "seconds": time.perf_counter() - began}


async def appended(dsn: str, count: int) -> None:
    """Wait until the appender has moved everything: the backlog is in the queues."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        while True:
            found = await (await conn.execute("select sum(n) from mqpg.consume_queue")).fetchone()
            if found is not None and (found[0] or 0) >= count:
                return
            await asyncio.sleep(0.05)


def main(action: str, dsn: str, *rest: str) -> None:
    """Do what the command line says."""
    if action == "install":
        asyncio.run(install(dsn))
    elif action == "send":
        sys.stdout.write(json.dumps(asyncio.run(send(dsn, int(rest[0]), float(rest[1]), rest[2]))))
    else:
        sys.stdout.write(json.dumps(asyncio.run(consume(dsn, int(rest[0]), int(rest[1]), rest[2]))))


if __name__ == "__main__":
    main(*sys.argv[1:])
