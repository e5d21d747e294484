"""`python -m lab.soak`: everything works while its processes are killed at random.

It must end drained and valid. The soak has a server of its own, producers of all kinds, consumer
groups in all modes, and two of each worker. All of them are real processes that get kill -9 at
random moments and are started again. Now and then the server itself crashes. Then the producers
end, everything is drained, and the Spark audit and the counts here must find nothing wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import sys
import time
from pathlib import Path
from tempfile import mkdtemp

import mqpg
from lab.audits import audit
from lab.processes import Fleet, environment
from mqpg.embedded import EmbeddedServer
from tests.support.servers import restart

from .members import GROUPS, PRODUCERS, SINGLE, TOPIC
from .rig import Databases, add_members, drain, prepare, terminate_cleanly, warm_up, wrong_effects

__all__ = ["main"]

_PATIENCE = 900.0  # seconds for all groups to begin, and for the queues to drain


def _start(fleet: Fleet, seed: int, databases: Databases) -> None:
    names = [f"{role}-{n}" for n, role in enumerate(PRODUCERS)]
    names += [f"{group}-{n}" for group in GROUPS for n in range(1 if group in SINGLE else 2)]
    add_members(fleet, "lab.soak.members", names, seed, databases)
    for n in range(2):  # one is on standby
        worker = ["mqpg", "worker", "--dsn", databases.broker, "--ledger", f"shop={databases.shop_url}"]
        fleet.add(f"worker-{n}", [sys.executable, "-m", *worker])


def _shake(fleet: Fleet, server: EmbeddedServer, rng: random.Random, seconds: float) -> int:
    """Kill processes until the time is over, and return how often the server crashed."""
    until, crashes = time.monotonic() + seconds, 0
    next_crash = time.monotonic() + rng.uniform(60, 180)
    while time.monotonic() < until:
        time.sleep(rng.uniform(0.5, 4))
        if time.monotonic() > next_crash:
            restart(server)
            crashes += 1
            next_crash = time.monotonic() + rng.uniform(60, 180)
        fleet.kill_one(rng)
        if rng.random() < 0.7:
            fleet.tend()
    fleet.tend()
    return crashes


def main() -> int:
    """Return 0 when the soak ended drained and valid."""
    parser = argparse.ArgumentParser(prog="python -m lab.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("MINUTES") or 30))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MQPG_TEST_SEED") or secrets.randbits(32)))
    options = parser.parse_args()
    terminate_cleanly()
    folder, rng = Path(mkdtemp(prefix="mqpg-soak-")), random.Random(options.seed)
    print(f"seed {options.seed}, {options.minutes} minutes, logs in {folder}", flush=True)
    with EmbeddedServer(settings={"max_connections": 300}) as server:
        databases = Databases(server.create_database("soak"), server.create_database("shop"))
        prepare(databases)
        with mqpg.connect(databases.broker) as mq:
            mq.create_topic(TOPIC, queues=4)
        fleet = Fleet(folder, environment())
        try:
            _start(fleet, options.seed, databases)
            warm_up(fleet, databases, _PATIENCE)
            crashes = _shake(fleet, server, rng, options.minutes * 60)
            left = drain(fleet, databases.broker, PRODUCERS, _PATIENCE)
        finally:
            fleet.retire(fleet.names)
        messages, wrong = wrong_effects(databases)
        # A drained audit judges every group in its scope, and `outside` keeps no journal.
        found = audit(
            databases.broker,
            ledgers=[("shop", databases.shop)],
            applied=[("pinned", databases.shop)],
            groups=[group for group, settings in GROUPS.items() if settings.get("journal")],
        )
    report = {
        "seed": options.seed,
        "messages": messages,
        "kills": dict(fleet.kills),
        "server_crashes": crashes,
        "wrong": left + wrong,
        "crashed_by_themselves": fleet.crashes[:20],
        "audit_status": found.status,
        "audit": {name: found.report.get(name) for name in ("verdict", "reasons", "anomalies")},
    }
    print(json.dumps(report, indent=2, default=str), flush=True)
    return 0 if found.status == 0 and not report["wrong"] else 1


if __name__ == "__main__":
    sys.exit(main())
