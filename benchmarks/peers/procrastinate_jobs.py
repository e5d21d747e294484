"""procrastinate's part of the comparison: `procrastinate_jobs.py ACTION DSN …`."""

from __future__ import annotations

import asyncio
import json
import sys
import time

from procrastinate import App, PsycopgConnector

PAYLOAD = {"order": 7, "customer": "a name of some length", "amount": "12.50"}


def application(dsn: str) -> App:
    """An app with one task that does nothing."""
    return App(connector=PsycopgConnector(conninfo=dsn, min_size=16, max_size=16))


async def send(dsn: str, tasks: int, seconds: float) -> dict[str, float]:
    """Defer one job at a time in each of `tasks` tasks."""
    app = application(dsn)
    app.task(name="job")(_nothing)
    count = 0
    async with app.open_async():
        job = app.configure_task("job")
        await asyncio.gather(*(job.defer_async(**PAYLOAD) for _ in range(tasks)))
        began = time.perf_counter()

        async def loop() -> None:
            nonlocal count
            while time.perf_counter() - began < seconds:
                await job.defer_async(**PAYLOAD)
                count += 1

        await asyncio.gather(*(loop() for _ in range(tasks)))
        return {"count": count, "seconds": time.perf_counter() - began}


async def _nothing(**payload: object) -> None:
    pass


async def consume(dsn: str, count: int, concurrency: int) -> dict[str, float]:
    """Run `count` jobs. They are deleted when they are done, which is the faster setting."""
    app = application(dsn)
    app.task(name="job")(_nothing)
    async with app.open_async():
        for at in range(0, count, 1000):
            await app.configure_task("job").batch_defer_async(*[PAYLOAD] * min(1000, count - at))
        began = time.perf_counter()
        await app.run_worker_async(
            concurrency=concurrency,
            wait=False,
            install_signal_handlers=False,
            listen_notify=False,
            delete_jobs="always",
        )
        return {"count": count, "seconds": time.perf_counter() - began}


async def install(dsn: str) -> None:
    """Install its schema."""
    app = application(dsn)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


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
