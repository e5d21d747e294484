"""What the members run: `mqpg consume lab.silence.handlers:c1`, or `:c3`.

C2 has no standby: its queues stay with the name of a process. Each handler first notes, in a
transaction of its own, that it began. Its effects are rows without any key.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

import psycopg

import mqpg

__all__ = ["LEASE", "c1", "c3"]

LEASE = 3.0  # seconds
_WORK = 1.5  # seconds; a fault may take one to begin, and has to meet the handler at work
_OPTIONS: dict[str, Any] = {
    "lease": LEASE,
    "max_messages": 1,
    "retry_delay": 0.2,
    "max_attempts": 10_000,
    "on_failure": "block_queue",
}


def _note(statement: str, *values: object) -> None:
    with psycopg.connect(os.environ["MQPG_DATABASE_URL"], autocommit=True, connect_timeout=5) as conn:
        conn.execute(statement.encode(), values)


def _begin(group: str, message: mqpg.Message) -> None:
    _note("insert into began values (%s, %s, %s)", group, socket.gethostname(), message.payload)
    time.sleep(_WORK)


@mqpg.consumer("c1", group="c1", **_OPTIONS)
def c1(message: mqpg.Message, conn: psycopg.Connection) -> None:
    """The effect is in the broker's database, in the transaction that holds the queue."""
    _begin("c1", message)
    conn.execute("insert into effect values ('c1', %s)", [message.payload])


@mqpg.consumer("c3", group="c3", effect="external", **_OPTIONS)
def c3(message: mqpg.Message) -> None:
    """The effect is outside, and may be there twice."""
    _begin("c3", message)
    _note("insert into effect values ('c3', %s)", message.payload)
