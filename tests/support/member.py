"""Members of one C2 group, each with a database of its own, and a process that is one of them and kills itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, text

import mqpg
from mqpg.values.choices import TopicKind
from tests.support.killing import die_at, killed
from tests.support.waiting import eventually

__all__ = ["GROUP", "TOPIC", "die_as_member", "due", "effects", "main", "member", "send", "subscribe", "work"]

TOPIC, GROUP = "shared", "members"
_MODULES = {
    "Client": "mqpg",
    "OwnDatabase": "mqpg._sync.consumer.own_database",
    "Offsets": "mqpg._sync.stores.offsets",
    "PreparedMessages": "mqpg._sync.stores.prepared",
}


def member(database: str | Engine, name: str, *, fails: int = 2, **options: Any) -> mqpg.Consumer:
    """A consumer whose effect is a row of `effect`. Every fifth message fails so many times first."""

    @mqpg.consumer(TOPIC, group=GROUP, database=database, consumer=name, max_messages=5, journal=True, **options)
    def handle(message: mqpg.Message, conn: Connection) -> None:
        number = message.payload["id"]
        conn.execute(text("insert into effect values (:id)"), {"id": number})
        if number % 5 == 0 and message.attempt <= fails:
            raise RuntimeError("a failure that passes")

    return handle


def subscribe(mq: mqpg.Client, *, kind: TopicKind = "normal", queues: int = 4, **options: Any) -> None:
    mq.create_topic(TOPIC, queues=queues, kind=kind)
    mq.create_producer_group("shop")
    given: dict[str, Any] = {"retry_delay": "10 ms", "max_attempts": 4} | options
    mq.subscribe(GROUP, TOPIC, "pinned", **given)


def send(mq: mqpg.Client, numbers: Sequence[int], *, kind: str = "normal") -> None:
    payloads, keys = [{"id": number} for number in numbers], [str(number) for number in numbers]
    if kind == "relay":
        mq.commit_batch(mq.prepare_batch(TOPIC, payloads, "shop", keys=keys))
    else:
        mq.send_batch(TOPIC, payloads, keys=keys)
    mq.append()


def work(mq: mqpg.Client, members: Sequence[mqpg.Consumer], done: Callable[[], bool]) -> None:
    """Let the members step in turn until it is done and nothing is left to do."""
    while True:
        mq.append()
        if not sum(one.step(mq) for one in members) and done():
            return


def effects(engine: Engine) -> list[int]:
    with engine.connect() as conn:
        return sorted(row[0] for row in conn.execute(text("select id from effect")))


def due(mq: mqpg.Client, count: int = 1) -> None:
    """Wait until so many retries are in the lane."""
    query = b"select next_offset from mqpg.subscription_lag where consumer_group = %s and queue_id = -1"

    def there() -> bool:
        mq.append()
        with mq.transaction() as conn:
            return bool(conn.execute(query, [GROUP]).fetchall()[0][0] >= count)

    eventually(there)


def die_as_member(dsn: str, local_url: str, name: str, when: str, step: str) -> None:
    """Be a member until it is dead by its own SIGKILL."""
    killed("tests.support.member", dsn, local_url, name, when, step)


def main(dsn: str, local_url: str, name: str, when: str, step: str) -> None:
    die_at(f"{_MODULES[step.split('.')[0]]}:{step}", when)
    consumer = member(local_url, name)
    with mqpg.connect(dsn) as mq:
        while True:
            mq.append()
            consumer.step(mq)
