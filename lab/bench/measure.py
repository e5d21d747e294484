"""One run of one cell on one side, in a fresh database, with its counts verified; and all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from threading import Event, Thread

import psutil

from lab.command import percentiles

from .cells import Cell, Kind
from .client import Link, bodies, connected, int8
from .clients import Clients, Job, Result, Role
from .pgbench import drive
from .report import Failure, Run, check_ranges
from .server import Server
from .sides import SIDES
from .sides.mqpg_side import APPEND

__all__ = ["run_all"]

_SET_UP = 2.0  # seconds that a run takes beside the measured ones; an estimate until one was run
_DRAIN = 5.0  # seconds that consumers have to drain after an end-to-end run
_SCRIPTS = 8  # different documents that pgbench sends, at random; each is a statement to plan
# Neither a row of these tables nor one of their partitions is ever changed or deleted.
_DEAD_ROWS = """select coalesce(sum(n_dead_tup), 0) from pg_stat_user_tables
where schemaname = 'mqpg' and relname ~ '^(commit_log|op_log|consume_queue|tick|cursor|delayed|check_log)'"""
_SENDERS = 2
# Each message is sent in a transaction of its own, without the way to the client.
_SEND_SINGLY = """do $do$
declare
    v_bodies text[] := array[{bodies}];
begin
    for i in 1..{count} loop
        perform mqpg.send('bench', v_bodies[1 + i % array_length(v_bodies, 1)]);
        commit;
    end loop;
