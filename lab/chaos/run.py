"""One run: servers, nodes, rounds, drain, comparison, audits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from lab.audits import Audit, audit
from lab.processes import LabError
from mqpg.audit.faults import Fault

from .cluster import Cluster, cluster
from .disk import enlarge
from .faults import Faults
from .judge import compare
from .names import BROKERS, C1, C2, CLIENTS, FRESH, NODES, group
from .nodes import Nodes, started
from .progress import Progress, dead_letters, read_afresh, wait_until_drained
from .result import Result, RoundResult
from .schedule import Options, Round, schedule

__all__ = ["run"]

_START_PATIENCE = 600.0  # seconds in which every group has to begin
_DRAIN_PATIENCE = 40.0  # seconds without any change
_AT_ONCE = 2  # audits; one of Spark waits for its JVM much of the time


def run(options: Options, say: Callable[[str], None]) -> Result:
    """Run it all; everything is stopped and removed in every case."""
    seconds: dict[str, float] = {}
    timed = partial(_timed, seconds)
    say(f"seed {options.seed}: starting ten nodes, each with a server")
    with timed("all"), cluster(options) as made:
        with started(made, options) as nodes, closing(Progress(made.brokers)) as progress:
            faults = Faults(nodes)
            with timed("start"):
                _warm_up(nodes, progress)
            with timed("rounds"):
                rounds = _rounds(nodes, faults, progress, options, say)
            say("draining")
            with timed("drain"):
                nodes.layout.quiet.touch()
                left = wait_until_drained(made, _DRAIN_PATIENCE, nodes.fleet.tend)
            # The producers and consumers end, but not the servers, which fresh groups still read.
            for name in CLIENTS:
                nodes.nodes[name].end()
        if "disk" in options.faults:
            for name in BROKERS:
                enlarge(made.servers[name].directory)
        say("fresh groups read everything" if not left else f"left: {left}")
        with timed("fresh readers"):
            read_afresh(made)
        with timed("comparison"):
            findings = compare(made)
        say(f"{findings.messages:,} messages compared by id; auditing by {' and '.join(options.engines)}")
        with timed("audits"):
            audits = _audits(made, options, [fault for one in rounds for fault in one.faults()])
        letters = dead_letters(made)
    return Result(
        seed=options.seed,
        options={
            "rounds": options.rounds,
            "interval": options.interval,
            "rate": options.rate,
            "faults": ",".join(options.faults),
            "nodes": options.place,
            "spread": options.spread,
            "engines": ",".join(options.engines),
        },
        rounds=rounds,
        findings=findings,
        audits=audits,
        left=left,
        changes_of_hot_tables=progress.changes_of_hot_tables,
        dead_letters=letters,
        ended_by_themselves=nodes.fleet.crashes,
        seconds=seconds,
        found_by_faults=faults.findings,
        kept=str(made.folder) if options.keep else None,
    )


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    seconds[name] = time.monotonic() - began


def _warm_up(nodes: Nodes, progress: Progress) -> None:
    """Wait until every group has moved once, because ten processes take a while to start."""
    until = time.monotonic() + _START_PATIENCE
    while not progress.positions() or not all(progress.positions().values()):
        nodes.fleet.tend()
        if time.monotonic() > until:
            idle = [place for place, at in progress.positions().items() if at == 0]
            raise LabError(f"these groups do not get to work: {idle}; {nodes.fleet.crashes[-1:]}")
        time.sleep(0.2)


def _rounds(
    nodes: Nodes, faults: Faults, progress: Progress, options: Options, say: Callable[[str], None]
) -> list[RoundResult]:
    found: list[RoundResult] = []
    for one in schedule(options.seed, options.rounds, options.faults, options.among, spread=options.spread):
        due = time.monotonic() + options.interval
        result = _round(faults, progress, one, options.patience)
        nodes.fleet.tend()
        found.append(result)
        took = result.recovery
        after = "did not move in time" if took is None else f"was the last to move, after {took:.1f} s"
        hit = "all ten nodes" if len(one.nodes) == len(NODES) else ", ".join(one.nodes)
        hit += f" ({', '.join(one.how)})" if one.how else ""
        say(f"round {one.number}/{options.rounds}: {one.kind} {hit}; {result.last or 'every group'} {after}")
        while time.monotonic() < due:
            nodes.fleet.tend()
            time.sleep(0.1)
    return found


def _round(faults: Faults, progress: Progress, one: Round, patience: float) -> RoundResult:
    at, began = datetime.now(UTC), time.monotonic()
    faults.carry_out(one)
    lasted = time.monotonic() - began
    recovery, last = progress.wait_until_all_moved(progress.positions(), patience)
    moved_at = None if recovery is None else datetime.now(UTC)
    return RoundResult(one.number, one.kind, one.nodes, at, lasted, recovery, moved_at, last, one.how)


def _audits(made: Cluster, options: Options, faults: Sequence[Fault]) -> list[Audit]:
    """Audit both brokers with every engine, drained; and once with all groups, by SQL.

    A drained audit judges every group in its scope, and C3 keeps no journal. The audit of all
    groups is therefore not a drained one. It reads the cursors of C3, too.
    """
    ledgers = [(group(name), dsn) for name, dsn in made.stores.items()]
    applied = [(C2, dsn) for dsn in made.sinks.values()]
    groups = [C1, C2, FRESH]
    work: list[Callable[[], Audit]] = []
    for number, dsn in enumerate(made.brokers, 1):
        one = partial(audit, dsn, ledgers=ledgers, applied=applied, name=f"broker-{number}", faults=faults)
        for engine in options.engines:
            work.append(partial(one, engine=engine, groups=groups, page=_page(options, number, engine)))
        work.append(partial(one, engine="sql", drained=False))
    with ThreadPoolExecutor(_AT_ONCE, "audit") as pool:
        return [done.result() for done in [pool.submit(each) for each in work]]


def _page(options: Options, broker: int, engine: str) -> Path | None:
    """Where the page goes: broker-1 as it was asked for, broker-2 beside it."""
    if options.page is None or engine != options.engines[-1]:
        return None
    return options.page if broker == 1 else options.page.with_stem(f"{options.page.stem}-broker-{broker}")
