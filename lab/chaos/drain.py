"""The end of a run: nothing new, everything open is finished, and fresh groups read it all."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg

import mqpg

from .cluster import Cluster
from .consumer import apply_here
from .motion import open_work
from .names import EVENTS, FRESH, RELAYS

__all__ = ["dead_letters", "left_over", "read_afresh", "wait_until_drained"]

_OPEN_ROWS = {
    "outbox-": "select count(*) from mqpg_outbox",
    "shop-": "select count(*) from mqpg_ledger where done_at is null and entry = 'local'",
}


def left_over(cluster: Cluster) -> dict[str, int]:
    """Return what is still open, by name; empty where nothing is."""
    found: dict[str, int] = {}
    names = ("messages not consumed", "halves undecided", "halves parked", "messages delayed")
    for number, dsn in enumerate(cluster.brokers, 1):
        found |= {f"broker-{number}: {name}": n for name, n in zip(names, open_work(dsn), strict=True) if n}
    for group, dsn in cluster.stores.items():
        for prefix, query in _OPEN_ROWS.items():
            if group.startswith(prefix):
                with psycopg.connect(dsn, autocommit=True) as conn:
                    (rows,) = conn.execute(query.encode()).fetchone() or (0,)
                found |= {f"{group}: open rows": rows} if rows else {}
    return found


def wait_until_drained(cluster: Cluster, patience: float, tend: Callable[[], None]) -> dict[str, int]:
    """Wait until nothing is open.

    Args:
        cluster: Where to look.
        patience: The most seconds without any change.
        tend: Called at each look.

    Returns:
        What is left; empty where nothing is.
    """
    left, changed = left_over(cluster), time.monotonic()
    while left and time.monotonic() - changed < patience:
        time.sleep(0.5)
        tend()
        now = left_over(cluster)
        if now != left:
            left, changed = now, time.monotonic()
    return left


def read_afresh(cluster: Cluster) -> None:
    """Let a new group of each broker read every topic from its beginning (C1)."""
    for broker, dsn in enumerate(cluster.brokers, 1):
        with mqpg.connect(dsn, call_timeout=120) as mq:
            for topic in (*EVENTS, *RELAYS):
                made = mqpg.consumer(topic, group=FRESH, batch=True, journal=True, max_messages=2000)
                reader = made(apply_here(broker, FRESH, topic))
                while reader.step(mq):
                    pass


def dead_letters(cluster: Cluster) -> int:
    """Count the dead letters at all brokers. No handler of the run fails for good."""
    total = 0
    for dsn in cluster.brokers:
        with psycopg.connect(dsn, autocommit=True) as conn:
            (rows,) = conn.execute("select count(*) from mqpg.dead_letter").fetchone() or (0,)
            total += rows
    return total
