"""The processes of a year: `python -m lab.years.roles NAME SEED BROKER SHOP`.

Producers and consumer groups are those of the soak. Here are the others: a probe that measures, a
reader with long snapshots, and an administrator.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import Any

import psycopg

from lab.soak import members

__all__ = ["PRODUCERS", "ROLES", "TABLES", "main"]

TABLES = """
create table year_probe (at timestamptz not null default clock_timestamp(),
    send_ms real not null, seen_ms real not null);
create table year_error (at timestamptz not null default clock_timestamp(), member text not null, code text,
    message text not null);
"""
PRODUCERS = ("sender", "sender", "sender", "sender", "sender", "transactor", "transactor", "transactor", "transactor",
    "local", "local", "local")  # fmt: skip

Connection = psycopg.Connection[Any]


def probe(rng: random.Random, conn: Connection) -> None:
    """Send a message, wait until it is delivered, and note both times in milliseconds."""
    begun = time.perf_counter()
    conn.execute("select mqpg.send('probe', '{}'::text)")
    sent = time.perf_counter()
    while not (row := conn.execute("select receipt from mqpg.receive('probe', 'probe')").fetchone()):
        time.sleep(0.005)
    seen = time.perf_counter()
    conn.execute("select mqpg.ack(%s)", [row[0]])
    times = [(sent - begun) * 1000, (seen - begun) * 1000]
    conn.execute("insert into year_probe (send_ms, seen_ms) values (%s, %s)", times)
    time.sleep(rng.random() * 0.5)


def reader(rng: random.Random, conn: Connection) -> None:
    """Hold a snapshot for about a day of this year, half the time with locks on the whole log."""
    with conn.transaction():
        conn.execute("set transaction isolation level repeatable read, read only")
        conn.execute(rng.choice(["select count(*) from soak_sale", "select count(*) from mqpg.commit_log"]))
        time.sleep(rng.uniform(3, 10))
    time.sleep(rng.uniform(3, 10))


def administrator(rng: random.Random, conn: Connection) -> None:
    """Create, alter, read, seek and drop topics and groups, and send dead letters on their way."""
    topic, group = f"side-{rng.randrange(6)}", f"side-{rng.randrange(3)}"
    mode = rng.choice(["exclusive", "shared", "broadcast"])
    statements = [
        f"select mqpg.create_topic('{topic}', queues => {rng.choice([1, 4])}, retention => '1 minute')",
        f"select mqpg.subscribe('{group}', '{topic}', mode => '{mode}')",
        f"select count(mqpg.send('{topic}', '1'::text)) from generate_series(1, 20)",
        f"select mqpg.alter_topic('{topic}', retention => '2 minutes')",
        f"select mqpg.alter_subscription('{group}', '{topic}', max_attempts => {rng.randrange(2, 9)})",
        *[
            f"select mqpg.ack(r.receipt) from mqpg.receive('{group}', '{topic}', consumer => 'a') r limit 1",
            f"select mqpg.seek('{group}', '{topic}', '{rng.choice(['earliest', 'latest'])}')",
        ]
        * 3,
        f"select mqpg.unsubscribe('{group}', '{topic}')",
        f"select mqpg.drop_topic('{topic}', force => true)",
        f"select mqpg.subscribe('visitor', '{members.TOPIC}', start => '{rng.choice(['earliest', 'latest'])}')",
        *[f"select mqpg.ack(r.receipt) from mqpg.receive('visitor', '{members.TOPIC}') r limit 1"] * 5,
        f"select mqpg.unsubscribe('visitor', '{members.TOPIC}')",
        f"select mqpg.redrive('mortal', '{members.TOPIC}')",
    ]
    for statement in statements:
        try:
            conn.execute(statement)
        except psycopg.Error as error:
            _note(conn, "administrator", error)
        time.sleep(rng.random() * 0.3)


def _note(conn: Connection, member: str, error: psycopg.Error) -> None:
    values = [member, error.sqlstate, str(error).partition("\n")[0]]
    conn.execute("insert into year_error (member, code, message) values (%s, %s, %s)", values)


ROLES: dict[str, Callable[[random.Random, Connection], None]] = {
    "probe": probe,
    "reader": reader,
    "administrator": administrator,
}


def main(name: str, seed: str, broker: str, shop: str) -> None:
    """Run the process that NAME says; names are ROLE-NUMBER."""
    role = name.rpartition("-")[0]
    if role not in ROLES:
        members.main(name, seed, broker, shop)
    rng = random.Random(f"{seed} {name}")
    with psycopg.connect(broker, autocommit=True) as conn:
        while True:
            try:
                ROLES[role](rng, conn)
            except psycopg.Error as error:
                _note(conn, role, error)
                time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
