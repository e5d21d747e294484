"""The processes of a soak: `python -m lab.soak.members NAME SEED BROKER SHOP`.

Each runs until it is killed. A producer makes business changes with their messages, in the broker's
database or in the shop's. A consumer writes an effect of each message. What they did is only in the
databases.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import sqlalchemy

import mqpg

__all__ = ["BROKER", "GROUPS", "PRODUCERS", "SHOP", "SINGLE", "TOPIC", "main", "pause"]

TOPIC = "soak"
KEYS = 12
PAUSE = 0.2  # a producer's longest pause in seconds, unless MQPG_SOAK_PAUSE says another one
PRODUCERS = ("sender", "sender", "transactor", "local")

# tables of the business in the broker's database, and in the shop's
BROKER = """
create table soak_sale (message_id bigint primary key);
create table soak_effect (id bigint generated always as identity, consumer_group text not null, member text not null,
    message_id bigint not null, key text, queue_id int not null, queue_offset bigint not null);
"""
SHOP = "create table soak_order (handle text primary key);" + BROKER.split(";", 1)[1]

# consumer group: its settings; all but `outside` have their effects once
GROUPS: dict[str, dict[str, Any]] = {
    "exclusive": {"journal": True},
    "shared": {"mode": "shared", "journal": True},
    "mortal": {"journal": True, "max_attempts": 2, "retry_delay": 0.05},
    "by-key": {"journal": True, "on_failure": "block_key"},
    "by-queue": {"journal": True, "on_failure": "block_queue"},
    "filtered": {"filter": "$.n % 3 != 0", "journal": True},
    "everybody": {"mode": "broadcast", "journal": True},
    "pinned": {"journal": True},
    "outside": {"effect": "external", "mode": "shared", "lease": 2.0},
}
SINGLE = ("mortal", "by-key", "by-queue", "filtered")  # groups with one member; the others have two
_EFFECT = (
    "insert into soak_effect (consumer_group, member, message_id, key, queue_id, queue_offset)"
    " values ({0}, {0}, {0}, {0}, {0}, {0})"
)


class Unlucky(Exception):
    """A handler fails now and then."""


def _work(rng: random.Random) -> None:
    time.sleep(rng.random() ** 4 * 0.02)
    if rng.random() < 0.02:
        raise Unlucky("not this time")


def consume(group: str, name: str, rng: random.Random, broker: str, shop: str) -> None:
    """Run a member of a consumer group: C2 in mode pinned, C3 where the effect is outside."""
    settings = {"retry_delay": 0.1, "max_attempts": 1000} | GROUPS[group]

    def here(message: mqpg.Message, conn: Any) -> None:
        conn.execute(_EFFECT.format("%s"), _row(group, name, message))
        _work(rng)

    def there(message: mqpg.Message, conn: Any) -> None:
        values = ", ".join(f":{i}" for i in range(6))
        sql = _EFFECT.split(" values ")[0].format() + f" values ({values})"
        conn.execute(sqlalchemy.text(sql), {str(i): v for i, v in enumerate(_row(group, name, message))})

    kept: list[psycopg.Connection[Any]] = []

    def outside(message: mqpg.Message) -> None:
        # A new one after an error, because a crash of the server ends the connection for good.
        if not kept or kept[0].closed:
            kept[:] = [psycopg.connect(broker, autocommit=True)]
        kept[0].execute(_EFFECT.format("%s"), _row(group, name, message))
        _work(rng)

    handler: Callable[..., None] = here
    if group == "pinned":
        handler, settings["database"] = there, shop
    elif group == "outside":
        handler = outside
    lease = settings.pop("lease", 3.0)
    consumer = mqpg.consumer(
        TOPIC,
        group=group,
        consumer=name,
        max_messages=rng.choice([1, 5, 20]),
        lease=timedelta(seconds=lease),
        **settings,
    )(handler)
    with mqpg.connect(broker) as mq:
        consumer.run(mq, threading.Event())


def _row(group: str, name: str, message: mqpg.Message) -> tuple[Any, ...]:
    return (group, name, message.message_id, message.key, message.queue_id, message.queue_offset)


def _payload(rng: random.Random) -> dict[str, int]:
    return {"n": rng.randrange(1000)}


def _key(rng: random.Random) -> str | None:
    return f"k{rng.randrange(KEYS)}" if rng.random() < 0.7 else None


def pause(rng: random.Random) -> None:
    """Wait between two transactions of a producer."""
    time.sleep(rng.random() * float(os.environ.get("MQPG_SOAK_PAUSE", PAUSE)))


def send(rng: random.Random, broker: str, shop: str) -> None:
    """T1: the business change and its messages are one transaction, with delays, dedup ids and
    recalls.
    """
    with mqpg.connect(broker) as mq, psycopg.connect(broker, autocommit=True) as conn:
        while True:
            with conn.transaction() as tx:
                kind = rng.choice(["one", "batch", "delayed", "dedup"])
                if kind == "batch":
                    n = rng.choice([2, 5, 20])
                    ids = mq.send_batch(TOPIC, [_payload(rng) for _ in range(n)], keys=[_key(rng)] * n, conn=conn)
                elif kind == "delayed":
                    ids = [mq.send(TOPIC, _payload(rng), delay=timedelta(seconds=rng.random()), conn=conn)]
                else:
                    dedup = f"d{rng.randrange(500)}" if kind == "dedup" else None
                    ids = [mq.send(TOPIC, _payload(rng), key=_key(rng), dedup_id=dedup, conn=conn)]
                for message_id in ids:
                    conn.execute("insert into soak_sale values (%s) on conflict do nothing", [message_id])
                tx.force_rollback = rng.random() < 0.1
            if kind == "delayed" and not tx.force_rollback and rng.random() < 0.3:
                with conn.transaction():
                    if mq.recall(ids[0], conn=conn):
                        conn.execute("delete from soak_sale where message_id = %s", ids)
            pause(rng)


def transact(rng: random.Random, broker: str, shop: str) -> None:
    """T2 with a ledger in the shop's database.

    Some halves are left to the recovery loop or to the compensator.
    """
    with mqpg.connect(broker) as mq:
        producer = mqpg.TransactionalProducer(mq, group="shop", ledger=shop)
        insert = sqlalchemy.text("insert into soak_order (handle) values (:handle)")
        while True:
            try:
                with producer.transaction(TOPIC, _payload(rng), key=_key(rng)) as tx:
                    tx.execute(insert, {"handle": tx.handle})
                    if rng.random() < 0.15:
                        raise Unlucky("the business says no")
            except Unlucky:
                pass
            if rng.random() < 0.1:
                producer.recover()
            pause(rng)


def local(rng: random.Random, broker: str, shop: str) -> None:
    """Halves with the ledger in the broker's database, also in batches.

    A third is left to the compensator.
    """
    with psycopg.connect(broker, autocommit=True) as conn:
        while True:
            n = rng.choice([1, 1, 5])
            sql = "select mqpg.prepare_batch(%s, array_fill('{\"n\": 1}'::text, array[%s]), 'here')"
            handles = [row[0] for row in conn.execute(sql, [TOPIC, n])]
            with conn.transaction() as tx:
                for handle in handles:
                    conn.execute("select mqpg.local_begin(%s)", [handle])
                    conn.execute("insert into soak_sale values (split_part(%s, '.', 3)::bigint)", [handle])
                tx.force_rollback = rng.random() < 0.2
            fate = "rollback" if tx.force_rollback else "commit"
            if rng.random() < 0.67:
                conn.execute(f"select mqpg.{fate}_batch(%s)", [handles])
            pause(rng)


_PRODUCE = {"sender": send, "transactor": transact, "local": local}


def main(name: str, seed: str, broker: str, shop: str) -> None:
    """Run the process that NAME says.

    Names are ROLE-NUMBER, and the role is a kind of producer or a consumer group.
    """
    role, rng = name.rpartition("-")[0], random.Random(f"{seed} {name}")
    while True:
        try:
            if role in _PRODUCE:
                _PRODUCE[role](rng, broker, shop)
            else:
                consume(role, name, rng, broker, shop)
        except (psycopg.OperationalError, sqlalchemy.exc.OperationalError, mqpg.errors.ConnectionFailed):
            time.sleep(0.2)  # the server was restarted under it


if __name__ == "__main__":
    main(*sys.argv[1:])
