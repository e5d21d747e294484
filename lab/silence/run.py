"""One run: a server, two of each kind of container, and faults that hit the one that holds something."""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console

import mqpg
from lab.chaos.containers import Container, Server, engine
from lab.command import percentiles
from mqpg import migrate
from tests.support.waiting import eventually

from .handlers import LEASE

__all__ = ["LIMITS", "Result", "run"]

FAULTS = ("kill", "freeze", "detach", "link")
MEMBERS = ("c1", "c3")
LIMITS = {"leader": 10.0} | dict.fromkeys(MEMBERS, LEASE + 5)  # seconds, at most
_FAULT = 11.0  # seconds for which a fault lasts, longer than any limit
_PATIENCE = 180.0  # seconds in which a delivery, and afterwards the standby, has to come
_BACKLOG = 10  # messages that wait for a member
_PAUSE = 0.01  # seconds between two sends to the leader's topic
_WORKER = ["mqpg", "worker", "--wait", "60", "--stop-on-eof"]
_TABLES = """
create table began (consumer_group text, host text, id int, at timestamptz default clock_timestamp());
create table effect (consumer_group text, id int)
"""
_LEADER = "select host from mqpg.worker_status where role = 'appender' and state = 'active' order by seen_at desc"
_READY = """
select 1 from mqpg.worker_status where role = %s and host = any(%s) and seen_at > %s
group by role having count(distinct host) = 2
"""
_LAST = "select host, id from began where consumer_group = %s order by at desc limit 1"
_TAKEN = """
select id, extract(epoch from at)::float from began
where consumer_group = %s and host <> %s and at > %s order by at limit 1
"""


@dataclass(frozen=True, slots=True)
class Result:
    """What was seen.

    Attributes:
        seconds: For each fault and target, the seconds until the first delivery.
        passed: Faults that met a member just after its message was done, which say nothing.
        counts: Messages that were sent, lost and applied twice, of each target.
    """

    seed: int
    seconds: dict[tuple[str, str], list[float]]
    passed: int
    counts: dict[str, dict[str, int]]
    duration: float

    @property
    def holds(self) -> bool:
        """Whether nothing was lost, nothing doubled, and no limit passed."""
        in_time = all(value <= LIMITS[target] for (_, target), values in self.seconds.items() for value in values)
        return in_time and not any(one["lost"] or one["doubled"] for one in self.counts.values())

    def as_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        rows = [
            {"fault": fault, "target": target, "times": len(values), **percentiles(values), "limit": LIMITS[target]}
            for (fault, target), values in self.seconds.items()
        ]
        return {
            "seed": self.seed,
            "rows": rows,
            "passed": self.passed,
            "counts": self.counts,
            "seconds": self.duration,
            "holds": self.holds,
        }

    def show(self, console: Console) -> None:
        """Print it on a terminal."""
        console.print_json(data=self.as_json())


