"""What the programs of all sides share. It needs nothing but Python, because each has its own environment."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

__all__ = ["PAYLOAD", "Measured", "drive", "main"]

PAYLOAD: dict[str, Any] = {"order": 7, "customer": "a name of some length", "amount": "12.50"}
Measured = tuple[int, float]  # how many, in how many seconds


async def drive(once: Callable[[], Awaitable[object]], tasks: int, seconds: float) -> Measured:
    """Call `once` again and again in `tasks` tasks for `seconds`."""
    await asyncio.gather(*(once() for _ in range(tasks)))
    count, began = 0, time.perf_counter()

    async def loop() -> None:
        nonlocal count
        while time.perf_counter() - began < seconds:
            await once()
            count += 1

    await asyncio.gather(*(loop() for _ in range(tasks)))
    return count, time.perf_counter() - began


def main(
    install: Callable[[str], Coroutine[Any, Any, None]],
    send: Callable[..., Coroutine[Any, Any, Measured]],
    consume: Callable[..., Coroutine[Any, Any, Measured]],
) -> None:
    """Do what the command line says: install DSN, send DSN TASKS SECONDS …, or consume DSN COUNT CONCURRENCY …."""
    action, dsn, *rest = sys.argv[1:]
    if action == "install":
        asyncio.run(install(dsn))
    elif action == "send":
        sys.stdout.write(json.dumps(asyncio.run(send(dsn, int(rest[0]), float(rest[1]), *rest[2:]))))
    else:
        sys.stdout.write(json.dumps(asyncio.run(consume(dsn, int(rest[0]), int(rest[1]), *rest[2:]))))
