"""pgqueuer's part of the comparison: `python -m lab.bench.peers.pgqueuer_side ACTION DSN …`."""

from __future__ import annotations

import json
import time
from datetime import timedelta

import asyncpg
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.types import QueueExecutionMode

from .driving import PAYLOAD, Measured, drive, main

DOCUMENT = json.dumps(PAYLOAD).encode()
BATCH = 1000  # jobs taken at once; 10 by default


async def send(dsn: str, tasks: int, seconds: float) -> Measured:
    """Enqueue one job at a time in each of `tasks` tasks."""
    async with asyncpg.create_pool(dsn, min_size=16, max_size=16) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        return await drive(lambda: queries.enqueue("job", DOCUMENT), tasks, seconds)


async def consume(dsn: str, count: int, concurrency: int) -> Measured:
    """Run `count` jobs. `concurrency` 0: as many at once as it takes, which is its fastest setting."""
    async with asyncpg.create_pool(dsn, min_size=16, max_size=16) as pool:
        driver = AsyncpgPoolDriver(pool)
        for at in range(0, count, 1000):
            some = min(1000, count - at)
            await Queries(driver).enqueue(["job"] * some, [DOCUMENT] * some, [0] * some)
        worker = PgQueuer(driver)

        @worker.entrypoint("job")  # type: ignore[untyped-decorator]
        async def job(one: object) -> None:
            pass

        began = time.perf_counter()
        await worker.qm.run(
            dequeue_timeout=timedelta(seconds=0.1),
            batch_size=min(BATCH, concurrency // 2 or BATCH),
            mode=QueueExecutionMode.drain,
            max_concurrent_tasks=concurrency or None,
        )
        return count, time.perf_counter() - began


async def install(dsn: str) -> None:
    """Install its schema."""
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool:
        await Queries(AsyncpgPoolDriver(pool)).install()


if __name__ == "__main__":
    main(install, send, consume)
