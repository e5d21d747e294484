"""The rights that the operations page names for producers and consumers are enough, and none is too
many.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import Engine, create_engine

import mqpg
from mqpg.dsn import to_sqlalchemy
from mqpg.workers.heartbeat import Heartbeat
from tests.support.waiting import eventually

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"


@pytest.fixture
def role(db: psycopg.Connection[Any]) -> Iterator[str]:
    """A role for the rights of the page.

    A test that polls also grants those of the second block.
    """
    name = f"app_{uuid.uuid4().hex[:8]}"
    db.execute(sql.SQL("create role {} login password 'secret'").format(sql.Identifier(name)))
    yield name
    db.execute(sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(name)))


def grant(db: psycopg.Connection[Any], role: str, *blocks: int) -> None:
    section = PAGE.read_text(encoding="utf-8").split("## Privileges")[1]
    found = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
    for block in blocks:
        db.execute(re.sub(r"\bto app\b", f"to {role}", found[block]))


def as_role(dsn: str, role: str) -> str:
    return str(
        to_sqlalchemy(dsn).set(username=role, password="secret", drivername="postgresql").render_as_string(False)
    )


@pytest.fixture
def app(db: psycopg.Connection[Any], dsn: str, role: str) -> Iterator[mqpg.Client]:
    grant(db, role, 0)
    with mqpg.connect(as_role(dsn, role)) as client:
        client.create_topic("orders", queues=1)
        client.create_producer_group("shop")
        yield client


@pytest.mark.parametrize("mode", ["exclusive", "shared", "pinned", "broadcast"])
def test_consumers_of_each_mode(app: mqpg.Client, mq: mqpg.Client, mode: str) -> None:
    app.subscribe("g", "orders", mode=mode, retry_delay=timedelta(0), max_attempts=2)
    app.receive("g", "orders", consumer="one")
    app.send("orders", {"id": 1})
    app.send_batch("orders", [{"id": 2}, {"id": 3}])
    mq.append()
    delivery = app.receive("g", "orders", consumer="one")
    (first, second, third) = delivery
    delivery.extend("1 min")
    app.nack(second, "why not")
    app.nack(third, "never", final=True)
    app.ack(first)
    mq.append()
    (again,) = app.receive("g", "orders", consumer="one")
    app.nack(again, "no more")
    assert len(app.dead_letters("g", "orders")) == 2
    assert app.find_by_key("orders", "k") == []
    assert app.trace(first.message_id)


def test_producers_with_a_ledger_of_their_own(app: mqpg.Client, tmp_path: Path) -> None:
    engine: Engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    producer = mqpg.TransactionalProducer(app, group="shop", ledger=engine)
    producer.create_ledger()
    with producer.transaction("orders", {"id": 1}):
        pass
    assert producer.recover(older_than=timedelta(0)) == 0
    assert app.send("orders", 1, dedup_id="x") == app.send("orders", 1, dedup_id="x")


def test_heartbeats_of_consumers(app: mqpg.Client, dsn: str, role: str) -> None:
    heartbeat = Heartbeat("consumer", 0.0, {})
    with psycopg.connect(as_role(dsn, role), autocommit=True) as conn:
        for state in ("running", "running", "stopped"):
            heartbeat.beat(conn, state)


def test_whoever_polls_needs_the_op_log_queue(app: mqpg.Client, db: psycopg.Connection[Any], role: str) -> None:
    handle = app.prepare("orders", 1, "shop", check_after="10 ms")
    with pytest.raises(mqpg.Error, match="permission denied"):
        app.due_checks("shop")
    grant(db, role, 1)
    due = eventually(lambda: app.due_checks("shop"))
    assert [check.handle for check in due] == [handle]
    app.check_wait(handle)
    assert [state.state for state in app.half_states([handle])] == ["undecided"]
    assert app.commit(handle) is mqpg.Outcome.COMMITTED
