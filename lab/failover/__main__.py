"""`python -m lab.failover`: primaries are destroyed, and only `mqpg worker` does anything.

A broker has a primary and a synchronous standby. Producers, two consumers and one `mqpg worker
--adopt-promoted` work with a DSN of both hosts. Each failover kills all processes of the primary with
SIGKILL, deletes its data and promotes the standby, as a failover manager does. At the end every
acknowledged message must have its effect once for each consumer, and the audit must find nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg

import mqpg
from lab.audits import audit, sqlalchemy_url
from lab.command import percentiles
from lab.processes import Fleet, environment
from lab.soak.rig import terminate_cleanly
from mqpg.embedded import EmbeddedServer
from tests.support.waiting import eventually

from .clients import BROKER_TABLES, GROUP, LOCAL_GROUP, SHOP_TABLES, TOPIC, Clients
from .pair import TakingTurns, taking_turns
from .patroni import Managed

__all__ = ["main", "run"]


Cluster = TakingTurns | Managed
_OPEN = """
select (select coalesce(sum(lag), 0) from mqpg.subscription_lag) + (select count(*) from mqpg.half_pending)
    + (select count(*) from mqpg.delayed d where d.visible_at > (select max(t.due_until) from mqpg.tick t))
"""
_NEW_EFFECTS = "select min(extract(epoch from at))::float8 from effect where at > to_timestamp(%s)"


def _primary(broker: str) -> psycopg.Connection[Any]:
    return psycopg.connect(broker, autocommit=True, connect_timeout=10, target_session_attrs="read-write")


def _prepare(broker: str, shop: str) -> None:
    with mqpg.connect(broker) as mq, _primary(broker) as conn:
        mq.create_topic(TOPIC, queues=4)
        mq.subscribe(GROUP, TOPIC)
        mq.subscribe(LOCAL_GROUP, TOPIC, "pinned")
        mq.create_producer_group("shop", check_after=1, checker="url", checker_target="shop")
        conn.execute(BROKER_TABLES.encode())
    with mqpg.Ledger(sqlalchemy_url(shop)) as ledger:
        ledger.create()
    with psycopg.connect(shop, autocommit=True) as conn:
        conn.execute(SHOP_TABLES.encode())


def _wait_for_effects(broker: str, after: float, clients: Clients) -> float:
    """When the first effect after a moment was committed. The promoted server may still be away."""

    def look() -> float:
        clients.require_well()
        try:
            with _primary(broker) as conn:
                row = conn.execute(_NEW_EFFECTS, (after,)).fetchone()
                return float(row[0] or 0) if row else 0.0
        except psycopg.OperationalError:
            return 0.0

    return eventually(look, timeout=120)


def _fail_over(cluster: Cluster, clients: Clients, rng: random.Random) -> dict[str, float]:
    """One failover: the seconds until the promotion, the first acknowledged send and the first effect."""
    time.sleep(rng.uniform(0.5, 2))
    at, before = time.time(), len(clients.sent)
    cluster.fail_over()
    promoted = time.time()

    def sends() -> list[float]:
        clients.require_well()
        return [t for _, t in clients.sent[before:] if t > promoted]

    # An effect of a message from before may have been under way.
    effect = _wait_for_effects(cluster.dsn(), promoted, clients)
    send = eventually(sends, timeout=60)[0]
    cluster.rebuild()
    return {"promoted": promoted - at, "send": send - at, "effect": effect - at}


def _wrong(broker: str, shop: str, clients: Clients) -> list[str]:
    with psycopg.connect(shop) as conn:
        expected = {int(n) for (n,) in conn.execute("select n from sale")} | {n for n, _ in clients.sent}
        found = _wrong_effects(LOCAL_GROUP, conn.execute("select n from effect"), expected, clients.unsure)
    with _primary(broker) as conn:
        return found + _wrong_effects(GROUP, conn.execute("select n from effect"), expected, clients.unsure)


def _wrong_effects(group: str, rows: Iterable[tuple[int]], expected: set[int], unsure: set[int]) -> list[str]:
    effects = Counter(int(n) for (n,) in rows)
    found = [f"{n} has {effects[n]} effects in {group}" for n in expected if effects[n] != 1]
    found += [f"{n} has {effects[n]} effects in {group}" for n in unsure if effects[n] > 1]
    return found + [f"{n} has an effect without a message in {group}" for n in effects.keys() - expected - unsure]


def run(
    failovers: int,
    seed: int,
    folder: Path,
    made: AbstractContextManager[Cluster] | None = None,
    worker: tuple[str, ...] = ("--adopt-promoted",),
) -> dict[str, Any]:
    """Run some failovers in a row.

    Args:
        made: The broker. None means a pair whose standby this process promotes.

    Returns:
        The figures. `wrong` lists what is wrong.
    """
    rng = random.Random(seed)
    with EmbeddedServer() as own, made or taking_turns() as cluster:
        shop, broker = own.create_database("shop"), cluster.dsn()
        _prepare(broker, shop)
        fleet = Fleet(folder, environment(MQPG_DATABASE_URL=broker, MQPG_LEDGER_SHOP=sqlalchemy_url(shop)))
        fleet.add("worker", [sys.executable, "-m", "mqpg", "worker", *worker])
        clients = Clients(broker, sqlalchemy_url(shop), seed)
        clients.start()
        try:
            # A worker that has never had a connection gives up after a while.
            _wait_for_effects(broker, 0, clients)
            outages = [_fail_over(cluster, clients, rng) for _ in range(failovers)]
            clients.end_producers()
            _drain(broker, sqlalchemy_url(shop))
            fleet.tend()
        finally:
            clients.close()
            fleet.retire(fleet.names)
        wrong = _wrong(broker, shop, clients)
        found = audit(broker, ledgers=[("shop", shop)], applied=[(LOCAL_GROUP, shop)], engine="sql")
    if found.status != 0:
        wrong.append(f"the audit ended with {found.status}: {found.anomalies}, {found.report.get('reasons')}")
    if fleet.crashes:
        wrong.append(f"the worker ended by itself: {fleet.crashes}")
    return {
        "seed": seed,
        "failovers": failovers,
        "acknowledged": len(clients.sent),
        "errors_that_clients_saw": clients.expected_errors,
        **{f"seconds_until_{name}": percentiles(round(one[name], 2) for one in outages) for name in outages[0]},
        "verdict": found.verdict,
        "wrong": wrong[:20],
    }


def _drain(broker: str, shop: str) -> None:
    with mqpg.connect(broker) as mq, _primary(broker) as conn:
        with mqpg.TransactionalProducer(mq, group="shop", ledger=shop) as producer:
            producer.recover(older_than=timedelta(0))
        # What is not appended yet is in no queue, so no group is behind it.
        eventually(lambda: mq.append() == 0 and conn.execute(_OPEN).fetchone() == (0,), timeout=120)


def main() -> int:
    """Return 0 when nothing was lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m lab.failover", description=__doc__)
    parser.add_argument("--failovers", type=int, default=int(os.environ.get("TRIALS") or 20))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MQPG_TEST_SEED") or secrets.randbits(32)))
    options = parser.parse_args()
    terminate_cleanly()
    folder = Path(mkdtemp(prefix="mqpg-failover-"))
    print(f"seed {options.seed}, logs in {folder}", file=sys.stderr, flush=True)
    report = run(options.failovers, options.seed, folder)
    print(json.dumps(report, indent=2), flush=True)
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
