"""Client processes: they are started once, and get jobs that begin at the same moment."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing.connection import Connection
from typing import Any

from mqpg._append_pace import AppendPace

from .cells import Cell
from .link import Link, int8
from .sides import SIDES
from .sides.base import Range
from .sides.mqpg_side import APPEND

__all__ = ["Crew", "Job", "Result", "Role"]

_POLL = 0.002  # seconds that a consumer waits after an empty receive
_IDLE = 0.5  # seconds without a message after which a consumer regards the queue as drained
_WARM_UP = 5  # steps of each client before the clock starts: a new session plans its statements
_LEAD = 0.05  # seconds between the signal and the start
_ANSWER = 180.0  # seconds after which a client that does not answer is regarded as dead


class Role(StrEnum):
    """What a client process does in one job."""

    PRODUCE = "produce"
    CONSUME = "consume"
    APPEND = "append"


@dataclass(frozen=True)
class Job:
    """One client's part in one run of a cell."""

    side: str
    role: Role
    cell: Cell
    index: int
    dsn: str
    drain: float = 0.0  # seconds after the measured time in which consumers may empty the queue


@dataclass(frozen=True)
class Result:
    """The result of a job. Times are those of the machine's monotonic clock."""

    role: Role
    count: int  # messages inside the measured time
    started: float
    ended: float  # when the last of them was done
    total: int  # all messages, including those of the warm-up and those drained afterwards
    ranges: list[Range] = field(default_factory=list)


class Crew:
    """A pool of client processes. It is a context manager."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []

    def __enter__(self) -> Crew:
        context = multiprocessing.get_context("spawn")
        for _ in range(self._size):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)
        return self

    def __exit__(self, *exc: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()

    @contextmanager
    def beside(self, jobs: Sequence[Job]) -> Iterator[None]:
        """Run these jobs, which are appenders, during the block."""
        pipes = self._start(jobs)
        try:
            yield
        finally:
            for pipe in pipes:
                pipe.send("stop")
        for pipe in pipes:
            _answer(pipe)

    def _start(self, jobs: Sequence[Job]) -> list[Connection]:
        pipes = self._pipes[: len(jobs)]
        for pipe, job in zip(pipes, jobs, strict=True):
            pipe.send(job)
        for pipe in pipes:
            _answer(pipe)
        start = time.monotonic() + _LEAD
        for pipe in pipes:
            pipe.send(start)
        return pipes

    def run(self, jobs: Sequence[Job]) -> list[Result]:
        """Run the jobs at the same time.

        Returns:
            Their results, in the order of the jobs.

        Raises:
            RuntimeError: A client failed.
            TimeoutError: A client did not answer.
        """
        pipes = self._start(jobs)
        # Appenders continue until all others are done, because the consumers could not drain
        # otherwise.
        busy = [(p, j) for p, j in zip(pipes, jobs, strict=True) if j.role is not Role.APPEND]
        results = {job: _answer(pipe) for pipe, job in busy}
        for pipe, job in zip(pipes, jobs, strict=True):
            if job.role is Role.APPEND:
                pipe.send("stop")
                results[job] = _answer(pipe)
        return [results[job] for job in jobs]


def _answer(pipe: Connection) -> Any:
    if not pipe.poll(_ANSWER):
        raise TimeoutError(f"a client process did not answer within {_ANSWER:.0f} s")
    answer = pipe.recv()
    if isinstance(answer, str) and answer != "ready":
        raise RuntimeError(f"a client process failed:\n{answer}")
    return answer


def _serve(pipe: Connection) -> None:
    while True:
        try:
            job = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            pipe.send(_do(pipe, job))
        except Exception:  # `_answer` raises it in the main process
            pipe.send(traceback.format_exc())


def _do(pipe: Connection, job: Job) -> Result:
    link = Link(job.dsn, f"mqpg-bench {job.role}")
    try:
        work = {Role.PRODUCE: _produce, Role.CONSUME: _consume, Role.APPEND: _append}[job.role]
        return work(pipe, job, link)
    finally:
        link.close()


def _wait_for_start(pipe: Connection) -> float:
    pipe.send("ready")
    start: float = pipe.recv()
    time.sleep(max(0.0, start - time.monotonic()))
    return start


def _produce(pipe: Connection, job: Job, link: Link) -> Result:
    step = SIDES[job.side].producer(link, job.cell, job.index).step
    warm = sum(step() for _ in range(_WARM_UP))
    start = now = _wait_for_start(pipe)
    deadline = start + job.cell.seconds
    count = 0
    while now < deadline:
        count += step()
        now = time.monotonic()
    return Result(job.role, count, start, now, warm + count)


def _consume(pipe: Connection, job: Job, link: Link) -> Result:
    consumer = SIDES[job.side].consumer(link, job.cell, job.index)
    step = _in_transaction(link, consumer.step) if job.cell.together else consumer.step
    warm = total = sum(step() for _ in range(_WARM_UP))
    start = now = last = _wait_for_start(pipe)
    deadline = start + job.cell.seconds
    until = deadline + job.drain
    count = 0
    ended = start
    while now < until:
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


def _in_transaction(link: Link, step: Callable[[], int]) -> Callable[[], int]:
    link.prepare("begin", "begin")
    link.prepare("commit", "commit")

    def wrapped() -> int:
        link.run(b"begin")
        got = step()
        link.run(b"commit")
        return got

    return wrapped


def _append(pipe: Connection, job: Job, link: Link) -> Result:
    link.prepare("append", APPEND)
    start = _wait_for_start(pipe)
    count = 0
    pace = AppendPace()
    pause = 0.0
    while not pipe.poll(pause):
        began = time.monotonic()
        moved = int8(link.run(b"append").get_value(0, 0))
        count += moved
        pause = pace.after(moved, time.monotonic() - began)
    pipe.recv()
    return Result(job.role, count, start, time.monotonic(), count)
