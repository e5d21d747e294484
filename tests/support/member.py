"""Members of one C2 group, each with a database of its own, and a process that is one of them and kills itself."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, text

import mqpg
from mqpg._sync.client.client import Client
from mqpg._sync.consumer.own_database import OwnDatabase
from mqpg._sync.stores.offsets import Offsets
from mqpg._sync.stores.prepared import PreparedMessages
from tests.support.killing import die_at, killed

__all__ = ["GROUP", "TOPIC", "die_as_member", "main", "member"]

TOPIC, GROUP = "shared", "members"
_OWNERS: dict[str, Any] = {one.__name__: one for one in (Client, OwnDatabase, Offsets, PreparedMessages)}


def member(database: str | Engine, name: str, *, fails: int = 2, **options: Any) -> mqpg.Consumer:
    """A consumer whose effect is a row of `effect`. Every fifth message fails so many times first."""

    @mqpg.consumer(TOPIC, group=GROUP, database=database, consumer=name, max_messages=5, journal=True, **options)
    def handle(message: mqpg.Message, conn: Connection) -> None:
        number = message.payload["id"]
        conn.execute(text("insert into effect values (:id)"), {"id": number})
        if number % 5 == 0 and message.attempt <= fails:
            raise RuntimeError("a failure that passes")

    return handle


def die_as_member(dsn: str, local_url: str, name: str, when: str, step: str) -> None:
    """Be a member until it is dead by its own SIGKILL."""
    killed("tests.support.member", dsn, local_url, name, when, step)


def main(dsn: str, local_url: str, name: str, when: str, step: str) -> None:
    owner, method = step.split(".")
    die_at(_OWNERS[owner], method, when)
    consumer = member(local_url, name)
    with mqpg.connect(dsn) as mq:
        while True:
            mq.append()
            consumer.step(mq)
