"""The processes of a year: `python -m lab.years.roles NAME SEED BROKER SHOP`.

Producers and consumer groups are those of the soak. Here are the others: halves that a checker
answers for, a probe that measures, a reader with long snapshots, and an administrator.
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
create table year_outcome (handle text primary key, verdict text not null);
create table year_probe (at timestamptz not null default clock_timestamp(),
    send_ms real not null, seen_ms real not null);
create table year_error (at timestamptz not null default clock_timestamp(), member text not null, code text,
    message text not null);
"""
PRODUCERS = (*members.PRODUCERS, "sender", "sender", "transactor", "transactor", "local", "asker", "asker", "asker")
_CLAIM = "insert into year_outcome values (%s, %s) on conflict do nothing"
_DUE = "select handle from mqpg.due_checks('asked', 50, '5 s')"

Connection = psycopg.Connection[Any]


def asker(rng: random.Random, conn: Connection) -> None:
    """Prepare halves whose outcome stands in a table. A third is left to the checker."""
    sql = "select mqpg.prepare_batch(%s, array_fill('{\"n\": 1}'::text, array[%s]), 'asked')"
    handles = [row[0] for row in conn.execute(sql, [members.TOPIC, rng.choice([1, 1, 5])])]
    with conn.transaction() as tx:
        claimed = [handle for handle in handles if conn.execute(_CLAIM, [handle, "commit"]).rowcount]
        for handle in claimed:
            conn.execute("insert into soak_sale values (split_part(%s, '.', 3)::bigint)", [handle])
        tx.force_rollback = rng.random() < 0.2
    if not tx.force_rollback and rng.random() < 0.67:
        conn.execute("select mqpg.commit_batch(%s)", [claimed])
    members.pause(rng)


def checker(rng: random.Random, conn: Connection) -> None:
    """Answer for the askers. An outcome that is not there yet becomes a rollback for good."""
    for (handle,) in conn.execute(_DUE).fetchall():
        conn.execute(_CLAIM, [handle, "rollback"])
        row = conn.execute("select verdict from year_outcome where handle = %s", [handle]).fetchone()
        assert row is not None
        conn.execute("select mqpg.commit(%s)" if row[0] == "commit" else "select mqpg.rollback(%s)", [handle])
    time.sleep(0.5)


def probe(rng: random.Random, conn: Connection) -> None:
    """Send a message, wait until it is delivered, and note both times in milliseconds."""
    begun = time.perf_counter()
    conn.execute("select mqpg.send('probe', '{}'::text)")
    sent = time.perf_counter()
    while not (row := conn.execute("select receipt from mqpg.receive('probe', 'probe')").fetchone()):
        time.sleep(0.005)
    seen = time.perf_counter()
    conn.execute("select mqpg.ack(%s)", [row[0]])
    conn.execute(
        "insert into year_probe (send_ms, seen_ms) values (%s, %s)", [(sent - begun) * 1000, (seen - begun) * 1000]
    )
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
        f"select mqpg.pause('{topic}')",
        f"select mqpg.resume('{topic}')",
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
    "asker": asker,
    "checker": checker,
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
