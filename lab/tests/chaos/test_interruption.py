"""Kills in the middle of keep(), an upgrade and adopt(): the moment was hit, and nothing is lost."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import mqpg
from lab.chaos.interruption import Interruption, adopt_twice, interrupt
from lab.chaos.nodes import Node
from lab.chaos.schedule import TARGETS, Target
from lab.processes import Process
from mqpg import migrate
from mqpg.embedded import EmbeddedServer
from mqpg.schema.source import packaged

pytestmark = pytest.mark.chaos

IDLE = [sys.executable, "-c", "import time; time.sleep(600)"]
BUSY = "update mqpg.settings set value = '0 s' where name in ('segment_age', 'cursor_slot_age')"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Node]:
    with EmbeddedServer(settings={"log_min_messages": "fatal"}) as server:
        made = Node("broker-1", Process("worker-1", IDLE, tmp_path, os.environ), server)
        dsn = server.create_database("broker")
        migrate.upgrade(dsn)
        with mqpg.connect(dsn) as mq:
            mq.create_topic("orders", queues=2)
            mq.subscribe("billing", "orders")
            mq.send_batch("orders", [{"id": n} for n in range(50)])
        made.process.start()
        yield made
        made.process.kill()


def dsn_of(broker: Node) -> str:
    assert broker.server is not None
    return broker.server.dsn("broker")


def ids(dsn: str) -> list[int]:
    with mqpg.connect(dsn) as mq:
        mq.append()
        found: list[int] = []
        while messages := mq.receive("billing", "orders", max_messages=100):
            found += [message.payload["id"] for message in messages]
        return sorted(found)


def start_time(dsn: str) -> object:
    with psycopg.connect(dsn) as conn:
        return conn.execute(
            "select max(backend_start) from pg_stat_activity where backend_type = 'checkpointer'"
        ).fetchone()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("work", ["keep", "upgrade"])
def test_what_was_interrupted_is_finished_by_the_next_one(
    broker: Node, tmp_path: Path, work: str, target: Target
) -> None:
    dsn = dsn_of(broker)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(BUSY)
    before = start_time(dsn)
    assert interrupt(broker, dsn, tmp_path, Interruption(work, target, 0.1)) == []  # type: ignore[arg-type]
    assert (start_time(dsn) != before) == (target != "client")  # the server had to recover
    assert migrate.status(dsn, source=packaged()).up_to_date
    assert ids(dsn) == list(range(50))


@pytest.mark.parametrize("target", TARGETS)
def test_a_promoted_broker_whose_adoption_was_killed_is_adopted_by_the_next_one(
    broker: Node, tmp_path: Path, target: Target
) -> None:
    dsn = dsn_of(broker)
    timeline = "select left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), timeline from mqpg.broker"
    with psycopg.connect(dsn) as conn:
        before = conn.execute(timeline).fetchone()
    assert adopt_twice(broker, dsn, tmp_path, Interruption("adopt", target, 0.1)) == []
    with psycopg.connect(dsn) as conn:
        assert conn.execute(timeline).fetchone() == ("00000002", "00000002") != before
    assert ids(dsn) == list(range(50))  # append() refuses a server that is not adopted