class Site:
    """The containers, and a thread that keeps every topic busy."""

    def __init__(self, server: Server, containers: dict[str, Container]) -> None:
        self.containers = containers
        self.dsn = server.create_database("broker")
        self.sent: Counter[str] = Counter()
        self.received: Counter[int] = Counter()
        self.at: dict[int, float] = {}
        self._over, self._drained = threading.Event(), threading.Event()
        migrate.upgrade(self.dsn)
        self._asking = self.connect()
        self._asking.execute(_TABLES.encode())
        with mqpg.connect(self.dsn) as mq:
            for target in LIMITS:
                mq.create_topic(target, queues=1)
            mq.subscribe("leader", "leader")

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, autocommit=True, connect_timeout=10)

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask by one session, which threads use in turns."""
        return self._asking.execute(statement.encode(), values).fetchall()

    def now(self) -> Any:
        """The server's time."""
        return self.query("select clock_timestamp()")[0][0]

    def ready(self, target: str) -> None:
        """Wait until both containers of a target work, or stand by."""
        role, name = ("appender", "worker") if target == "leader" else ("consumer", target)
        hosts, since = [f"{name}-1", f"{name}-2"], self.now()
        eventually(lambda: self.query(_READY, role, hosts, since), _PATIENCE, why=lambda: f"waits for {hosts}")

    def effects(self, target: str) -> Counter[int]:
        """How often each message was applied."""
        if target == "leader":
            return self.received
        rows = self.query("select id, count(*) from effect where consumer_group = %s group by id", target)
        return Counter(dict(rows))

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Send, and receive what the leader appends, until the block ends. Then drain everything."""
        with ThreadPoolExecutor(2) as pool:
            work = [pool.submit(self._send), pool.submit(self._receive)]
            try:
                yield
                self._over.set()
                self._drain()
            finally:
                self._over.set()
                self._drained.set()
                for one in work:
                    one.result()

    def _send(self) -> None:
        with self.connect() as conn:
            while not self._over.is_set():
                for target in LIMITS:
                    if target == "leader" or self.sent[target] - len(self.effects(target)) < _BACKLOG:
                        self.sent[target] += 1
                        conn.execute("select mqpg.send(%s, %s)", [target, str(self.sent[target])])
                time.sleep(_PAUSE)

    def _receive(self) -> None:
        with self.connect() as conn:
            while not self._drained.is_set():
                with conn.transaction():
                    rows = conn.execute("select payload, receipt from mqpg.receive('leader', 'leader', 500)").fetchall()
                    if rows:
                        conn.execute("select mqpg.ack(%s)", [rows[0][1]])
                now = time.monotonic()
                for payload, _ in rows:
                    self.received[payload] += 1
                    self.at.setdefault(payload, now)
                if not rows:
                    time.sleep(_PAUSE)

    def _drain(self) -> None:
        for target in LIMITS:
            eventually(lambda: len(self.effects(target)) >= self.sent[target], _PATIENCE)  # noqa: B023 (called at once)

    def counts(self) -> dict[str, dict[str, int]]:
        """Messages that were sent, lost and applied twice; C3 may apply twice."""
        found = {}
        for target in LIMITS:
            effects = self.effects(target)
            twice = 0 if target == "c3" else sum(times > 1 for times in effects.values())
            found[target] = {"sent": self.sent[target], "lost": self.sent[target] - len(effects), "doubled": twice}
        return found


def hit(container: Container, fault: str) -> None:
    """Carry out a fault, and undo it."""
    if fault == "kill":
        container.kill()
        time.sleep(_FAULT)
        container.start()
    elif fault == "freeze":
        container.send(signal.SIGSTOP)
        time.sleep(_FAULT)
        container.send(signal.SIGCONT)
    elif fault == "detach":
        container.detached(_FAULT)
    else:
        container.link_down(_FAULT)


def leader(site: Site, fault: str) -> float | None:
    """Hit the leader of the appenders, and return the seconds until a message that is sent meanwhile arrives."""
    site.ready("leader")
    (host,) = site.query(_LEADER)[0]
    with ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        done = pool.submit(hit, site.containers[host], fault)
        time.sleep(0.5)  # what was on its way when the fault began
        first = site.sent["leader"] + 1
        eventually(lambda: first in site.at, _PATIENCE, why=lambda: f"{fault} of {host}: no standby appends")
        done.result()
    return site.at[first] - began


def member(site: Site, group: str, fault: str) -> float | None:
    """Hit the member whose handler is at work, and return the seconds until the other one has its message.

    Returns None if the message was done before the fault began.
    """
    site.ready(group)
    before = site.now()
    eventually(
        lambda: site.query("select 1 from began where consumer_group = %s and at > %s", group, before), _PATIENCE
    )
    ((host, id),) = site.query(_LAST, group)
    at, began = site.query("select clock_timestamp(), extract(epoch from clock_timestamp())::float")[0]
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(hit, site.containers[host], fault)
        found = eventually(
            lambda: site.query(_TAKEN, group, host, at), _PATIENCE, why=lambda: f"{fault} of {host}: it keeps its queue"
        )
        ((taken, when),) = found
        done.result()
    return when - began if taken == id else None


def round_of(site: Site, fault: str) -> dict[str, float]:
    """Hit one container of each target at the same time."""
    with ThreadPoolExecutor(len(LIMITS)) as pool:
        work: dict[str, Future[float | None]] = {"leader": pool.submit(leader, site, fault)}
        work |= {group: pool.submit(member, site, group, fault) for group in MEMBERS}
    found = {target: one.result() for target, one in work.items()}
    return {target: value for target, value in found.items() if value is not None}


def run(times: int, seed: int, say: Callable[[str], None]) -> Result:
    """Run it all; the containers are removed in every case."""
    folder = Path(tempfile.mkdtemp(prefix="mqpg-silence-"))
    folder.chmod(0o711)
    seconds: dict[tuple[str, str], list[float]] = {(fault, target): [] for fault in FAULTS for target in LIMITS}
    passed, began = 0, time.monotonic()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        site = started(stack, folder)
        with site.busy():
            plan = [fault for fault in FAULTS for _ in range(times)]
            random.Random(seed).shuffle(plan)
            for number, fault in enumerate(plan, 1):
                found = round_of(site, fault)
                for target, value in found.items():
                    seconds[fault, target].append(value)
                passed += len(LIMITS) - len(found)
                shown = ", ".join(f"{target} {value:.1f} s" for target, value in found.items())
                say(f"{number}/{len(plan)}: {fault}; {shown}")
        return Result(seed, seconds, passed, site.counts(), time.monotonic() - began)


def started(stack: ExitStack, folder: Path) -> Site:
    """Start a server, two workers, and two members of each group; all end with the stack."""
    made = stack.enter_context(engine(folder))
    database, server = made.create("database", folder / "database", {"max_connections": 200})
    assert server is not None
    stack.callback(database.kill)
    database.start()
    server.start()
    programs = {f"worker-{number}": _WORKER for number in (1, 2)}
    for group in MEMBERS:
        programs |= {f"{group}-{number}": ["mqpg", "consume", f"lab.silence.handlers:{group}"] for number in (1, 2)}
    containers = {name: made.create(name, None, {})[0] for name in programs}
    site = Site(server, containers)
    given = {"PYTHONPATH": "/opt/mqpg:/src", "MQPG_DATABASE_URL": site.dsn}
    for name, program in programs.items():
        containers[name].let_run(program, given)
    (folder / "layout.json").touch()
    for one in containers.values():
        stack.callback(one.kill)
        one.start()
    return site
