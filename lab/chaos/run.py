"""One run: servers, nodes, rounds, drain, comparison, audits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import UTC, datetime

from .audits import run_audits
from .cluster import cluster
from .disk import enlarge
from .drain import dead_letters, read_afresh, wait_until_drained
from .judge import compare
from .nodes import BrokerNode
from .options import Options
from .result import Result, RoundResult
from .schedule import NODES, Round, schedule
from .stage import ChaosError, Stage, make_stage

__all__ = ["ChaosError", "run"]

_START_PATIENCE = 180.0  # seconds in which every group has to begin
_DRAIN_PATIENCE = 40.0  # seconds without any change


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
        with make_stage(made, options) as stage:
            _warm_up(stage)
            seconds["start"] = time.monotonic() - began
            rounds = _rounds(stage, options, say)
            seconds["rounds"] = time.monotonic() - began - seconds["start"]
            say("draining")
            drain_from = time.monotonic()
            stage.layout.quiet.touch()
            left = wait_until_drained(made, _DRAIN_PATIENCE, stage.tend)
            seconds["drain"] = time.monotonic() - drain_from
            found = stage.strikes.findings
            changes = stage.motion.changes_of_hot_tables
            _end(stage)
        if "disk" in options.faults:
            for server in made.servers:
                enlarge(server.directory)
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
        found_by_strikes=found,
        kept=str(made.folder) if options.keep else None,
    )


def _warm_up(stage: Stage) -> None:
    """Wait until every group has moved once, because ten processes take a while to start."""
    until = time.monotonic() + _START_PATIENCE
    while not stage.motion.positions() or any(at == 0 for at in stage.motion.positions().values()):
        stage.tend()
        if time.monotonic() > until:
            idle = [place for place, at in stage.motion.positions().items() if at == 0]
            raise ChaosError(f"these groups do not get to work: {idle}; {stage.endings[-1:]}")
        time.sleep(0.2)


def _rounds(stage: Stage, options: Options, say: Callable[[str], None]) -> list[RoundResult]:
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
        hit += f" ({', '.join(one.how)})" if one.how else ""
        say(f"round {one.number}/{options.rounds}: {one.kind} {hit}; {result.last or 'every group'} {after}")
        while time.monotonic() < due:
            stage.tend()
            time.sleep(0.1)
    return found


def _round(stage: Stage, one: Round, patience: float) -> RoundResult:
    at, began = datetime.now(UTC), time.monotonic()
    stage.strikes.carry_out(one)
    lasted = time.monotonic() - began
    recovery, last = stage.motion.wait_until_all_moved(stage.motion.positions(), patience)
    stage.tend()
    moved_at = None if recovery is None else datetime.now(UTC)
    return RoundResult(one.number, one.kind, one.nodes, at, lasted, recovery, moved_at, last, one.how)


def _end(stage: Stage) -> None:
    """End the producers and consumers, but not the brokers, which fresh groups still read."""
    for node in stage.nodes.values():
        if not isinstance(node, BrokerNode):
            node.kill()
