"""`python -m lab.years`: a year in an hour, in which nothing may grow.

A day lasts ten seconds: segments, slots, windows and retentions have the lengths that they have in
a year, 8640 times shorter. Twelve producers, all modes of consumption, an administrator and readers
with long snapshots are at work. Partitions, disk, locks, catalogs, memory and latencies must be flat
from the second quarter on, and at the end each message that was sent must have its effect once in
each group.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg

import mqpg
from lab.processes import Fleet, environment
from lab.soak.members import GROUPS, TOPIC
from lab.soak.rig import Databases, add_members, drain, prepare, terminate_cleanly, warm_up, wrong_effects
from mqpg.embedded import EmbeddedServer

from .roles import PRODUCERS, ROLES, TABLES
from .samples import BOUNDS, Sample, Sampler, growing, quarters

__all__ = ["main"]

DAY = 10.0  # seconds
# What lasts 6 hours, a day, an hour (the window of dedup ids, whose least length is a second) and 7
# days in a year.
SETTINGS = {
    "segment_age": DAY / 4,
    "cursor_slot_age": DAY / 4,
    "delayed_slot": DAY,
    "dedup_window": 1.0,
    "op_log_keep": DAY * 7,
    "position_jump_keep": DAY * 7,
}
RETENTION = DAY * 7
WARM_UP = RETENTION + 2 * DAY  # seconds before the first quarter
# A minute is six days of this year.
SERVER: dict[str, str | int] = {"max_connections": 200, "track_functions": "pl", "autovacuum_naptime": 1}
WORKERS = {"appender": 0.05, "compensator": 0.5, "keeper": 0.25}  # roles and their pauses in seconds
# A client that was cut off, a conflict that it should repeat, and the errors of class MQ.
_EXPECTED_ERRORS = ("MQ", "40001", "55P03")
# The installation made slots that last a day. Without them they are made as the settings say.
_SHORT_SLOTS = (
    "drop table mqpg.delayed_1, mqpg.delayed_2, mqpg.delayed_3",
    "delete from mqpg.segment where family = 'delayed'",
    "select mqpg.keep()",
)
_PAUSE = "4"  # a producer's longest pause in seconds
_PATIENCE = 600.0  # seconds for the queues to drain


def _prepare(databases: Databases, fault: str) -> None:
    prepare(databases)
    with psycopg.connect(databases.broker, autocommit=True) as conn:
        for name, value in SETTINGS.items():
            conn.execute("update mqpg.settings set value = %s where name = %s", [f"{value} s", name])
        for statement in (*_SHORT_SLOTS, fault, TABLES):
            conn.execute(statement.encode())
        for topic, queues in ((TOPIC, 4), ("probe", 1)):
            conn.execute("select mqpg.create_topic(%s, %s, make_interval(secs => %s))", [topic, queues, RETENTION])
        conn.execute("select mqpg.subscribe('probe', 'probe')")


def _start(fleet: Fleet, seed: int, databases: Databases) -> None:
    for role, pause in WORKERS.items():
        command = ["mqpg", "worker", role, "--dsn", databases.broker, "--interval", str(pause)]
        ledger = ["--ledger", f"shop={databases.shop_url}"] if role == "compensator" else []
        fleet.add(f"worker-{role}", [sys.executable, "-m", *command, *ledger])
    names = [f"{group}-{n}" for group in GROUPS for n in range(2 if group in ("shared", "everybody") else 1)]
    names += [f"{role}-{n}" for n, role in enumerate(PRODUCERS)]
    names += [f"{role}-0" for role in ROLES]
    add_members(fleet, "lab.years.roles", names, seed, databases)


def _live(fleet: Fleet, databases: Databases, log: Path, seconds: float) -> list[Sample]:
    """Take samples until the time is over."""
    every = max(2.0, min(10.0, seconds / 60))
    sampler, ledger = Sampler(*databases), mqpg.Ledger(databases.shop_url)
    begun, samples = time.monotonic(), []
    try:
        while (at := time.monotonic() - begun) < seconds:
            fleet.tend()
            ledger.purge(timedelta(seconds=RETENTION))  # the table belongs to the shop, which has to do it
            roles = {name: name.rpartition("-")[0] for name in fleet.pids}
            workers = [pid for name, pid in fleet.pids.items() if roles.get(name) == "worker"]
            consumers = [pid for name, pid in fleet.pids.items() if roles.get(name) in GROUPS]
            samples.append(sampler.take(at, {"workers": workers, "consumers": consumers}))
            with log.open("a") as lines:
                lines.write(json.dumps(samples[-1]) + "\n")
            time.sleep(max(0.0, begun + len(samples) * every - time.monotonic()))
    finally:
        sampler.close()
        ledger.close()
    return samples[1:]  # the first one counts what was before it


def _tidy(conn: psycopg.Connection[Any]) -> None:
    """Remove what the administrator left, and send dead letters on their way."""
    for side in conn.execute("select topic from mqpg.topics where topic like 'side-%'").fetchall():
        conn.execute("select mqpg.drop_topic(%s, force => true)", side)
    if conn.execute("select from mqpg.subscription_lag where consumer_group = 'visitor'").fetchone():
        conn.execute("select mqpg.unsubscribe('visitor', %s)", [TOPIC])
    conn.execute("select mqpg.redrive('mortal', %s)", [TOPIC])


def _errors(broker: str) -> tuple[Counter[str], list[str]]:
    """How many errors of each kind there were, and those that no caller expects."""
    with psycopg.connect(broker) as conn:
        rows = conn.execute("select member, code, message, count(*) from year_error group by 1, 2, 3").fetchall()
    found = Counter[str]()
    for member, code, _, n in rows:
        found[f"{code} {member}"] += n
    return found, [
        f"{who}: {n} times {text}" for who, code, text, n in rows if not (code or "").startswith(_EXPECTED_ERRORS)
    ]


def main() -> int:
    """Return 0 when everything was flat and each message took effect once."""
    parser = argparse.ArgumentParser(prog="python -m lab.years", description=__doc__)
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("MINUTES") or 60))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MQPG_TEST_SEED") or secrets.randbits(32)))
    parser.add_argument("--fault", default="", help="SQL that breaks the broker first, to see that the run fails")
    options = parser.parse_args()
    terminate_cleanly()
    folder = Path(mkdtemp(prefix="mqpg-years-"))
    print(f"seed {options.seed}, {options.minutes} minutes, logs in {folder}", flush=True)
    with EmbeddedServer(settings=SERVER) as server:
        databases = Databases(server.create_database("year"), server.create_database("shop"))
        _prepare(databases, options.fault)
        fleet = Fleet(folder, environment(MQPG_SOAK_PAUSE=_PAUSE))
        try:
            _start(fleet, options.seed, databases)
            warm_up(fleet, databases, 300)
            _live(fleet, databases, folder / "warm-up.jsonl", WARM_UP)
            samples = _live(fleet, databases, folder / "samples.jsonl", options.minutes * 60)
            wrong = drain(fleet, databases.broker, {*PRODUCERS, *ROLES}, _PATIENCE, _tidy)
        finally:
            fleet.retire(fleet.names)
        sent, effects = wrong_effects(databases)
        errors, unexpected = _errors(databases.broker)
    wrong += effects + unexpected + [f"ended by itself: {crash}" for crash in fleet.crashes[:20]]
    wrong += [f"not flat: {line}" for line in growing(samples)]
    for name in BOUNDS:
        print(f"{name:20}", *(f"{'-' if m is None else round(m, 3):>12}" for m in quarters(samples, name)))
    figures = {"seed": options.seed, "minutes": options.minutes, "messages": sent, "errors": errors, "wrong": wrong}
    print(json.dumps(figures, indent=2), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
