"""What waiting costs: many empty topics that several groups read (`make idle`).

    python -m lab.bench.idle [--topics 1000] [--queues 8] [--groups 10] [--seconds 30] [--dsn …]

It prints the processor time of the server's processes, of the consumers' process and of the
appender, each as percent of one core. The server is an embedded one, or the one of `--dsn`, which
must be on this machine. The consumers are those of the library, one for each subscription, in one
process. The appender is `mqpg worker appender`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg

import mqpg
from mqpg import migrate
from mqpg.embedded import EmbeddedServer

__all__ = ["main"]

_PACE = 0.005
_TICK = os.sysconf("SC_CLK_TCK")


def _server_pids(dsn: str) -> list[int]:
    with psycopg.connect(dsn) as conn:
        row = conn.execute("select pg_backend_pid()").fetchone()
        assert row is not None
        postmaster = int(_stat(int(row[0]))[1])
    return [
        postmaster,
        *(int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and _parent(p) == postmaster),
    ]


def _parent(process: Path) -> int:
    try:
        return int(_stat(int(process.name))[1])
    except (OSError, IndexError):
        return -1


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()


def _cpus(dsn: str) -> dict[int, float]:
    return {pid: _cpu(pid) for pid in _server_pids(dsn)}


def _cpu(pid: int) -> float:
    try:
        found = _stat(pid)
    except OSError:
        return 0.0
    return (int(found[11]) + int(found[12])) / _TICK


def _set_up(dsn: str, topics: int, queues: int, groups: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("select mqpg.create_topic('t' || t, %s) from generate_series(1, %s) t", [queues, topics])
        conn.execute(
            "select mqpg.subscribe('g' || g, 't' || t) from generate_series(1, %s) t, generate_series(1, %s) g",
            [topics, groups],
        )
        conn.execute("vacuum analyze")


async def _wait_for_nothing(dsn: str, arguments: argparse.Namespace, appender: int) -> tuple[float, float, float]:
    """Wait until all is quiet, then measure.

    Returns:
        Processor seconds per second of the server, of the consumers' process, and of the appender.
    """
    async with await mqpg.connect_async(dsn, pool_max_size=4, pool_timeout=600) as mq:
        stop, consumers = asyncio.Event(), []
        for group in range(1, arguments.groups + 1):
            for topic in range(1, arguments.topics + 1):
                consumers.append(mqpg.consumer(f"t{topic}", group=f"g{group}", effect="external")(_handle))
        tasks = []
        for one in consumers:
            tasks.append(asyncio.create_task(one.run(mq, stop)))
            # Not all at the same time, because their first queries would wait for a connection.
            await asyncio.sleep(_PACE)
        await _wait_until_calm(tasks)
        server, own, appending, began = _cpus(dsn), time.process_time(), _cpu(appender), time.monotonic()
        await asyncio.sleep(arguments.seconds)
        took = time.monotonic() - began
        after = _cpus(dsn)
        spent = sum(after.get(pid, before) - before for pid, before in server.items()) / took
        client, appending = (time.process_time() - own) / took, (_cpu(appender) - appending) / took
        stop.set()
        await asyncio.gather(*tasks)
    return spent, client, appending


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


def _measure(dsn: str, arguments: argparse.Namespace) -> float:
    """Percent of one core, in total."""
    _set_up(dsn, arguments.topics, arguments.queues, arguments.groups)
    command = [sys.executable, "-m", "mqpg", "worker", "appender", "--log-level", "warning"]
    worker = subprocess.Popen(command, env=os.environ | {"MQPG_DATABASE_URL": dsn})
    try:
        server, client, appender = asyncio.run(_wait_for_nothing(dsn, arguments, worker.pid))
    finally:
        worker.terminate()
        worker.wait()
    print(f"{arguments.topics} topics x {arguments.queues} queues x {arguments.groups} groups, "
          f"{arguments.seconds} s idle, percent of one core:")  # fmt: skip
    for name, share in (("server, with append()", server), ("consumers", client), ("appender", appender)):
        print(f"{name:32}{share * 100:6.2f}")
    return (server + client + appender) * 100


def main() -> None:
    """Measure, and exit with status 1 above the limit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("topics", 1000), ("queues", 8), ("groups", 10), ("seconds", 30)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dsn", help="an empty database on a server of this machine; default: an embedded server")
    parser.add_argument(
        "--limit", type=float, default=5.0, help="largest total in percent of a core; above it the exit status is 1"
    )
    arguments = parser.parse_args()
    with ExitStack() as stack:
        dsn = arguments.dsn
        if dsn is None:
            dsn = stack.enter_context(EmbeddedServer()).create_database("idle")
        migrate.upgrade(dsn)
        total = _measure(dsn, arguments)
    if total > arguments.limit:
        sys.exit(f"{total:.2f} % is more than {arguments.limit:g} %")


if __name__ == "__main__":
    main()
