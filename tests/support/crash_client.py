"""A client process that the crash tests kill.

The roles are producer, appender, consumer and compensator. Each runs until it is killed and
reconnects by itself. What it did is only in the database: `sale` holds what producers did, `effect`
what consumers did.
"""

import random
import time
from collections.abc import Callable
from typing import Any

import psycopg


def produce(conn: psycopg.Connection[Any], rng: random.Random) -> None:
    """Make a business change with its message, in one transaction or by a half message and the
    ledger.
    """
    kind = rng.choice(["send", "batch", "half", "half"])
    if kind == "half":
        final = rng.random() < 0.3
        handle = conn.execute("select mqpg.prepare('t', '{}', 'shop', key => 'k')").fetchone()[0]  # type: ignore[index]
        with conn.transaction() as tx:
            conn.execute("select mqpg.local_begin(%s)", [handle])
            conn.execute("insert into sale values (split_part(%s, '.', 3)::bigint)", [handle])
            tx.force_rollback = rng.random() < 0.2
        if rng.random() < 0.3:
            return  # as if killed here; the compensator must find out
        if tx.force_rollback:
            conn.execute("select mqpg.rollback(%s)", [handle])
        else:
            conn.execute("select mqpg.commit(%s, '{}')" if final else "select mqpg.commit(%s)", [handle])
        return
    call = "send('t', '{}', key => 'k')" if kind == "send" else "send_batch('t', array['1', '2', '3'])"
    with conn.transaction() as tx:
        conn.execute(f"insert into sale select mqpg.{call}")
        tx.force_rollback = rng.random() < 0.2


def append(conn: psycopg.Connection[Any], rng: random.Random) -> None:
    conn.execute("select mqpg.append(%s::int)", [rng.choice([None, 3, 20])])
    time.sleep(rng.random() * 0.003)


def consume(conn: psycopg.Connection[Any], rng: random.Random) -> None:
    """Consume with receive, effect and acknowledgement in one transaction (C1)."""
    with conn.transaction() as tx:
        got = conn.execute("select message_id, receipt from mqpg.receive('g', 't', %s)", [rng.randint(1, 20)])
        rows = got.fetchall()
        for message_id, _ in rows:
            conn.execute("insert into effect values (%s)", [message_id])
        if rows:
            conn.execute("select mqpg.ack(%s)", [rows[0][1]])
        tx.force_rollback = rng.random() < 0.1
    if not rows:
        time.sleep(0.002)


def compensate(conn: psycopg.Connection[Any], rng: random.Random) -> None:
    conn.execute("select mqpg.compensate()")
    time.sleep(0.02 * rng.random())


ROLES: dict[str, Callable[[psycopg.Connection[Any], random.Random], None]] = {
    "producer": produce,
    "appender": append,
    "consumer": consume,
    "compensator": compensate,
}


def main(dsn: str, role: str, seed: int) -> None:
    rng = random.Random(seed)
    while True:
        try:
            with psycopg.connect(dsn, autocommit=True) as conn:
                while True:
                    ROLES[role](conn, rng)
        except psycopg.OperationalError:
            time.sleep(0.05)  # the server was restarted under it
