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
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import mkdtemp

import psycopg
import sqlalchemy

import mqpg
from mqpg import migrate
from mqpg.embedded import EmbeddedServer
from tests.support.fleet import Fleet
from tests.support.members import BROKER, GROUPS, PRODUCERS, SHOP, SINGLE, TOPIC

__all__ = ["main"]

_OPEN = """
select (select coalesce(sum(lag), 0) from mqpg.subscription_lag), (select count(*) from mqpg.half_pending),
    (select count(*) from mqpg.delayed d where d.visible_at > (select max(t.due_until) from mqpg.tick t)
        and (d.subscription_id = 0 or exists (
            select from mqpg.subscription s where s.subscription_id = d.subscription_id)))
"""
_APPENDED = """
with run as (
    select c.queue_id, u.first_id, coalesce(lead(u.start) over (
        partition by c.queue_id, c.base_offset order by u.start), c.n) - u.start as n
    from mqpg.consume_queue c join mqpg.topic t using (topic_id)
    cross join lateral unnest(c.first_ids, c.starts) as u(first_id, start)
    where t.name = 'soak' and c.subscription_id = 0
)
select r.first_id + i from run r cross join lateral generate_series(0, r.n - 1) as i
"""


def _crew(fleet: Fleet, seed: int, broker: str, shop: str) -> None:
    python = [sys.executable, "-m"]
    for n, role in enumerate(PRODUCERS):
        fleet.add(f"{role}-{n}", [*python, "tests.support.members", f"{role}-{n}", str(seed), broker, shop])
    for group in GROUPS:
        for n in range(1 if group in SINGLE else 2):
            fleet.add(f"{group}-{n}", [*python, "tests.support.members", f"{group}-{n}", str(seed), broker, shop])
    for n in range(2):  # one is on standby
        fleet.add(f"worker-{n}", [*python, "mqpg", "worker", "--dsn", broker, "--ledger", f"shop={shop}"])


def _warm_up(fleet: Fleet, broker: str, shop: str, patience: float) -> None:
    """Wait until every group has had an effect, because two dozen Pythons take a while to start on
    a small machine.
    """
    until = time.monotonic() + patience
    while not all(_effects(shop if group == "pinned" else broker, group) for group in GROUPS):
        assert time.monotonic() < until, f"no effects after {patience} s; {fleet.crashes}"
        fleet.tend()
        time.sleep(1)


def _prepare(broker: str, shop: str) -> None:
    migrate.upgrade(broker)
    with mqpg.connect(broker) as mq:
        mq.create_topic(TOPIC, queues=4)
        mq.create_producer_group("shop", check_after=1, checker="url", checker_target="shop")
        mq.create_producer_group("here", check_after=1, checker="ledger")
        mqpg.Ledger(shop).create()
    for dsn, script in ((broker, BROKER), (shop, SHOP)):
        with psycopg.connect(_libpq(dsn), autocommit=True) as conn:
            conn.execute(script)


