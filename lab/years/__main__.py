"""`python -m lab.years`: a year in an hour, in which nothing may grow.

A day lasts ten seconds: segments, slots, windows and retentions have the lengths that they have in
a year, 8640 times shorter. Twelve producers, all modes of consumption, checkers, an administrator
and readers with long snapshots are at work. Partitions, disk, locks, catalogs, memory and latencies
must be flat from the second quarter on, and at the end each message that was sent must have its
effect once in each group.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg

import mqpg
from lab.years.roles import PRODUCERS, ROLES, TABLES
from lab.years.samples import BOUNDS, Sampler, growing, quarters
from mqpg import migrate
from mqpg.embedded import EmbeddedServer
from tests.support.fleet import Fleet
from tests.support.members import BROKER, GROUPS, SHOP, TOPIC

__all__ = ["main"]

ROOT = Path(__file__).parents[2]
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
SERVER: dict[str, str | int] = {
    "max_connections": 200,
    "track_functions": "pl",
    # A minute is six days of this year.
    "autovacuum_naptime": 1,
}
WORKERS = {"appender": 0.05, "compensator": 0.5, "keeper": 0.25}  # roles and their pauses in seconds
_OPEN = """
select (select coalesce(sum(lag), 0) from mqpg.subscription_lag where consumer_group not in ('visitor', 'probe')),
    (select count(*) from mqpg.half_pending),
    (select count(*) from mqpg.delayed d where d.visible_at > (select max(t.due_until) from mqpg.tick t)
        and (d.subscription_id = 0 or exists (
            select from mqpg.subscription s where s.subscription_id = d.subscription_id)))
