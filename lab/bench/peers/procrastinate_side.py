"""procrastinate's part of the comparison: `python -m lab.bench.peers.procrastinate_side ACTION DSN …`."""

from __future__ import annotations

import time

from procrastinate import App, PsycopgConnector

from .driving import PAYLOAD, Measured, drive, main


def application(dsn: str) -> App:
    """An app with one task that does nothing."""
    app = App(connector=PsycopgConnector(conninfo=dsn, min_size=16, max_size=16))
    app.task(name="job")(_nothing)
    return app


async def _nothing(**payload: object) -> None:
    pass


async def send(dsn: str, tasks: int, seconds: float) -> Measured:
    """Defer one job at a time in each of `tasks` tasks."""
    app = application(dsn)
    async with app.open_async():
        job = app.configure_task("job")
        return await drive(lambda: job.defer_async(**PAYLOAD), tasks, seconds)


async def consume(dsn: str, count: int, concurrency: int) -> Measured:
    """Run `count` jobs. They are deleted when they are done, which is the faster setting."""
    app = application(dsn)
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
        return count, time.perf_counter() - began


async def install(dsn: str) -> None:
    """Install its schema."""
    app = application(dsn)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


if __name__ == "__main__":
    main(install, send, consume)