def _libpq(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://")


def _shake(fleet: Fleet, server: EmbeddedServer, rng: random.Random, seconds: float) -> int:
    """Kill processes until the time is over, and return how often the server crashed."""
    until, crashes = time.monotonic() + seconds, 0
    next_crash = time.monotonic() + rng.uniform(60, 180)
    while time.monotonic() < until:
        time.sleep(rng.uniform(0.5, 4))
        if time.monotonic() > next_crash:
            server.stop("immediate")
            server.start()
            crashes += 1
            next_crash = time.monotonic() + rng.uniform(60, 180)
        fleet.kill_one(rng)
        if rng.random() < 0.7:
            fleet.tend()
    fleet.tend()
    return crashes


def _drain(fleet: Fleet, broker: str, patience: float) -> tuple[int, ...]:
    """Wait for empty queues, and return what is left."""
    fleet.retire(name for name in fleet.names if name.rpartition("-")[0] in PRODUCERS)
    until = time.monotonic() + patience
    with psycopg.connect(broker, autocommit=True) as conn:
        while True:
            row = conn.execute(_OPEN).fetchone()
            assert row is not None
            left = tuple(int(n) for n in row)
            if not any(left) or time.monotonic() > until:
                return left
            fleet.tend()
            time.sleep(0.5)


def _effects(dsn: str, group: str) -> list[tuple[str, int, str | None, int, int]]:
    sql = (
        "select member, message_id, key, queue_id, queue_offset from soak_effect where consumer_group = %s order by id"
    )
    with psycopg.connect(_libpq(dsn)) as conn:
        return conn.execute(sql, [group]).fetchall()


def _wrong(broker: str, shop: str) -> list[str]:
    """Compare each group's effects with what was appended, and return what is wrong.

    The audit does this by itself, too.
    """
    found = []
    with psycopg.connect(broker) as conn:
        appended = [row[0] for row in conn.execute(_APPENDED)]
        held = {row[0] for row in conn.execute("select message_id from soak_sale")}
        letters: dict[str, set[int]] = {group: set() for group in GROUPS}
        sql = "select consumer_group, message_id from mqpg.dead_letter join mqpg.subscription using (subscription_id)"
        for group, message_id in conn.execute(sql):
            letters[group].add(message_id)
    if len(appended) != len(set(appended)):
        found.append("a message has two offsets")
    if missing := held - set(appended):
        found.append(f"{len(missing)} sales without a message, {sorted(missing)[:3]}")
    for group in GROUPS:
        rows = _effects(shop if group == "pinned" else broker, group)
        found += _wrong_group(group, rows, set(appended), letters[group])
    return found


def _wrong_group(
    group: str, rows: list[tuple[str, int, str | None, int, int]], appended: set[int], dead: set[int]
) -> list[str]:
    found = []
    effects = Counter((row[0] if group == "everybody" else "", row[1]) for row in rows)
    if group != "outside" and (twice := [m for m, n in effects.items() if n > 1]):
        found.append(f"{group}: {len(twice)} effects twice, {twice[:3]}")
    members = {member for member, _ in effects} or {""}
    for member in members if group != "filtered" else ():
        lost = appended - {m for who, m in effects if who == member} - dead
        if lost:
            found.append(f"{group} {member}: {len(lost)} effects missing, {sorted(lost)[:3]}")
    if phantom := {m for _, m in effects} - appended:
        found.append(f"{group}: {len(phantom)} effects of nothing, {sorted(phantom)[:3]}")
    if group in ("by-key", "by-queue"):
        last: dict[str | None, int] = {}
        for _, _, key, _, offset in rows:
            if key is not None and offset < last.get(key, -1):
                found.append(f"{group}: a message of {key} came out of order")
                break
            last[key] = offset
    return found


def _audit(broker: str, shop: str) -> tuple[int, dict[str, object]]:
    command = [sys.executable, "-m", "mqpg", "audit", "--dsn", broker, "--ledger", f"shop={shop}"]
    command += ["--applied", f"pinned={shop}", "--drained", "--json"]
    # A drained audit judges every group in its scope, and `outside` keeps no journal.
    for group, settings in GROUPS.items():
        command += ["--group", group] if settings.get("journal") else []
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        return done.returncode, {"output": done.stdout.decode(errors="replace")[-2000:]}


def _report(seed: int, fleet: Fleet, crashes: int, broker: str, shop: str) -> dict[str, object]:
    with psycopg.connect(broker) as conn:
        sql = "select coalesce(sum(n), 0) from mqpg.consume_queue where subscription_id = 0"
        messages = conn.execute(sql).fetchone()
    with sqlalchemy.create_engine(shop).connect() as conn:
        orders = conn.execute(sqlalchemy.text("select count(*) from soak_order")).scalar()
    return {
        "seed": seed,
        "messages": messages[0] if messages else None,
        "orders": orders,
        "kills": dict(fleet.kills),
        "server_crashes": crashes,
        "effects": {group: len(_effects(shop if group == "pinned" else broker, group)) for group in GROUPS},
    }


def main() -> int:
    """Return 0 when the soak ended drained and valid."""
    parser = argparse.ArgumentParser(prog="python -m lab.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("MINUTES") or 30))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MQPG_TEST_SEED") or secrets.randbits(32)))
    parser.add_argument("--patience", type=float, default=900, help="seconds for the queues to drain")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and stop what was started
    folder, rng = Path(mkdtemp(prefix="mqpg-soak-")), random.Random(options.seed)
    print(f"seed {options.seed}, {options.minutes} minutes, logs in {folder}", flush=True)
    with EmbeddedServer(settings={"max_connections": 300}) as server:
        broker = server.create_database("soak")
        shop = server.create_database("shop").replace("postgresql://", "postgresql+psycopg://")
        _prepare(broker, shop)
        fleet = Fleet(folder, {**os.environ, "PYTHONUNBUFFERED": "1"})
        try:
            _crew(fleet, options.seed, broker, shop)
            _warm_up(fleet, broker, shop, options.patience)
            crashes = _shake(fleet, server, rng, options.minutes * 60)
            left = _drain(fleet, broker, options.patience)
        finally:
            fleet.retire(fleet.names)
        wrong = _wrong(broker, shop)
        report = _report(options.seed, fleet, crashes, broker, shop)
        status, audit = _audit(broker, shop)
    if any(left):
        wrong.append(f"not drained: lag {left[0]}, halves {left[1]}, delayed {left[2]}")
    report |= {"left": left, "wrong": wrong, "crashed_by_themselves": fleet.crashes[:20], "audit_status": status}
    report["audit"] = {name: audit[name] for name in ("verdict", "reasons", "anomalies", "output") if name in audit}
    print(json.dumps(report, indent=2, default=str), flush=True)
    return 0 if status == 0 and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
