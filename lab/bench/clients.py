"""Client processes: they are started once, and get jobs that begin at the same moment."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import cycle
from multiprocessing.synchronize import Event
from typing import Any

import mqpg

from .cells import Cell, Kind
from .client import Link, bodies, connected, int8
from .sides import SIDES
from .sides.base import Range, Step, stamped

__all__ = ["Clients", "Job", "Result", "Role"]

_LEAD = 3.0  # seconds from the order to the start, in which clients connect, prepare and warm up
_ANSWER = 120.0  # seconds beyond the measured ones; a client without an answer is then dead
_PACE = 1 / 200  # seconds between two messages of a latency cell
_UNCOUNTED = 100  # messages at the beginning of a latency cell that warm it up
_POLL = 0.002  # seconds that a consumer waits after an empty receive
_IDLE = 0.5  # seconds without a message after which a consumer regards the queue as drained
_WARM_UP = 5  # steps of each client before the clock starts: a new session plans its statements


class Role(StrEnum):
    """What a client process does in one job."""

    PRODUCE = "produce"
    CONSUME = "consume"
    BACKGROUND = "background"  # the appender, or the ticker of PgQ


@dataclass(frozen=True)
class Job:
    """One client's part in one run of a cell.

    Attributes:
        drain: Seconds after the measured time in which consumers may empty the queue.
    """

    side: str
    role: Role
    cell: Cell
    index: int
    dsn: str
    drain: float = 0.0

    @property
    def timed_messages(self) -> int:
        """How many messages a latency cell sends."""
        return round(self.cell.seconds / _PACE) + _UNCOUNTED


@dataclass(frozen=True)
class Result:
    """The result of a job. Times are those of the machine's monotonic clock.

    Attributes:
        total: All messages, including those of the warm-up and those drained afterwards.
        waits: Seconds from send to receipt.
    """

    role: Role
    count: int
    started: float
    ended: float
    total: int
    ranges: list[Range] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)


class Clients:
    """A pool of client processes. It is a context manager."""

    def __init__(self, size: int) -> None:
        self._size, self._context = size, multiprocessing.get_context("spawn")
        self._stop = self._context.Event()

    def __enter__(self) -> Clients:
        self._pool = ProcessPoolExecutor(self._size, self._context, _prepare, (self._stop,))
        # All of them are started now, because Python takes a while.
        list(self._pool.map(time.sleep, [0.2] * self._size))
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for process in list((self._pool._processes or {}).values()):
            process.kill()
        self._pool.shutdown(cancel_futures=True)

    def restart(self) -> None:
        """End the processes, whatever they do, and start other ones: after a job that failed."""
        self.__exit__()
        self.__enter__()

    @contextmanager
    def beside(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Run these jobs, which are of the background, during the block."""
        futures = self._begin(jobs)
        try:
            time.sleep(_LEAD)
            yield
        finally:
            self._stop.set()
        for future in futures:
            future.result(_ANSWER)

    def run(self, jobs: Sequence[Job]) -> list[Result]:
        """Run the jobs at the same time, and return their results."""
        futures = self._begin(jobs)
        # The background continues until all others are done, because the consumers could not drain
        # otherwise.
        for future, job in zip(futures, jobs, strict=True):
            if job.role is not Role.BACKGROUND:
                future.result(job.cell.seconds + _ANSWER)
        self._stop.set()
        return [future.result(_ANSWER) for future in futures]

    def _begin(self, jobs: Sequence[Job]) -> list[Future[Result]]:
        self._stop.clear()
        start = time.monotonic() + _LEAD
        return [self._pool.submit(_do, job, start) for job in jobs]


_stop: Event


def _prepare(stop: Event) -> None:
    global _stop
    _stop = stop


def _do(job: Job, start: float) -> Result:
    if job.role is Role.CONSUME and job.cell.library and job.side == "mqpg":
        return asyncio.run(_consume_by_library(job, start))
    with connected(job.dsn, f"mqpg-bench {job.role}") as link:
        if job.role is Role.BACKGROUND:
            return _run_background(job, link, start)
        if job.cell.kind is Kind.LATENCY:
            return (_produce_paced if job.role is Role.PRODUCE else _consume_timed)(job, link, start)
        return (_produce if job.role is Role.PRODUCE else _consume)(job, link, start)


