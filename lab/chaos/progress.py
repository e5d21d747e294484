"""Whether every consumer group moves, seen from the brokers; what is left; and the end of a run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import psycopg

import mqpg
from lab.processes import persist

from .cluster import Cluster, query
from .consumer import apply_here
from .hot import changes
from .names import EVENTS, FRESH, RELAYS

__all__ = ["Progress", "dead_letters", "left_over", "read_afresh", "wait_until_drained"]

_LOOK = 0.4  # seconds between two looks at a broker
_POSITIONS = """
select consumer_group, topic, sum(committed)::bigint from mqpg.subscription_lag where queue_id >= 0 group by 1, 2
"""
# What is left at a broker. Lag counts what is appended only, so append() comes first.
_LEFT = {
    "messages not consumed": "select coalesce(sum(lag), 0) from mqpg.subscription_lag",
    "messages delayed": """
        select count(*) from mqpg.delayed d where d.visible_at > (select max(t.due_until) from mqpg.tick t)
        and (d.subscription_id = 0 or exists (
            select from mqpg.subscription s where s.subscription_id = d.subscription_id))""",
}
_HALVES = """
select format('halves of %s, %s', producer_group, coalesce(reason, 'not checked')), count(*) from (
    select producer_group, reason from mqpg.half_pending union all
    select producer_group, 'parked: ' || reason from mqpg.half_parked) h
group by 1
"""
_LEFT_IN_STORES = {
    "outbox-": "select count(*) from mqpg_outbox",
    "shop-": "select count(*) from mqpg_ledger where done_at is null and entry = 'local'",
}
Positions = dict[tuple[int, str, str], int]  # broker, group, topic: the sum of the positions


class Progress:
    """Looks at the brokers all the time, and remembers the newest positions."""

    def __init__(self, dsns: Sequence[str]) -> None:
        self.changes_of_hot_tables = 0
        self._now: list[Positions] = [{} for _ in dsns]
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(number, dsn), daemon=True) for number, dsn in enumerate(dsns)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the looking."""
        self._stop.set()
        for thread in self._threads:
            thread.join(10)

    def positions(self) -> Positions:
        """The positions as they were last seen."""
        return {place: position for one in self._now for place, position in dict(one).items()}

    def idle(self, before: Mapping[tuple[int, str, str], int]) -> list[str]:
        """The groups that have not moved since these positions."""
        now = self.positions()
        return [f"{group} on {topic} at broker-{broker}" for (broker, group, topic), at in before.items()
                if now.get((broker, group, topic), at) <= at]  # fmt: skip

    def wait_until_all_moved(self, before: Positions, patience: float) -> tuple[float | None, str]:
        """Wait until every group has moved since these positions, for `patience` seconds at most.

        Returns:
            How many seconds it took, or None: a group did not move in time; and the group that was
            the last to move, or that did not.
        """
        began, last = time.monotonic(), ""
        while idle := self.idle(before):
            last = idle[0]
            if time.monotonic() - began > patience:
                return None, last
            time.sleep(0.1)
        return time.monotonic() - began, last

    def _watch(self, number: int, dsn: str) -> None:
        while not self._stop.is_set():
            try:
                with psycopg.connect(dsn, autocommit=True, connect_timeout=3) as conn:
                    conn.execute("set statement_timeout = '5s'")
                    while not self._stop.wait(_LOOK):
                        rows = conn.execute(_POSITIONS).fetchall()
                        self._now[number] = {(number + 1, group, topic): at for group, topic, at in rows}
                        self.changes_of_hot_tables = max(self.changes_of_hot_tables, changes(conn))
            except psycopg.Error:
                self._stop.wait(_LOOK)


def left_over(cluster: Cluster) -> dict[str, int]:
    """What is still open, by name."""
    found: dict[str, int] = {}
    for number, dsn in enumerate(cluster.brokers, 1):
        query(dsn, "select mqpg.append()")
        found |= {f"broker-{number}: {name}": int(query(dsn, what)[0][0]) for name, what in _LEFT.items()}
        found |= {f"broker-{number}: {name}": count for name, count in query(dsn, _HALVES)}
    for group, dsn in cluster.stores.items():
        for prefix, what in _LEFT_IN_STORES.items():
            if group.startswith(prefix):
                found[f"{group}: open rows"] = query(dsn, what)[0][0]
    return {name: number for name, number in found.items() if number}


def wait_until_drained(cluster: Cluster, patience: float, tend: Callable[[], None]) -> dict[str, int]:
    """Wait until nothing is open, or nothing changes for `patience` seconds; return what is left."""
    look = partial(persist, partial(left_over, cluster))  # a server that a fault has just hit may still recover
    left, changed = look(), time.monotonic()
    while left and time.monotonic() - changed < patience:
        time.sleep(0.5)
        tend()
        now = look()
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
    return sum(query(dsn, "select count(*) from mqpg.dead_letter")[0][0] for dsn in cluster.brokers)