end $do$"""
_SAMPLE = 0.005  # seconds between two looks at the memory of the server process


def run_all(
    server: Server,
    cells: Sequence[Cell],
    sides: Sequence[str],
    rounds: int,
    limit: float,
    progress: Callable[[Run | Failure], None],
) -> bool:
    """Run all cells `rounds` times, each on all its sides in turn, and report each run.

    It ends before a cell that would take it beyond `limit` seconds. A cell is run on all its sides
    or on none. As a consequence, the rounds are interleaved wherever the time is up. A run that fails
    is reported, and the others continue.

    Returns:
        Whether all of them were run.
    """
    began = time.monotonic()
    took: dict[str, float] = {}  # the seconds that a cell took last on all its sides
    complete = True
    both = (Kind.E2E, Kind.LATENCY)
    sizes = [cell.clients * (2 if cell.kind in both else 1) for cell in cells if not cell.scripted]
    with Clients(max(sizes, default=0) + 1) as pool:
        for round_no, cell in product(range(1, rounds + 1), cells):
            if round_no > cell.rounds:
                continue
            cell_began = time.monotonic()
            chosen = [name for name in sides if name in cell.sides]
            expected = took.get(cell.name, len(chosen) * (cell.seconds + _SET_UP))
            if cell_began - began + expected > limit:
                complete = False
                continue
            for side in chosen:
                progress(_run_or_fail(server, pool, cell, side, round_no))
            took[cell.name] = time.monotonic() - cell_began
    return complete


def _run_or_fail(server: Server, pool: Clients, cell: Cell, side: str, round_no: int) -> Run | Failure:
    try:
        with server.database() as dsn, connected(dsn) as link:
            return replace(_measure(server, pool, link, cell, side, dsn), round_no=round_no)
    except Exception as error:  # whatever it was, the other cells are worth measuring
        pool.restart()
        return Failure(cell.name, side, round_no, f"{type(error).__name__}: {error}".strip())


def _measure(server: Server, pool: Clients, link: Link, cell: Cell, side: str, dsn: str) -> Run:
    if cell.kind is Kind.APPEND:
        return _append(server, link, cell, side, dsn)
    backlog = min(cell.backlog, SIDES[side].most) if cell.kind is Kind.RECEIVE else cell.backlog
    SIDES[side].set_up(link, cell, backlog)
    link.execute("analyze")
    server.checkpoint()
    if cell.scripted:
        return _scripted(pool, link, cell, side, dsn, 0)
    with _old_transaction(dsn, cell.held):
        run = _judge(link, cell, side, backlog, pool.run(_jobs(side, cell, dsn)))
    if cell.kind is Kind.SCALE:
        sends = _scripted(pool, link, replace(cell, clients=16, batch=1), side, dsn, backlog)
        return replace(run, problems=run.problems + sends.problems, measures={"send": sends.rate})
    if cell.kind is Kind.E2E and side == "mqpg":
        return replace(run, measures={"dead rows": float(link.scalar(_DEAD_ROWS))})
    return run


def _append(server: Server, link: Link, cell: Cell, side: str, dsn: str) -> Run:
    """Append everything that waits; the most memory of the server process is "MiB"."""
    SIDES[side].set_up(link, cell, 0)
    with ThreadPoolExecutor(_SENDERS) as senders:
        list(senders.map(lambda share: _send_singly(dsn, share), [cell.backlog // _SENDERS] * _SENDERS))
    server.checkpoint()
    link.prepare("append", APPEND)
    moved = 0
    with _memory(int(link.scalar("select pg_backend_pid()"))) as measures:
        began = time.monotonic()
        while now := int8(link.run(b"append").get_value(0, 0)):
            moved += now
        seconds = time.monotonic() - began
    problems = _missing(link, cell, side, cell.backlog)
    return Run(cell.name, side, 0, moved / seconds, cell.backlog, 0, seconds, True, problems, measures)


def _send_singly(dsn: str, count: int) -> None:
    texts = ", ".join("'{}'".format(body.decode().replace("'", "''")) for body in bodies(0, 100))
    with connected(dsn) as link:
        link.execute("set synchronous_commit = off")  # they are not what is measured
        link.execute(_SEND_SINGLY.format(bodies=texts, count=count))


@contextmanager
def _memory(pid: int) -> Iterator[dict[str, float]]:
    """Sample the memory of a process of this machine without what it shares with others."""
    measures, stop, process = {"MiB": 0.0}, Event(), psutil.Process(pid)

    def sample() -> None:
        while not stop.wait(_SAMPLE):
            memory = process.memory_info()
            measures["MiB"] = max(measures["MiB"], (memory.rss - memory.shared) / 2**20)

    thread = Thread(target=sample)
    thread.start()
    try:
        yield measures
    finally:
        stop.set()
        thread.join()


def _scripted(pool: Clients, link: Link, cell: Cell, side: str, dsn: str, backlog: int) -> Run:
    documents = {f"body{number}": body.decode() for number, body in enumerate(bodies(0, _SCRIPTS))}
    scripts = [SIDES[side].script(cell, f":{name}") for name in documents]
    with pool.beside(_background(side, cell, dsn)):
        sent, rate = drive(dsn, scripts, cell.clients, cell.seconds, documents)
    problems = _missing(link, cell, side, sent + backlog)
    return Run(cell.name, side, 0, rate, sent, 0, cell.seconds, True, problems)


def _missing(link: Link, cell: Cell, side: str, sent: int) -> tuple[str, ...]:
    stored = SIDES[side].stored(link, cell)
    return () if stored == sent else (f"{sent} sent, {stored} stored",)


def _jobs(side: str, cell: Cell, dsn: str) -> list[Job]:
    drain = _DRAIN if cell.kind in (Kind.E2E, Kind.LATENCY) else 0.0
    receives = cell.kind in (Kind.RECEIVE, Kind.SCALE)
    roles = [Role.CONSUME] if receives else [Role.PRODUCE, *([Role.CONSUME] if drain else [])]
    jobs = [Job(side, role, cell, index, dsn, drain) for role in roles for index in range(cell.clients)]
    return jobs if receives else jobs + _background(side, cell, dsn)


def _background(side: str, cell: Cell, dsn: str) -> list[Job]:
    return [Job(side, Role.BACKGROUND, cell, 0, dsn)] if SIDES[side].background else []


@contextmanager
def _old_transaction(dsn: str, wanted: bool) -> Iterator[None]:
    """Hold xmin during the block, by a REPEATABLE READ transaction with an xid and a snapshot."""
    with connected(dsn) as link:
        if wanted:
            link.execute("begin isolation level repeatable read")
            link.execute("select pg_current_xact_id()")
        yield


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