def _wait_for(start: float) -> None:
    left = start - time.monotonic()
    if left < 0:
        raise RuntimeError(f"a client was ready {-left:.1f} s too late")
    time.sleep(left)


def _produce(job: Job, link: Link, start: float) -> Result:
    step = SIDES[job.side].producer(link, job.cell, job.index)
    warm = sum(step() for _ in range(_WARM_UP))
    _wait_for(start)
    now, count = start, 0
    while now < start + job.cell.seconds:
        count += step()
        now = time.monotonic()
    return Result(job.role, count, start, now, warm + count)


def _produce_paced(job: Job, link: Link, start: float) -> Result:
    send, documents = SIDES[job.side].sender(link), cycle(bodies(job.index))
    _wait_for(start)
    for number in range(job.timed_messages):
        time.sleep(max(0.0, start + number * _PACE - time.monotonic()))
        send(stamped(next(documents)))
    return Result(job.role, job.timed_messages - _UNCOUNTED, start, time.monotonic(), job.timed_messages)


def _consume(job: Job, link: Link, start: float) -> Result:
    consumer = SIDES[job.side].consumer(link, job.cell, job.index)
    step = _in_transaction(link, consumer.step) if job.cell.together else consumer.step
    warm = total = sum(step() for _ in range(_WARM_UP))
    _wait_for(start)
    now = last = ended = start
    deadline, count = start + job.cell.seconds, 0
    while now < deadline + job.drain:
        got = step()
        now = time.monotonic()
        if got:
            last = now
            total += got
            if now <= deadline:
                count, ended = total - warm, now
        elif SIDES[job.side].rereads and not job.drain:
            continue
        elif now - last > _IDLE and (not job.drain or now > deadline):
            break
        else:
            time.sleep(_POLL)
    return Result(job.role, count, start, ended, total, consumer.seen.as_ranges())


def _consume_timed(job: Job, link: Link, start: float) -> Result:
    consumer = SIDES[job.side].consumer(link, job.cell, job.index)
    _wait_for(start)
    until, total = start + job.timed_messages * _PACE + job.drain, 0
    while total < job.timed_messages and time.monotonic() < until:
        got = consumer.step()
        total += got
        if not got:
            consumer.wait()
    waits = consumer.seen.waits[_UNCOUNTED:]
    return Result(job.role, len(waits), start, time.monotonic(), total, consumer.seen.as_ranges(), waits)


async def _consume_by_library(job: Job, start: float) -> Result:
    """Run a consumer of the library with a handler in the delivery's transaction (C1)."""
    waits: list[float] = []
    ids: list[int] = []
    stop = asyncio.Event()

    async def note(message: Any, conn: Any) -> None:
        waits.append(time.monotonic() - message.payload["sent_at"])
        ids.append(message.message_id)
        if len(ids) >= job.timed_messages:
            stop.set()

    consumer: Any = mqpg.consumer("bench", group="bench")(note)
    async with await mqpg.connect_async(job.dsn) as mq:
        running = asyncio.create_task(consumer.run(mq, stop))
        patience = start - time.monotonic() + job.timed_messages * _PACE + job.drain
        await asyncio.wait({running}, timeout=patience)
        stop.set()
        await running
    ranges = [(0, one, one) for one in sorted(ids)]
    return Result(job.role, len(waits[_UNCOUNTED:]), start, time.monotonic(), len(ids), ranges, waits[_UNCOUNTED:])


def _in_transaction(link: Link, step: Step) -> Step:
    link.prepare("begin", "begin")
    link.prepare("commit", "commit")

    def wrapped() -> int:
        link.run(b"begin")
        got = step()
        link.run(b"commit")
        return got

    return wrapped


def _run_background(job: Job, link: Link, start: float) -> Result:
    side = SIDES[job.side]
    link.prepare("pass", side.background)
    _wait_for(start)
    count = 0
    while not _stop.is_set():
        began = time.monotonic()
        moved = int8(link.run(b"pass").get_value(0, 0))
        count += moved
        time.sleep(side.pause(moved, time.monotonic() - began))
    return Result(job.role, count, start, time.monotonic(), count)
