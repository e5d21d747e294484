"""The consumer of the Python library, in a latency cell."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import mqpg

from .jobs import PACE, UNCOUNTED, Job, Result, timed_messages

__all__ = ["consume_with_library"]


def consume_with_library(job: Job, wait_for_start: Callable[[], float]) -> Result:
    """Run a consumer with a handler in the delivery's transaction (C1); note each latency."""
    return asyncio.run(_consume(job, wait_for_start))


async def _consume(job: Job, wait_for_start: Callable[[], float]) -> Result:
    waits: list[float] = []
    ids: list[int] = []
    stop = asyncio.Event()
    wanted = timed_messages(job.cell)

    async def note(message: Any, conn: Any) -> None:
        waits.append(time.monotonic() - message.payload["sent_at"])
        ids.append(message.message_id)
        if len(ids) >= wanted:
            stop.set()

    consumer: Any = mqpg.consumer("bench", group="bench")(note)
    async with await mqpg.connect_async(job.dsn) as mq:
        running = asyncio.create_task(consumer.run(mq, stop))
        start = await asyncio.to_thread(wait_for_start)
        until = asyncio.create_task(asyncio.sleep(wanted * PACE + job.drain))
        await asyncio.wait({running, until}, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        until.cancel()
        await running
    ranges = [(0, one, one) for one in sorted(ids)]
    return Result(job.role, len(waits[UNCOUNTED:]), start, time.monotonic(), len(ids), ranges, waits[UNCOUNTED:])