"""
# A client that was cut off, a conflict that it should repeat, and the refusals of class MQ.
_EXPECTED_ERRORS = ("MQ", "40001", "55P03")


# The installation made slots that last a day. Without them they are made as the settings say.
_SHORT_SLOTS = (
    "drop table mqpg.delayed_1, mqpg.delayed_2, mqpg.delayed_3",
    "delete from mqpg.segment where family = 'delayed'",
    "select mqpg.keep()",
)


def _prepare(broker: str, shop: str, fault: str) -> None:
    migrate.upgrade(broker)
    with psycopg.connect(broker, autocommit=True) as conn:
        for name, value in SETTINGS.items():
            conn.execute("update mqpg.settings set value = %s where name = %s", [f"{value} s", name])
        for statement in (*_SHORT_SLOTS, fault):
            conn.execute(statement)
        conn.execute(BROKER + TABLES)
        conn.execute("select mqpg.create_topic(%s, 4, make_interval(secs => %s))", [TOPIC, RETENTION])
        conn.execute("select mqpg.create_topic('probe', 1, make_interval(secs => %s))", [RETENTION])
        conn.execute("select mqpg.subscribe('probe', 'probe')")
    with psycopg.connect(shop.replace("+psycopg", ""), autocommit=True) as conn:
        conn.execute(SHOP)
    with mqpg.connect(broker) as mq:
        mq.create_producer_group("shop", check_after=1, checker="url", checker_target="shop")
        mq.create_producer_group("here", check_after=1, checker="ledger")
        mq.create_producer_group("asked", check_after=1, checker="due_checks")
        mqpg.Ledger(shop).create()


def _crew(fleet: Fleet, seed: int, broker: str, shop: str) -> None:
    python = [sys.executable, "-m"]
    for role, pause in WORKERS.items():
        command = [*python, "mqpg", "worker", role, "--dsn", broker, "--interval", str(pause)]
        if role == "compensator":
            command += ["--ledger", f"shop={shop}"]
        fleet.add(f"worker-{role}", command)
    names = [f"{group}-{n}" for group in GROUPS for n in range(2 if group in ("shared", "everybody") else 1)]
    names += [f"{role}-{n}" for n, role in enumerate(PRODUCERS)]
    names += [f"{role}-0" for role in ROLES if role not in PRODUCERS]
    for name in names:
        fleet.add(name, [*python, "lab.years.roles", name, str(seed), broker, shop])


def _warm_up(fleet: Fleet, broker: str, shop: str) -> None:
    """Wait until every group has had an effect, because many Pythons take a while to start."""
    deadline = time.monotonic() + 300
    while {*_effects(broker), *_effects(shop)} != set(GROUPS):
        assert time.monotonic() < deadline, f"not every group has effects; {fleet.crashes}"
        fleet.tend()
        time.sleep(1)


def _effects(dsn: str) -> set[str]:
    with psycopg.connect(dsn.replace("+psycopg", "")) as conn:
        return {row[0] for row in conn.execute("select distinct consumer_group from soak_effect")}


class Pace:
    """Keeps the producers as fast as the consumers: a lag that grows would hide everything else.

    A broker that slows down then shows in the lag and in the rate of effects.
    """

    def __init__(self, file: Path, least: float) -> None:
        self.file, self._least = file, least
        self.follow(0)

    def follow(self, lag: float) -> None:
        """Let producers pause in proportion to what waits, from 100 messages on."""
        self.pause = min(self._least * max(1.0, lag / 100), 30.0)
        new = self.file.with_suffix(".new")
        new.write_text(f"{self.pause:.3f}")
        new.replace(self.file)


def _live(
    fleet: Fleet, broker: str, shop: str, pace: Pace, log: Path, seconds: float, every: float
) -> list[dict[str, float]]:
    """Take a sample `every` seconds until the time is over."""
    sampler = Sampler(broker, shop.replace("+psycopg", ""))
    ledger = mqpg.Ledger(shop)
    begun, samples = time.monotonic(), []
    try:
        while (at := time.monotonic() - begun) < seconds:
            fleet.tend()
            ledger.purge(timedelta(seconds=RETENTION))  # the table belongs to the shop, which has to do it
            pids = fleet.pids
            samples.append(
                sampler.take(
                    at,
                    every,
                    {
                        "workers": [pid for name, pid in pids.items() if name.startswith("worker-")],
                        "consumers": [pid for name, pid in pids.items() if name.rpartition("-")[0] in GROUPS],
                    },
                )
            )
            pace.follow(samples[-1].get("lag", 0))
            samples[-1]["pause s"] = round(pace.pause, 2)
            with log.open("a") as lines:
                lines.write(json.dumps(samples[-1]) + "\n")
            time.sleep(max(0.0, begun + len(samples) * every - time.monotonic()))
    finally:
        sampler.close()
    return samples[1:]  # the first one has no calls before it to compare with


def _drain(fleet: Fleet, broker: str, patience: float) -> tuple[int, ...]:
    """Stop the producers, wait for empty queues, and return what is left."""
    ended = {*PRODUCERS, "probe", "reader", "administrator"}
    fleet.retire(name for name in fleet.names if name.rpartition("-")[0] in ended)
    deadline = time.monotonic() + patience
    with psycopg.connect(broker, autocommit=True) as conn:
        for side in conn.execute("select topic from mqpg.topics where topic like 'side-%'").fetchall():
            conn.execute("select mqpg.drop_topic(%s, force => true)", side)
        if conn.execute("select from mqpg.subscription_lag where consumer_group = 'visitor'").fetchone():
            conn.execute("select mqpg.unsubscribe('visitor', %s)", [TOPIC])
        while True:
            conn.execute("select mqpg.redrive('mortal', %s)", [TOPIC])
            row = conn.execute(_OPEN).fetchone()
            assert row is not None
            left = tuple(int(n) for n in row)
            if not any(left) or time.monotonic() > deadline:
                return left
            fleet.tend()
            time.sleep(0.5)


def _wrong(broker: str, shop: str) -> tuple[int, list[str]]:
    """Compare the effects of each group with what was sent: how many messages, and what is wrong."""
    rows: list[tuple[str, str, int]] = []
    with psycopg.connect(broker) as conn:
        sent = {row[0] for row in conn.execute("select message_id from soak_sale")}
        rows += conn.execute("select consumer_group, member, message_id from soak_effect").fetchall()
        errors = conn.execute("select member, code, message, count(*) from year_error group by 1, 2, 3").fetchall()
    with psycopg.connect(shop.replace("+psycopg", "")) as conn:
        sent |= {row[0] for row in conn.execute("select split_part(handle, '.', 3)::bigint from soak_order")}
        rows += conn.execute("select consumer_group, member, message_id from soak_effect").fetchall()
    found = [f"{member}: {n} times {text}" for member, code, text, n in errors if not _expected(code)]
    effects: dict[tuple[str, str], Counter[int]] = {}
    for group, member, message_id in rows:
        key = group, member if group == "everybody" else ""
        effects.setdefault(key, Counter())[message_id] += 1
    for (group, member), counted in sorted(effects.items()):
        name = " ".join(filter(None, (group, member)))
        if group != "outside" and (twice := [m for m, n in counted.items() if n > 1]):
            found.append(f"{name}: {len(twice)} effects twice, {twice[:3]}")
        if group != "filtered" and (lost := sent - counted.keys()):
            found.append(f"{name}: {len(lost)} effects missing, {sorted(lost)[:3]}")
        if extra := counted.keys() - sent:
            found.append(f"{name}: {len(extra)} effects of nothing, {sorted(extra)[:3]}")
    return len(sent), found


def _expected(code: str | None) -> bool:
    return code is not None and code.startswith(_EXPECTED_ERRORS)


def _errors(broker: str) -> dict[str, int]:
    with psycopg.connect(broker) as conn:
        sql = "select coalesce(code, '') || ' ' || member, count(*) from year_error group by 1 order by 1"
        return {name: int(n) for name, n in conn.execute(sql)}


def _record(run: dict[str, Any], folder: Path) -> None:
    """Write the run and its plot into a folder."""
    result, plot = folder / "years.json", folder / "years.svg"
    result.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    subprocess.run([sys.executable, ROOT / "tools" / "plot_years.py", result, plot], check=True)
    print(f"wrote {result} and {plot}", flush=True)


def _run(options: argparse.Namespace, samples: Sequence[dict[str, float]], **figures: Any) -> dict[str, Any]:
    medians = {name: [round(m, 3) if m is not None else None for m in quarters(samples, name)] for name in BOUNDS}
    thin = max(1, len(samples) // 400)
    return {
        "kind": "years",
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%MZ}",
        "command": (
            f"python -m lab.years --minutes {options.minutes:g} --warm-up {options.warm_up:g}"
            f" --pause {options.pause:g}" + (f" --fault '{options.fault}'" if options.fault else "")
        ),
        "seed": options.seed,
        "machine": f"{os.cpu_count()} cores",
        "conditions": options.conditions,
        "ok": not figures["wrong"],
        "figures": {
            "minutes": options.minutes,
            "days of the year": round(options.minutes * 60 / DAY),
            **figures,
            "quarters": [
                {"figure": name, "medians": value, "allowance": BOUNDS[name]} for name, value in medians.items()
            ],
            "samples": samples[::thin],
        },
        "notes": "; ".join(figures["wrong"][:6]),
    }


def main() -> int:
    """Return 0 when everything was flat and each message took effect once."""
    parser = argparse.ArgumentParser(prog="python -m lab.years", description=__doc__)
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("MINUTES") or 60))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MQPG_TEST_SEED") or secrets.randbits(32)))
    parser.add_argument("--warm-up", type=float, default=RETENTION + 2 * DAY, help="seconds before the first quarter")
    parser.add_argument("--patience", type=float, default=600, help="seconds for the queues to drain")
    parser.add_argument("--pause", type=float, default=4.0, help="longest pause of a producer, in seconds")
    parser.add_argument("--fault", default="", help="SQL that breaks the broker first, to see that the run fails")
    parser.add_argument("--conditions", default="", help="what else ran on the machine")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and stop what was started
    folder = Path(mkdtemp(prefix="mqpg-years-"))
    every = max(2.0, min(10.0, options.minutes * 60 / 60))
    print(f"seed {options.seed}, {options.minutes} minutes, logs in {folder}", flush=True)
    with EmbeddedServer(settings=SERVER) as server:
        broker = server.create_database("year")
        shop = server.create_database("shop").replace("postgresql://", "postgresql+psycopg://")
        _prepare(broker, shop, options.fault)
        pace = Pace(folder / "pause", options.pause)
        fleet = Fleet(folder, {**os.environ, "PYTHONUNBUFFERED": "1", "MQPG_SOAK_PAUSE": str(pace.file)})
        try:
            _crew(fleet, options.seed, broker, shop)
            _warm_up(fleet, broker, shop)
            _live(fleet, broker, shop, pace, folder / "warm-up.jsonl", options.warm_up, every)
            samples = _live(fleet, broker, shop, pace, folder / "samples.jsonl", options.minutes * 60, every)
            left = _drain(fleet, broker, options.patience)
        finally:
            fleet.retire(fleet.names)
        sent, wrong = _wrong(broker, shop)
        errors = _errors(broker)
    if any(left):
        wrong.append(f"not drained: lag {left[0]}, halves {left[1]}, delayed {left[2]}")
    wrong += [f"ended by itself: {crash}" for crash in fleet.crashes[:20]]
    wrong += [f"not flat: {line}" for line in growing(samples)]
    run = _run(options, samples, messages=sent, errors=errors, drained=not any(left), wrong=wrong)
    _record(run, folder)
    for line in run["figures"]["quarters"]:
        print(f"{line['figure']:20}", *(f"{m:>12}" for m in map(str, line["medians"])))
    print(f"{sent} messages, errors {errors}", *wrong, sep="\n", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
