"""One run of one cell on one side, in a fresh database, with its counts verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from . import pgbench
from .backlog import append_backlog, send_singly
from .cells import Cell, Kind
from .crew import Crew
from .jobs import Job, Result, Role
from .ledger import create_ledger, ledger_rows
from .link import Link
from .report import Run, check_ranges, percentiles
from .server import Server
from .sides import SIDES
from .sides.base import bodies

__all__ = ["run_cell"]

_DRAIN = 5.0  # seconds that consumers have to drain after an end-to-end run
_SCRIPTS = 8  # different documents that pgbench sends, at random; each is a statement to plan
# Neither a row of these tables nor one of their partitions is ever changed or deleted.
_DEAD_ROWS = """select coalesce(sum(n_dead_tup), 0) from pg_stat_user_tables
where schemaname = 'mqpg' and relname ~ '^(commit_log|op_log|consume_queue|tick|cursor|delayed|check_log)'"""


def run_cell(server: Server, crew: Crew, cell: Cell, side: str, round_no: int) -> Run:
    """Run the cell once on this side."""
    with server.database() as dsn, _local_database(server, cell) as local:
        link = Link(dsn)
        try:
            run = _measure(server, crew, link, cell, side, dsn, local)
            return replace(run, round_no=round_no)
        finally:
            link.close()


def _measure(server: Server, crew: Crew, link: Link, cell: Cell, side: str, dsn: str, local: str) -> Run:
    if cell.kind is Kind.APPEND:
        SIDES[side].set_up(link, cell, 0)
        send_singly(dsn, cell.backlog)
        server.checkpoint()
        rate, seconds, measures = append_backlog(link)
        return Run(cell.name, side, 0, rate, cell.backlog, 0, seconds, True, _missing(link, cell, side, cell.backlog),
                   measures)  # fmt: skip
    backlog = min(cell.backlog, SIDES[side].most) if cell.kind is Kind.RECEIVE else cell.backlog
    SIDES[side].set_up(link, cell, backlog)
    link.execute("analyze")
    server.checkpoint()
    if cell.scripted:
        return _scripted(crew, link, cell, side, dsn, 0)
    with _old_transaction(dsn, cell.held):
        run = _judge(link, cell, side, backlog, crew.run(_jobs(side, cell, dsn, local)))
    if cell.kind is Kind.SCALE:
        sends = _scripted(crew, link, replace(cell, clients=16, batch=1), side, dsn, backlog)
        return replace(run, problems=run.problems + sends.problems, measures={"send": sends.rate})
    if cell.kind is Kind.LEDGER:
        return replace(run, problems=run.problems + _unrecorded(local, run.sent - backlog))
    if cell.kind is Kind.E2E and side == "mqpg":
        return replace(run, measures={"dead rows": float(link.scalar(_DEAD_ROWS))})
    return run


def _scripted(crew: Crew, link: Link, cell: Cell, side: str, dsn: str, backlog: int) -> Run:
    documents = {f"body{number}": body.decode() for number, body in enumerate(bodies(0)[:_SCRIPTS])}
    scripts = [SIDES[side].script(cell, f":{name}") for name in documents]
    with crew.beside(_background(side, cell, dsn)):
        sent, rate = pgbench.drive(pgbench.find(), dsn, scripts, cell.clients, cell.seconds, documents)
    problems = _missing(link, cell, side, sent + backlog)
    return Run(cell.name, side, 0, rate, sent, 0, cell.seconds, True, problems)


def _missing(link: Link, cell: Cell, side: str, sent: int) -> tuple[str, ...]:
    stored = SIDES[side].stored(link, cell)
    return () if stored == sent else (f"{sent} sent, {stored} stored",)


def _unrecorded(local: str, sent: int) -> tuple[str, ...]:
    link = Link(local)
    try:
        found = ledger_rows(link)
    finally:
        link.close()
    return () if found == sent else (f"{sent} sent, {found} in the ledger",)


def _jobs(side: str, cell: Cell, dsn: str, local: str) -> list[Job]:
    drains = cell.kind in (Kind.E2E, Kind.LATENCY)
    roles = [Role.PRODUCE, Role.CONSUME] if drains else [Role.PRODUCE]
    if cell.kind in (Kind.RECEIVE, Kind.SCALE):
        roles = [Role.CONSUME]
    jobs = [
        Job(side, role, cell, index, dsn, _DRAIN if drains else 0.0, local)
        for role in roles
        for index in range(cell.clients)
    ]
    return jobs if cell.kind in (Kind.RECEIVE, Kind.SCALE) else jobs + _background(side, cell, dsn)


def _background(side: str, cell: Cell, dsn: str) -> list[Job]:
    return [Job(side, Role.BACKGROUND, cell, 0, dsn)] if SIDES[side].background else []


@contextmanager
def _local_database(server: Server, cell: Cell) -> Iterator[str]:
    if cell.kind is not Kind.LEDGER:
        yield ""
        return
    with server.database() as dsn:
        link = Link(dsn)
        create_ledger(link)
        link.close()
        yield dsn


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


def _judge(link: Link, cell: Cell, side: str, backlog: int, results: Sequence[Result]) -> Run:
    made = [r for r in results if r.role is Role.PRODUCE]
    got = [r for r in results if r.role is Role.CONSUME]
    measured = got or made  # an end-to-end cell counts what arrived
    seconds = max(r.ended for r in measured) - min(r.started for r in measured)
    if cell.kind is Kind.E2E:
        seconds = cell.seconds
    sent, received = sum(r.total for r in made), sum(r.total for r in got)
    problems = list(_missing(link, cell, side, sent + backlog))
    checked = got and not (SIDES[side].rereads and cell.kind is Kind.RECEIVE)
    if checked:
        different, repeated = check_ranges(found for r in got for found in r.ranges)
        if repeated:
            problems.append(f"{repeated} received twice")
        if different + repeated != received:
            problems.append(f"{received} received, but {different + repeated} numbers seen")
    rate = sum(r.count for r in measured) / seconds if seconds else 0.0
    drained = not checked or cell.kind is Kind.SCALE or received == sent + backlog
    waits = {name: 1000 * wait for name, wait in percentiles(wait for r in got for wait in r.waits).items()}
    return Run(cell.name, side, 0, rate, sent + backlog, received, seconds, drained, tuple(problems), waits)
