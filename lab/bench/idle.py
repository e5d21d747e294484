"""What waiting costs: many empty topics that several groups read (`make idle`).

    python -m lab.bench.idle [--topics 1000] [--queues 8] [--groups 10] [--seconds 30]

It prints the processor time of the server's processes, of the consumers' process and of the
appender, each as percent of one core. The consumers are those of the library, one for each
subscription, in one process. The appender is `mqpg worker appender`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import psutil
import psycopg

import mqpg
from mqpg import migrate
from mqpg.embedded import EmbeddedServer

__all__ = ["main"]

_PACE = 0.005  # seconds between two consumers that begin, because their first queries need a connection


def _set_up(dsn: str, topics: int, queues: int, groups: int) -> None:
    migrate.upgrade(dsn)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("select mqpg.create_topic('t' || t, %s) from generate_series(1, %s) t", [queues, topics])
        conn.execute(
            "select mqpg.subscribe('g' || g, 't' || t) from generate_series(1, %s) t, generate_series(1, %s) g",
            [topics, groups],
        )
        conn.execute("vacuum analyze")


class _Clock:
    """Processor seconds of the server, this process and the appender."""

    def __init__(self, server: EmbeddedServer, appender: int) -> None:
        assert server.pid is not None
        self._postmaster, self._others = psutil.Process(server.pid), [psutil.Process(), psutil.Process(appender)]

    def read(self) -> list[dict[psutil.Process, float]]:
        groups = [[self._postmaster, *self._postmaster.children()], *([one] for one in self._others)]
        return [dict(filter(None, map(_spent, group))) for group in groups]


def _spent(process: psutil.Process) -> tuple[psutil.Process, float] | None:
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return process, times.user + times.system
    return None


async def _wait_for_nothing(dsn: str, arguments: argparse.Namespace, clock: _Clock) -> list[float]:
    """Wait until all is quiet, then measure: percent of one core of each part."""
    async with await mqpg.connect_async(dsn, pool_max_size=4, pool_timeout=600) as mq:
        stop, tasks = asyncio.Event(), []
        for group in range(1, arguments.groups + 1):
            for topic in range(1, arguments.topics + 1):
                consumer: Any = mqpg.consumer(f"t{topic}", group=f"g{group}", effect="external")(_handle)
                tasks.append(asyncio.create_task(consumer.run(mq, stop)))
                await asyncio.sleep(_PACE)
        await _wait_until_calm(tasks)
        before, began = clock.read(), time.monotonic()
        await asyncio.sleep(arguments.seconds)
        took, after = time.monotonic() - began, clock.read()
        stop.set()
        await asyncio.gather(*tasks)
    return [
        100 * sum(now.get(process, then) - then for process, then in was.items()) / took
        for was, now in zip(before, after, strict=True)
    ]


async def _handle(message: mqpg.Message) -> None:
    """Never called, because nothing is sent."""


async def _wait_until_calm(tasks: list[asyncio.Task[Any]]) -> None:
    """Return once each consumer has looked for messages and waits."""
    calm = 0
    while calm < 3:
        before = time.process_time()
        await asyncio.sleep(1)
        calm = calm + 1 if time.process_time() - before < 0.2 else 0
        for task in tasks:
            if task.done():
                task.result()


def main() -> None:
    """Measure, and exit with status 1 above the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("topics", 1000), ("queues", 8), ("groups", 10), ("seconds", 30), ("limit", 5)):
        parser.add_argument(f"--{name}", type=int, default=default, help="default: %(default)s")
    arguments = parser.parse_args()
    with EmbeddedServer() as server:
        dsn = server.create_database("idle")
        _set_up(dsn, arguments.topics, arguments.queues, arguments.groups)
        command = [sys.executable, "-m", "mqpg", "worker", "appender", "--log-level", "warning"]
        worker = subprocess.Popen(command, env=os.environ | {"MQPG_DATABASE_URL": dsn})
        try:
            shares = asyncio.run(_wait_for_nothing(dsn, arguments, _Clock(server, worker.pid)))
        finally:
            worker.terminate()
            worker.wait()
    print(f"{arguments.topics} topics x {arguments.queues} queues x {arguments.groups} groups, percent of one core:")
    for name, share in zip(("server, with append()", "consumers", "appender"), shares, strict=True):
        print(f"{name:32}{share:6.2f}")
    if sum(shares) > arguments.limit:
        sys.exit(f"{sum(shares):.2f} % is more than {arguments.limit} %")


if __name__ == "__main__":
    main()
