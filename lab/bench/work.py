"""What the client processes do: produce, consume, and the passes in the background."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle
from multiprocessing.connection import Connection

from .cells import Kind
from .jobs import PACE, UNCOUNTED, Job, Result, Role, timed_messages
from .ledger import LedgerTransactions
from .library import consume_with_library
from .link import Link, int8
from .sides import SIDES
from .sides.base import Consumer, bodies, stamped

__all__ = ["do"]

_POLL = 0.002  # seconds that a consumer waits after an empty receive
_IDLE = 0.5  # seconds without a message after which a consumer regards the queue as drained
_WARM_UP = 5  # steps of each client before the clock starts: a new session plans its statements


def do(pipe: Connection, job: Job) -> Result:
    """Do one job. It says "ready" on the pipe, and then waits for the time of the start."""
    if job.role is Role.CONSUME and job.cell.library and job.side == "mqpg":
        return consume_with_library(job, lambda: _wait_for_start(pipe))
    link = Link(job.dsn, f"mqpg-bench {job.role}")
    try:
        return _work(job)(pipe, job, link)
    finally:
        link.close()


def _work(job: Job) -> Callable[[Connection, Job, Link], Result]:
    if job.role is Role.BACKGROUND:
        return _run_background
    if job.cell.kind is Kind.LATENCY:
        return _produce_paced if job.role is Role.PRODUCE else _consume_timed
    return _produce if job.role is Role.PRODUCE else _consume


def _wait_for_start(pipe: Connection) -> float:
    pipe.send("ready")
    start: float = pipe.recv()
    time.sleep(max(0.0, start - time.monotonic()))
    return start


def _produce(pipe: Connection, job: Job, link: Link) -> Result:
    local = Link(job.local) if job.local else None
    side = SIDES[job.side]
    if local is not None:
        step = LedgerTransactions(side.decider(link, job.cell, job.index), local).step
    else:
        step = side.producer(link, job.cell, job.index).step
    warm = sum(step() for _ in range(_WARM_UP))
    start = now = _wait_for_start(pipe)
    deadline = start + job.cell.seconds
    count = 0
    while now < deadline:
        count += step()
        now = time.monotonic()
    if local is not None:
        local.close()
    return Result(job.role, count, start, now, warm + count)


def _produce_paced(pipe: Connection, job: Job, link: Link) -> Result:
    send = SIDES[job.side].sender(link)
    documents = cycle(bodies(job.index))
    start = _wait_for_start(pipe)
    total = timed_messages(job.cell)
    for number in range(total):
        time.sleep(max(0.0, start + number * PACE - time.monotonic()))
        send(stamped(next(documents)))
    return Result(job.role, total - UNCOUNTED, start, time.monotonic(), total)


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


def _consume_timed(pipe: Connection, job: Job, link: Link) -> Result:
    consumer: Consumer = SIDES[job.side].consumer(link, job.cell, job.index)
    start = _wait_for_start(pipe)
    wanted = timed_messages(job.cell)
    until = start + wanted * PACE + job.drain
    total = 0
    while total < wanted and time.monotonic() < until:
        got = consumer.step()
        total += got
        if not got:
            consumer.wait()
    waits = consumer.seen.waits[UNCOUNTED:]
    return Result(job.role, len(waits), start, time.monotonic(), total, consumer.seen.as_ranges(), waits)


def _in_transaction(link: Link, step: Callable[[], int]) -> Callable[[], int]:
    link.prepare("begin", "begin")
    link.prepare("commit", "commit")

    def wrapped() -> int:
        link.run(b"begin")
        got = step()
        link.run(b"commit")
        return got

    return wrapped


def _run_background(pipe: Connection, job: Job, link: Link) -> Result:
    side = SIDES[job.side]
    link.prepare("pass", side.background)
    start = _wait_for_start(pipe)
    count = 0
    pause = 0.0
    while not pipe.poll(pause):
        began = time.monotonic()
        moved = int8(link.run(b"pass").get_value(0, 0))
        count += moved
        pause = side.pause(moved, time.monotonic() - began)
    pipe.recv()
    return Result(job.role, count, start, time.monotonic(), count)
