"""Runs the cells in interleaved rounds.

Every run has a fresh database, and its counts are verified.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

from . import pgbench
from .cells import Cell, Kind
from .crew import Crew, Job, Result, Role
from .link import Link
from .report import Run, check_ranges
from .server import Server
from .sides import SIDES
from .sides.base import BACKLOG, bodies

__all__ = ["clients_needed", "run_all"]

_DRAIN = 5.0  # seconds that consumers have to drain after an end-to-end run
_QUICK_BACKLOG = 100_000
_SET_UP = 2.0  # seconds that a run takes beside the measured ones; an estimate until one was run
_SCRIPTS = 32  # different documents that pgbench sends, at random
# The bare side has neither a backlog nor dead rows, so a longer run shows nothing new.
_BARE_SECONDS = 10.0


def clients_needed(cells: Sequence[Cell]) -> int:
    """How many processes the largest cell needs, including the appender."""
    ours = [cell.clients * (2 if cell.kind is Kind.E2E else 1) for cell in cells if not cell.scripted]
    return max(ours, default=0) + 1


def run_all(
    server: Server,
    cells: Sequence[Cell],
    sides: Sequence[str],
    rounds: int,
    limit: float,
    progress: Callable[[Run], None],
) -> list[Run]:
    """Run all cells `rounds` times, each on all its sides in turn.

    It ends before a cell that would take it beyond `limit` seconds. A cell is run on all its sides
    or on none. As a consequence, the rounds are interleaved wherever the time is up.
    """
    done: list[Run] = []
    began = time.monotonic()
    took: dict[str, float] = {}  # the seconds that a cell took last on all its sides
    with Crew(clients_needed(cells)) as crew:
        for round_no, cell in product(range(1, rounds + 1), cells):
            cell_began = time.monotonic()
            chosen = [name for name in sides if name in cell.sides]
            expected = took.get(cell.name, len(chosen) * (cell.seconds + _SET_UP))
            if cell_began - began + expected > limit:
                break
            for side in chosen:
                done.append(_run(server, crew, _for_side(cell, side), side, round_no))
                progress(done[-1])
            took[cell.name] = time.monotonic() - cell_began
    return done


def _for_side(cell: Cell, side: str) -> Cell:
    return replace(cell, seconds=min(cell.seconds, _BARE_SECONDS)) if side == "bare" else cell


def _run(server: Server, crew: Crew, cell: Cell, side: str, round_no: int) -> Run:
    with server.database() as dsn:
        link = Link(dsn)
        try:
            backlog = _backlog(cell)
            SIDES[side].set_up(link, cell, backlog)
            link.execute("analyze")
            server.checkpoint()
            if cell.scripted:
                return _scripted(crew, link, cell, side, round_no, dsn)
            with _old_transaction(dsn, cell.held):
                results = crew.run(_jobs(side, cell, dsn))
            return _judge(link, cell, side, round_no, backlog, results)
        finally:
            link.close()


def _scripted(crew: Crew, link: Link, cell: Cell, side: str, round_no: int, dsn: str) -> Run:
    scripts = [SIDES[side].script(cell, pgbench.literal(body)) for body in bodies(0)[:_SCRIPTS]]
    with crew.beside(_appenders(side, cell, dsn)):
        sent, rate = pgbench.drive(pgbench.find(), dsn, scripts, cell.clients, cell.seconds)
    stored = SIDES[side].stored(link, cell)
    problems = () if stored == sent else (f"{sent} sent, {stored} stored",)
    return Run(cell.name, side, round_no, rate, sent, 0, cell.seconds, True, problems)


def _backlog(cell: Cell) -> int:
    if cell.kind is not Kind.RECEIVE:
        return 0
    # A backlog that is sent singly takes long to send and longer to read.
    return BACKLOG if cell.seconds > 1 and not cell.singly else _QUICK_BACKLOG


def _jobs(side: str, cell: Cell, dsn: str) -> list[Job]:
    drain = _DRAIN if cell.kind is Kind.E2E else 0.0
    roles = {Kind.RECEIVE: [Role.CONSUME], Kind.E2E: [Role.PRODUCE, Role.CONSUME]}.get(cell.kind, [Role.PRODUCE])
    jobs = [Job(side, role, cell, index, dsn, drain) for role in roles for index in range(cell.clients)]
    return jobs if cell.kind is Kind.RECEIVE else jobs + _appenders(side, cell, dsn)


def _appenders(side: str, cell: Cell, dsn: str) -> list[Job]:
    return [Job(side, Role.APPEND, cell, 0, dsn)] if SIDES[side].appends else []


@contextmanager
def _old_transaction(dsn: str, wanted: bool) -> Iterator[None]:
    """Hold xmin during the block, by a REPEATABLE READ transaction with an xid and a snapshot."""
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
    measured = got or made  # an end-to-end cell counts what arrived
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
