"""One run: databases, processes, kills, drain, audit, comparison."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

import mqpg
from lab.audits import Audit, audit, sqlalchemy_url
from lab.processes import Fleet, LabError, environment
from mqpg import migrate
from mqpg.cli.progress import progress
from mqpg.embedded import EmbeddedServer
from tests.support.servers import restart

from .counts import Counts, Databases, Gauges
from .flights import expected_board, known_flights
from .kills import ROLES, Kills, schedule
from .result import Result, differing
from .tables import AIRLINE, BOARD, BOARD_URL, CONSUMER_GROUP, LEDGER_URL, PRODUCER_GROUP, QUEUES, TOPIC

__all__ = ["run"]

_CHECK_AFTER = "5 s"
_PRODUCERS, _CONSUMERS, _THREADS = 2, 2, 12
# A small run is slowed down to this, so that there is work while the kills happen: after the last of them
# for almost 3 s more, because a machine that stands still must not let the producers end before it.
_LEAST_SECONDS = 20.0
_LOOK = 0.1  # least seconds between two counts; counting takes at most a twentieth of the time
_PATIENCE = 120.0  # seconds without any progress after which the demo ends
# The same after the producers are done. The audit then reports what is missing.
_DRAIN_PATIENCE = 40.0
_MOST_CRASHES = 20


@dataclass(slots=True)
class _Work:
    """The part of a run in which the processes work: it counts, kills, and waits for the end."""

    flights: int
    fleet: Fleet
    gauges: Gauges
    kills: Kills
    say: Callable[[str], None]
    last: Counts | None = None
    moved: float = 0.0
    said: float = 0.0

    def until_drained(self) -> bool:
        """Whether everything committed was consumed and no half is undecided."""
        self.moved = time.monotonic()
        while not self.fleet.finished("producer"):
            self._look(draining=False)
        self.say("draining")
        while not ((counts := self._look(draining=True)) and counts.drained):
            if time.monotonic() - self.moved > _DRAIN_PATIENCE:
                return False
        return True

    def _look(self, *, draining: bool) -> Counts | None:
        self.fleet.tend()
        began = time.monotonic()
        counts = self.gauges.read(backlog=draining)
        took = min(time.monotonic() - began, 0.1)
        if counts != self.last:
            self.moved, self.last = time.monotonic(), counts
        if time.monotonic() - self.moved > _PATIENCE:
            raise LabError(f"nothing has moved for {_PATIENCE:.0f} s; {self.fleet.crashes[-1:]}")
        if counts is not None:
            killed = self.kills.advance(counts.done / self.flights)
            if killed is not None or time.monotonic() - self.said > 2:
                self.said = time.monotonic()
                self.say(killed or f"{counts.departed:,} departed, {counts.shown:,} on the board")
        time.sleep(max(_LOOK, 20 * took))
        return counts


def run(flights: int, seed: int, say: Callable[[str], None], page: Path | None = None) -> Result:
    """Run the whole demo; everything is cleaned up in every case."""
    began = time.monotonic()
    known = known_flights(flights)
    say("starting PostgreSQL")
    with EmbeddedServer() as server:
        databases = Databases(*(server.create_database(name) for name in ("broker", "airline", "board")))
        _prepare(databases)
        with _fleet(databases) as fleet, Gauges(databases) as gauges:
            kills = Kills(schedule(seed, flights), fleet, lambda: restart(server))
            say(f"{flights:,} flights, seed {seed}")
            flying_from = time.monotonic()
            _start_processes(fleet, flights)
            drained = _Work(flights, fleet, gauges, kills, say).until_drained()
            flying_seconds = time.monotonic() - flying_from
            fleet.stop()
            say("the SQL engine audits the three databases, and Spark computes it again")
            with ThreadPoolExecutor(1) as beside:
                waiting = beside.submit(_audit_by_sql, databases, say)
                found = _audit(databases, "spark", page=page, faults=kills.log)
                first = waiting.result()
            _require_the_same(first, found)
            counts, expected = gauges.read(), expected_board(known)
            if counts is None:
                raise LabError("the server went away after the audit")
            return Result(
                flights=flights,
                cancelled=sum(flight.cancelled for flight in known),
                seed=seed,
                counts=counts,
                decisions=gauges.decisions(),
                cells=len(expected),
                mismatches=differing(expected, gauges.board()),
                audit=found,
                kills={role: fleet.kills[role] for role in ROLES},
                restarts=kills.restarts,
                spared=len(kills.waiting),
                crashes=len(fleet.crashes),
                drained=drained,
                flying_seconds=flying_seconds,
                seconds=time.monotonic() - began,
            )


def _require_the_same(first: Audit, found: Audit) -> None:
    """Raise for an audit that failed, with its own words, and for engines that judge differently."""
    for one in (first, found):
        if "anomalies" not in one.report:
            reasons = " ".join(one.report["reasons"])
            raise LabError(f"the audit by {one.engine} failed with status {one.status}: {reasons}")
    if found.verdict != first.verdict:
        raise LabError(f"the engines differ: SQL says {first.verdict} and Spark {found.verdict}")


def _audit_by_sql(databases: Databases, say: Callable[[str], None]) -> Audit:
    found = _audit(databases, "sql")
    say(f"the SQL engine says {found.verdict}, in {found.seconds:.0f} s")
    return found


def _audit(databases: Databases, engine: str, **page: Any) -> Audit:
    ledgers, applied = [(PRODUCER_GROUP, databases.airline)], [(CONSUMER_GROUP, databases.board)]
    with progress(f"audit by {engine}"):
        return audit(databases.broker, ledgers=ledgers, applied=applied, engine=engine, **page)


def _prepare(databases: Databases) -> None:
    """Create the schema, the topic and the groups, the business tables, and the ledger."""
    migrate.upgrade(databases.broker)
    with mqpg.connect(databases.broker) as mq:
        mq.create_topic(TOPIC, queues=QUEUES)
        mq.subscribe(CONSUMER_GROUP, TOPIC, mode="pinned")
    with psycopg.connect(databases.broker) as conn:
        # The client would log that no compensator knows the ledger. They start later.
        conn.execute(
            "select mqpg.create_producer_group(%s, check_after => %s, checker => 'url', checker_target => 'airline')",
            [PRODUCER_GROUP, _CHECK_AFTER],
        )
    for dsn, tables in ((databases.airline, AIRLINE), (databases.board, BOARD)):
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(tables.encode())
    with mqpg.Ledger(sqlalchemy_url(databases.airline)) as ledger:
        ledger.create()


@contextmanager
def _fleet(databases: Databases) -> Iterator[Fleet]:
    variables = {
        "MQPG_DATABASE_URL": databases.broker,
        LEDGER_URL: sqlalchemy_url(databases.airline),
        BOARD_URL: sqlalchemy_url(databases.board),
    }
    folder = Path(tempfile.mkdtemp(prefix="mqpg-demo-logs-"))
    fleet = Fleet(folder, environment(**variables), _MOST_CRASHES)
    try:
        yield fleet
    finally:
        fleet.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _start_processes(fleet: Fleet, flights: int) -> None:
    python = [sys.executable, "-m"]
    # A process that is started again while PostgreSQL recovers waits for it.
    patient = ["--wait", "60", "--stop-on-eof"]
    for role in ("appender", "compensator", "keeper"):
        fleet.add(role, [*python, "mqpg", "worker", role, *patient])
    for number in range(_CONSUMERS):
        # Each consumer names its queues. They are pinned, so it has the same ones after a kill.
        queues = ",".join(map(str, range(number, QUEUES, _CONSUMERS)))
        which = ["lab.demo.board:board", "--consumer", f"board-{number + 1}", "--queues", queues]
        fleet.add(f"consumer-{number + 1}", [*python, "mqpg", "consume", *which, *patient])
    for number in range(_PRODUCERS):
        share = [flights, number, _PRODUCERS, _THREADS, flights / _LEAST_SECONDS / _PRODUCERS]
        fleet.add(f"producer-{number + 1}", [*python, "lab.demo.airline", *map(str, share)], finishes=True)
