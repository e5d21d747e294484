"""One run: databases, processes, kills, drain, audit, comparison."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import create_engine

import mqpg
from mqpg import migrate

from .audit import run_audit
from .chaos import Chaos, Target, schedule
from .expected import Board, compare, expected_board
from .fleet import DemoError, Fleet, environment
from .flights import Census, census, check_census, read_flights
from .measure import Gauges
from .names import BOARD_URL, CONSUMER_GROUP, LEDGER_URL, PRODUCER_GROUP, QUEUES, TOPIC
from .progress import Progress
from .result import Result
from .servers import Databases, EmbeddedHost, ExistingHost, Host, temporary_databases
from .tables import airline_metadata, board_metadata
from .watch import Watch

__all__ = ["Options", "run"]

_CHECK_AFTER = "5 s"
# A small run with kills is slowed down to this, so that there is work while they happen.
_LEAST_SECONDS = 12.0


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line."""

    flights: int
    seed: int
    chaos: bool = True
    keep: bool = False
    dsn: str | None = None  # an existing server; None means an embedded one
    producers: int = 2
    consumers: int = 2
    threads: int = 6  # of each producer process
    page: Path | None = None  # where the audit's HTML page is written


@dataclass(frozen=True, slots=True)
class _Truth:
    """What the file says."""

    census: Census
    board: Board


@dataclass(frozen=True, slots=True)
class _Targets:
    """The fleet and the server, as what chaos may strike."""

    fleet: Fleet
    host: Host
    names: list[str]

    def kill(self, role: Target, pick: int, pause: float) -> str | None:
        return self.fleet.kill(role, pick, pause)

    def shake_postgres(self) -> str:
        return self.host.shake(self.names)


def run(options: Options, progress: Progress) -> Result:
    """Run the whole demo; everything is cleaned up in every case.

    Raises:
        DemoError: A process keeps crashing, nothing moves any longer, or the audit failed.
        FlightsError: The flights are not installed, or the file is not the known one.
        mqpg.Error: The server cannot be used.
    """
    started = time.monotonic()
    progress.say("reading the flights")
    truth = _truth(options.flights)
    with ExitStack() as stack:
        progress.say("starting PostgreSQL" if options.dsn is None else "creating three databases")
        host = stack.enter_context(_host(options))
        databases, names = stack.enter_context(temporary_databases(host, keep=options.keep))
        _prepare(databases)
        fleet = stack.enter_context(_fleet(databases, options))
        gauges = Gauges(databases)
        stack.callback(gauges.close)
        chaos = Chaos(schedule(options.seed, options.flights) if options.chaos else [], _Targets(fleet, host, names))
        watch = Watch(truth.census.flights, fleet, gauges, chaos, progress)
        progress.fly(truth.census)
        _start_processes(fleet, options)
        drained = watch.run()
        flying = time.monotonic() - watch.started
        fleet.stop()
        progress.say("Spark audits the three databases")
        audit_started = time.monotonic()
        audit = run_audit(databases, options.page, chaos.log)
        reading, board = gauges.reading(), gauges.board()
        if reading is None:
            raise DemoError("the server went away after the audit")
        return Result(
            flights=truth.census.flights,
            cancelled=truth.census.cancelled,
            seed=options.seed,
            server=host.label,
            departed=reading.departed,
            rolled_back=reading.cancelled,
            consumed=reading.shown,
            decisions=gauges.decisions(),
            cells=len(truth.board),
            mismatches=compare(truth.board, board),
            audit=audit,
            kills=chaos.kills,
            restarts=chaos.restarts,
            disconnects=chaos.disconnects,
            spared=chaos.waiting,
            crashes=fleet.crashes,
            drained=drained,
            flying_seconds=flying,
            audit_seconds=time.monotonic() - audit_started,
            seconds=time.monotonic() - started,
            kept=_kept(databases, names, host, fleet) if options.keep else {},
        )


def _truth(flights: int) -> _Truth:
    counted = census(read_flights(flights))
    check_census(counted, flights)
    return _Truth(counted, expected_board(read_flights(flights)))


@contextmanager
def _host(options: Options) -> Iterator[Host]:
    if options.dsn is not None:
        yield ExistingHost(options.dsn)
        return
    with EmbeddedHost(keep=options.keep) as host:
        yield host


def _prepare(databases: Databases) -> None:
    """Create the schema, the topic and the groups, the business tables, and the ledger."""
    migrate.upgrade(databases.broker)
    with mqpg.connect(databases.broker) as mq:
        mq.create_topic(TOPIC, queues=QUEUES)
        mq.create_producer_group(PRODUCER_GROUP, check_after=_CHECK_AFTER, checker="url", checker_target="airline")
        mq.subscribe(CONSUMER_GROUP, TOPIC, mode="pinned")
    for url, metadata in ((databases.airline_url, airline_metadata), (databases.board_url, board_metadata)):
        engine = create_engine(url)
        metadata.create_all(engine)
        engine.dispose()
    mqpg.Ledger(databases.airline_url).create()


@contextmanager
def _fleet(databases: Databases, options: Options) -> Iterator[Fleet]:
    variables = {
        "MQPG_DATABASE_URL": databases.broker,
        LEDGER_URL: databases.airline_url,
        BOARD_URL: databases.board_url,
    }
    folder = Path(tempfile.mkdtemp(prefix="mqpg-demo-logs-"))
    fleet = Fleet(folder, environment(variables))
    try:
        yield fleet
    finally:
        fleet.stop()
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


def _start_processes(fleet: Fleet, options: Options) -> None:
    mqpg_command = [sys.executable, "-m", "mqpg"]
    # A process that is started again while PostgreSQL recovers waits for it.
    patient = ["--wait", "60", "--stop-on-eof"]
    for role in ("appender", "compensator", "keeper"):
        fleet.start(role, role, [*mqpg_command, "worker", role, *patient])
    for number in range(options.consumers):
        # Each consumer names its queues. They are pinned, so it has the same ones after it was
        # killed.
        queues = ",".join(str(queue) for queue in range(number, QUEUES, options.consumers))
        name = f"{CONSUMER_GROUP}-{number + 1}"
        which = ["lab.demo.board:board", "--consumer", name, "--queues", queues]
        fleet.start("consumer", name, [*mqpg_command, "consume", *which, *patient])
    pace = ["--rate", options.flights / _LEAST_SECONDS / options.producers] if options.chaos else []
    for number in range(options.producers):
        what = ["--flights", options.flights, "--threads", options.threads, *pace]
        share = ["--share", number, "--shares", options.producers, "--stop-on-eof"]
        argv = [sys.executable, "-m", "lab.demo.airline", *map(str, [*what, *share])]
        fleet.start("producer", f"{PRODUCER_GROUP}-{number + 1}", argv)


def _kept(databases: Databases, names: list[str], host: Host, fleet: Fleet) -> dict[str, str]:
    """Where everything is that --keep kept, and how to stop it.

    Without the password of an existing server.
    """
    kept = {"logs": str(fleet.folder)}
    if isinstance(host, EmbeddedHost):
        kept |= {"broker": databases.broker, "airline": databases.airline, "board": databases.board}
        return kept | {"stop": f"mqpg down --data {host.folder}"}
    return kept | dict(zip(("broker", "airline", "board"), names, strict=True))
