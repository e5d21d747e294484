"""One run: servers, nodes, rounds, drain, comparison, audits."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from mqpg.dsn import to_sqlalchemy
from mqpg.errors import Error

from .audits import run_audits
from .cluster import Cluster, cluster
from .drain import dead_letters, read_afresh, wait_until_drained
from .judge import compare
from .motion import Motion
from .names import Layout
from .nodes import BrokerNode, Node, ProcessNode
from .options import Options
from .proxy import ProxyProcess
from .result import Result, RoundResult
from .schedule import CONSUMERS, NODES, PRODUCERS, Round, schedule
from .strikes import Strikes

__all__ = ["ChaosError", "run"]

_START_PATIENCE = 180.0  # seconds in which every group has to begin
_DRAIN_PATIENCE = 40.0  # seconds without any change
_MOST_ENDINGS = 30
_PROXIED = ("cut", "halfopen")


class ChaosError(Error):
    """The run cannot continue. The message says why in one line."""


@dataclass(slots=True)
class _Stage:
    """What runs."""

    cluster: Cluster
    nodes: Mapping[str, Node]
    strikes: Strikes
    motion: Motion
    layout: Layout
    endings: list[str] = field(default_factory=list)

    def tend(self) -> None:
        """Start nodes that ended by themselves, which none should."""
        for node in self.nodes.values():
            status = node.ended()
            if status is not None:
                process = node.worker if isinstance(node, BrokerNode) else node
                assert isinstance(process, ProcessNode)
                self.endings.append(f"{node.name} ended with status {status}: {process.tail}")
                if len(self.endings) > _MOST_ENDINGS:
                    raise ChaosError(f"nodes keep ending by themselves: {self.endings[-1]}")
                process.kill()
                process.start()


def run(options: Options, say: Callable[[str], None]) -> Result:
    """Run it all; everything is stopped and removed in every case.

    Args:
        options: What to do.
        say: Called with a line about what happens.

    Raises:
        ChaosError: The nodes do not get to work, or keep ending by themselves.
        mqpg.Error: A server cannot be used.
    """
    began = time.monotonic()
    seconds: dict[str, float] = {}
    say(f"seed {options.seed}: starting three servers and ten nodes")
    with cluster(options) as made:
        with _stage(made, options) as stage:
            _warm_up(stage)
            seconds["start"] = time.monotonic() - began
            rounds = _rounds(stage, options, say)
            seconds["rounds"] = time.monotonic() - began - seconds["start"]
            say("draining")
            drain_from = time.monotonic()
            stage.layout.quiet.touch()
            left = wait_until_drained(made, _DRAIN_PATIENCE, stage.tend)
            seconds["drain"] = time.monotonic() - drain_from
            changes = stage.motion.changes_of_hot_tables
            _end(stage)
        say("fresh groups read everything" if not left else f"left: {left}")
        read_from = time.monotonic()
        read_afresh(made)
        seconds["fresh readers"] = time.monotonic() - read_from
        judge_from = time.monotonic()
        findings = compare(made)
        seconds["comparison"] = time.monotonic() - judge_from
        say(f"{findings.messages:,} messages compared by id; auditing by {' and '.join(options.engines)}")
        audit_from = time.monotonic()
        audits = run_audits(made, options, [fault for one in rounds for fault in one.faults()])
        seconds["audits"] = time.monotonic() - audit_from
        letters = dead_letters(made)
    seconds["all"] = time.monotonic() - began
    return Result(
        seed=options.seed,
        command={
            "rounds": options.rounds,
            "interval": options.interval,
            "rate": options.rate,
            "faults": ",".join(options.faults),
            "all_at_once": options.all_at_once,
            "engines": ",".join(options.engines),
        },
        rounds=rounds,
        findings=findings,
        audits=audits,
        left=left,
        changes_of_hot_tables=changes,
        dead_letters=letters,
        ended_by_themselves=stage.endings,
        seconds=seconds,
        kept=str(made.folder) if options.keep else None,
    )


@contextmanager
def _stage(made: Cluster, options: Options) -> Iterator[_Stage]:
    """Start the ten nodes; they are killed at the end."""
    wanted = set(options.faults) & set(_PROXIED)
    proxies = [ProxyProcess(server.port or 0) for server in made.servers] if wanted else []
    brokers = [
        to_sqlalchemy(dsn).set(port=proxy.port).render_as_string(hide_password=False)
        for dsn, proxy in zip(made.brokers, proxies, strict=False)
    ] or made.brokers
    layout = Layout(
        str(made.folder),
        brokers,
        made.brokers,
        made.stores,
        made.sinks,
        options.rate / len(PRODUCERS),
        options.seed,
        list(options.protocols),
    )
    nodes = _nodes(made, layout)
    motion = Motion(made.brokers)
    names = [name for name in nodes if name.startswith("broker-")]
    strikes = Strikes(
        nodes, dict(zip(names, made.brokers, strict=True)), dict(zip(names, proxies, strict=False)), options.down
    )
    try:
        for node in nodes.values():
            node.start()
        yield _Stage(made, nodes, strikes, motion, layout)
    finally:
        motion.close()
        for node in nodes.values():
            (node.worker if isinstance(node, BrokerNode) else node).kill()
        for proxy in proxies:
            proxy.close()


def _nodes(made: Cluster, layout: Layout) -> dict[str, Node]:
    path = str(layout.write())
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    found: dict[str, Node] = {}
    for role, numbers in (("producer", PRODUCERS), ("consumer", CONSUMERS)):
        for number in numbers:
            name = f"{role}-{number}"
            found[name] = ProcessNode(name, [f"mqpg.chaos.{role}", path, str(number)], made.folder, env)
    # The DSN and the ledgers go through the environment, because all users can read arguments.
    ledgers = {f"MQPG_LEDGER_{name.upper().replace('-', '_')}": url for name, url in made.ledgers().items()}
    for number, (server, dsn) in enumerate(zip(made.servers, made.brokers, strict=True), 1):
        argv = ["mqpg", "worker", "--wait", "60", "--heartbeat", "1", "--call-timeout", "10", "--stop-on-eof"]
        worker = ProcessNode(f"worker-{number}", argv, made.folder, env | ledgers | {"MQPG_DATABASE_URL": dsn})
        found[f"broker-{number}"] = BrokerNode(f"broker-{number}", server, worker)
    return found


def _warm_up(stage: _Stage) -> None:
    """Wait until every group has moved once, because ten processes take a while to start."""
    until = time.monotonic() + _START_PATIENCE
    while not stage.motion.positions() or any(at == 0 for at in stage.motion.positions().values()):
        stage.tend()
        if time.monotonic() > until:
            idle = [place for place, at in stage.motion.positions().items() if at == 0]
            raise ChaosError(f"these groups do not get to work: {idle}; {stage.endings[-1:]}")
        time.sleep(0.2)


def _rounds(stage: _Stage, options: Options, say: Callable[[str], None]) -> list[RoundResult]:
    found: list[RoundResult] = []
    until = time.monotonic() + 60 * (options.minutes or math.inf)
    for one in schedule(options.seed, options.rounds, options.faults, options.among, all_at_once=options.all_at_once):
        due = time.monotonic() + options.interval
        if time.monotonic() > until:
            say(f"{options.minutes:g} minutes are over")
            break
        result = _round(stage, one, options.patience)
        found.append(result)
        took = result.recovery
        after = "did not move in time" if took is None else f"was the last to move, after {took:.1f} s"
        hit = "all ten nodes" if len(one.nodes) == len(NODES) else ", ".join(one.nodes)
        say(f"round {one.number}/{options.rounds}: {one.kind} {hit}; {result.last or 'every group'} {after}")
        while time.monotonic() < due:
            stage.tend()
            time.sleep(0.1)
    return found


def _round(stage: _Stage, one: Round, patience: float) -> RoundResult:
    at, began = datetime.now(UTC), time.monotonic()
    stage.strikes.carry_out(one)
    lasted = time.monotonic() - began
    recovery, last = stage.motion.wait_until_all_moved(stage.motion.positions(), patience)
    stage.tend()
    moved_at = None if recovery is None else datetime.now(UTC)
    return RoundResult(one.number, one.kind, one.nodes, at, lasted, recovery, moved_at, last)


def _end(stage: _Stage) -> None:
    """End the producers and consumers, but not the brokers, which fresh groups still read."""
    for node in stage.nodes.values():
        if not isinstance(node, BrokerNode):
            node.kill()
