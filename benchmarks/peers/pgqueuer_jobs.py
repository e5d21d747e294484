"""pgqueuer's part of the comparison: `pgqueuer_jobs.py ACTION DSN …`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.types import QueueExecutionMode

PAYLOAD = json.dumps({"order": 7, "customer": "a name of some length", "amount": "12.50"}).encode()
BATCH = 1000  # jobs taken at once; 10 by default


async def send(dsn: str, tasks: int, seconds: float) -> dict[str, float]:
    """Enqueue one job at a time in each of `tasks` tasks."""
    async with asyncpg.create_pool(dsn, min_size=16, max_size=16) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        await asyncio.gather(*(queries.enqueue("job", PAYLOAD) for _ in range(tasks)))
        count = 0
        began = time.perf_counter()

        async def loop() -> None:
            nonlocal count
            while time.perf_counter() - began < seconds:
                await queries.enqueue("job", PAYLOAD)
                count += 1

        await asyncio.gather(*(loop() for _ in range(tasks)))
        return {"count": count, "seconds": time.perf_counter() - began}


async def consume(dsn: str, count: int, concurrency: int) -> dict[str, float]:
    """Run `count` jobs. `concurrency` 0: as many at once as it takes, which is its fastest setting."""
    async with asyncpg.create_pool(dsn, min_size=16, max_size=16) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        for at in range(0, count, 1000):
            some = min(1000, count - at)
            await queries.enqueue(["job"] * some, [PAYLOAD] * some, [0] * some)
        worker = PgQueuer(driver)

        @worker.entrypoint("job")
        async def job(one: object) -> None:
            pass

        began = time.perf_counter()
        await worker.qm.run(
            dequeue_timeout=timedelta(seconds=0.1),
            batch_size=min(BATCH, concurrency // 2 or BATCH),
            mode=QueueExecutionMode.drain,
            max_concurrent_tasks=concurrency or None,
        )
        return {"count": count, "seconds": time.perf_counter() - began}


async def install(dsn: str) -> None:
    """Install its schema."""
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool:
        await Queries(AsyncpgPoolDriver(pool)).install()


def main(action: str, dsn: str, *rest: str) -> None:
    """Do what the command line says."""
    if action == "install":
        asyncio.run(install(dsn))
    elif action == "send":
        sys.stdout.write(json.dumps(asyncio.run(send(dsn, int(rest[0]), float(rest[1])))))
    else:
        sys.stdout.write(json.dumps(asyncio.run(consume(dsn, int(rest[0]), int(rest[1])))))


if __name__ == "__main__":
    main(*sys.argv[1:])
