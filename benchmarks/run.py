"""Runs the cells: interleaved rounds, a fresh database for every run, counts checked after each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .cells import Cell, Kind
from .crew import Crew, Job, Result, Role
from .link import Link
from .report import Run, check_ranges
from .server import Server
from .sides import SIDES
from .sides.base import BACKLOG

__all__ = ["clients_needed", "run_all"]

_DRAIN = 5.0  # seconds given to consumers after an end-to-end run
_QUICK_BACKLOG = 100_000


def clients_needed(cells: Sequence[Cell]) -> int:
    """Processes that the largest cell takes, the appender included."""
    return max(cell.clients * (2 if cell.kind is Kind.E2E else 1) for cell in cells) + 1


def run_all(
    server: Server,
    cells: Sequence[Cell],
    sides: Sequence[str],
    rounds: int,
    limit: float,
    progress: Callable[[Run], None],
) -> list[Run]:
    """`rounds` times all cells, in each all sides in turn; no new round that would end after `limit` seconds."""
    done: list[Run] = []
    began = time.monotonic()
    with Crew(clients_needed(cells)) as crew:
        for round_no in range(1, rounds + 1):
            round_began = time.monotonic()
            for cell in cells:
                for side in (name for name in sides if name in cell.sides):
                    done.append(_run(server, crew, cell, side, round_no))
                    progress(done[-1])
            now = time.monotonic()
            if now - began + (now - round_began) > limit:
                break
    return done


def _run(server: Server, crew: Crew, cell: Cell, side: str, round_no: int) -> Run:
    with server.database() as dsn:
        link = Link(dsn)
        try:
            backlog = _backlog(cell)
            SIDES[side].set_up(link, cell, backlog)
            link.execute("analyze")
            server.checkpoint()
            with _old_transaction(dsn, cell.held):
                results = crew.run(_jobs(side, cell, dsn))
            return _judge(link, cell, side, round_no, backlog, results)
        finally:
            link.close()


def _backlog(cell: Cell) -> int:
    if cell.kind is not Kind.RECEIVE:
        return 0
    return BACKLOG if cell.seconds > 1 else _QUICK_BACKLOG


def _jobs(side: str, cell: Cell, dsn: str) -> list[Job]:
    drain = _DRAIN if cell.kind is Kind.E2E else 0.0
    roles = {Kind.RECEIVE: [Role.CONSUME], Kind.E2E: [Role.PRODUCE, Role.CONSUME]}.get(cell.kind, [Role.PRODUCE])
    jobs = [Job(side, role, cell, index, dsn, drain) for role in roles for index in range(cell.clients)]
    if SIDES[side].appends and cell.kind is not Kind.RECEIVE:
        jobs.append(Job(side, Role.APPEND, cell, 0, dsn))
    return jobs


@contextmanager
def _old_transaction(dsn: str, wanted: bool) -> Iterator[None]:
    """Holds xmin meanwhile: a REPEATABLE READ transaction that has an xid and a snapshot."""
    if not wanted:
        yield
        return
    link = Link(dsn)
    try:
        link.execute("begin isolation level repeatable read")
        link.execute("select pg_current_xact_id()")
        yield
        link.execute("rollback")
    finally:
        link.close()


def _judge(link: Link, cell: Cell, side: str, round_no: int, backlog: int, results: Sequence[Result]) -> Run:
    made = [r for r in results if r.role is Role.PRODUCE]
    got = [r for r in results if r.role is Role.CONSUME]
    measured = got or made  # end to end counts what arrived
    seconds = max(r.ended for r in measured) - min(r.started for r in measured)
    if cell.kind is Kind.E2E:
        seconds = cell.seconds
    sent, received = sum(r.total for r in made), sum(r.total for r in got)
    problems = []
    stored = SIDES[side].stored(link, cell)
    if stored != sent + backlog:
        problems.append(f"{sent + backlog} sent, {stored} stored")
    checked = got and not (SIDES[side].rereads and cell.kind is Kind.RECEIVE)
    if checked:
        different, repeated = check_ranges(found for r in got for found in r.ranges)
        if repeated:
            problems.append(f"{repeated} received twice")
        if different + repeated != received:
            problems.append(f"{received} received, but {different + repeated} numbers seen")
    rate = sum(r.count for r in measured) / seconds if seconds else 0.0
    drained = not checked or received == sent + backlog
    return Run(cell.name, side, round_no, rate, sent + backlog, received, seconds, drained, tuple(problems))
