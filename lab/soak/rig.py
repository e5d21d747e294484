"""What the soak and the year share: groups, the wait for a beginning and an end, and the comparison."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import psycopg

import mqpg
from lab.audits import sqlalchemy_url
from lab.processes import Fleet, LabError
from mqpg import migrate

from .members import BROKER, GROUPS, SHOP

__all__ = ["Databases", "add_members", "drain", "prepare", "terminate_cleanly", "warm_up", "wrong_effects"]

_OPEN = """
select (select coalesce(sum(lag), 0) from mqpg.subscription_lag where consumer_group not in ('visitor', 'probe')),
    (select count(*) from mqpg.half_pending),
    (select count(*) from mqpg.delayed d where d.visible_at > (select max(t.due_until) from mqpg.tick t)
        and (d.subscription_id = 0 or exists (
            select from mqpg.subscription s where s.subscription_id = d.subscription_id)))
"""
_EFFECTS = "select consumer_group, member, message_id, key, queue_offset from soak_effect order by id"
_DEAD = "select consumer_group, message_id from mqpg.dead_letter join mqpg.subscription using (subscription_id)"


class Databases(NamedTuple):
    """The DSNs of the broker and of the shop, which is a producer and a consumer with a database of its own."""

    broker: str
    shop: str

    @property
    def shop_url(self) -> str:
        """The shop for SQLAlchemy."""
        return sqlalchemy_url(self.shop)


def prepare(databases: Databases) -> None:
    """Create the schema, the business tables and the groups of producers. The topic is left to the caller."""
    migrate.upgrade(databases.broker)
    for dsn, script in ((databases.broker, BROKER), (databases.shop, SHOP)):
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(script.encode())
    with mqpg.connect(databases.broker) as mq:
        mq.create_producer_group("shop", check_after=1, checker="url", checker_target="shop")
        mq.create_producer_group("here", check_after=1, checker="ledger")
    with mqpg.Ledger(databases.shop_url) as ledger:
        ledger.create()


def add_members(fleet: Fleet, module: str, names: Iterable[str], seed: int, databases: Databases) -> None:
    """Start processes of members, by their names."""
    for name in names:
        arguments = [name, str(seed), databases.broker, databases.shop_url]
        fleet.add(name, [sys.executable, "-m", module, *arguments])


def warm_up(fleet: Fleet, databases: Databases, patience: float) -> None:
    """Wait until every group has had an effect, because two dozen Pythons take a while to start."""
    until = time.monotonic() + patience
    while {row[0] for row in _effects(databases)} != set(GROUPS):
        if time.monotonic() > until:
            raise LabError(f"not every group has effects after {patience} s; {fleet.crashes}")
        fleet.tend()
        time.sleep(1)


def drain(
    fleet: Fleet, broker: str, ended: Iterable[str], patience: float, again: Callable[[Any], object] = bool
) -> list[str]:
    """End the processes of some roles, and wait for empty queues.
    Returns:
        What is left, in words.
    """
    roles, until = set(ended), time.monotonic() + patience
    fleet.retire([name for name in fleet.names if name.rpartition("-")[0] in roles])
    with psycopg.connect(broker, autocommit=True) as conn:
        while True:
            again(conn)
            row = conn.execute(_OPEN).fetchone() or ()
            left = [f"not drained: {name} {n}" for name, n in zip(("lag", "halves", "delayed"), row, strict=True) if n]
            if not left or time.monotonic() > until:
                return left
            fleet.tend()
            time.sleep(0.5)


def wrong_effects(databases: Databases) -> tuple[int, list[str]]:
    """Compare the effects of each group with what was sent: how many messages, and what is wrong."""
    with psycopg.connect(databases.broker) as conn:
        sent = {row[0] for row in conn.execute("select message_id from soak_sale")}
        dead = {(group, message_id) for group, message_id in conn.execute(_DEAD)}
    with psycopg.connect(databases.shop) as conn:
        sent |= {row[0] for row in conn.execute("select split_part(handle, '.', 3)::bigint from soak_order")}
    found, effects, last = [], defaultdict[tuple[str, str], Counter[int]](Counter), dict[tuple[str, str], int]()
    for group, member, message_id, key, offset in _effects(databases):
        effects[group, member if group == "everybody" else ""][message_id] += 1
        if group in ("by-key", "by-queue") and key is not None:
            if offset < last.get((group, key), -1):
                found.append(f"{group}: a message of {key} came out of order")
            last[group, key] = offset
    for (group, member), counted in sorted(effects.items()):
        twice = [] if group == "outside" else [m for m, n in counted.items() if n > 1]
        lost = set() if group == "filtered" else {m for m in sent - counted.keys() if (group, m) not in dead}
        for what, ids in (("twice", twice), ("missing", lost), ("of nothing", counted.keys() - sent)):
            if ids:
                found.append(f"{group} {member}: {len(ids)} effects {what}, {sorted(ids)[:3]}")
    return len(sent), found


def _effects(databases: Databases) -> list[tuple[str, str, int, str | None, int]]:
    rows = []
    for dsn in databases:
        with psycopg.connect(dsn) as conn:
            rows += conn.execute(_EFFECTS).fetchall()
    return rows


def terminate_cleanly() -> None:
    """Let SIGTERM stop what was started, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
