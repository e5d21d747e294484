"""Effects in the broker's database in mode shared: several workers read one queue, and each message
takes effect once.
"""

import threading
import time
from typing import Any

import psycopg
import pytest

import mqpg

pytestmark = pytest.mark.shared_database


@pytest.fixture
def here(db: psycopg.Connection[Any], mq: mqpg.Client) -> psycopg.Connection[Any]:
    """The broker's database with a business table, and a topic of one queue with ten messages."""
    db.execute("create table business (id int)")
    mq.create_topic("orders", queues=1)
    mq.send_batch("orders", [{"id": i} for i in range(10)])
    mq.append()
    return db


def applied(here: psycopg.Connection[Any]) -> list[int]:
    return [row[0] for row in here.execute("select id from business order by id")]


def lag(here: psycopg.Connection[Any]) -> int:
    row = here.execute("select sum(lag) from mqpg.subscription_lag").fetchone()
    assert row is not None
    return int(row[0])


def test_a_slow_message_does_not_hold_up_the_queue(mq: mqpg.Client, here: psycopg.Connection[Any]) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @mqpg.consumer("orders", group="g", mode="shared", max_messages=1, lease="3 s")
    def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        conn.execute("insert into business values (%s)", [message.payload["id"]])
        if message.payload["id"] == 0:
            begun.set()
            assert go_on.wait(60)

    slow = threading.Thread(target=handle.step, args=(mq,))
    slow.start()
    assert begun.wait(45)
    others = mqpg.consumer("orders", group="g", mode="shared", max_messages=4)(handle.handler)
    assert [others.step(mq) for _ in range(4)] == [4, 4, 1, 0]
    time.sleep(4)  # the heartbeat keeps the claim beyond its lease
    assert others.step(mq) == 0
    assert applied(here) == list(range(1, 10))
    go_on.set()
    slow.join(30)
    assert (applied(here), lag(here)) == (list(range(10)), 0)


def test_a_claim_that_was_taken_over_undoes_the_effect(mq: mqpg.Client, here: psycopg.Connection[Any]) -> None:
    stolen: list[int] = []

    @mqpg.consumer("orders", group="g", mode="shared", max_messages=3)
    def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        conn.execute("insert into business values (%s)", [message.payload["id"]])
        if not stolen:
            stolen.append(message.message_id)
            mq.extend(str(message.receipt), 0.01)
            time.sleep(0.1)
            (other, *_) = mq.receive("g", "orders", 3)
            assert other.attempt == 2
            mq.release(str(other.receipt))

    assert handle.step(mq) == 3
    assert applied(here) == []
    while handle.step(mq):
        pass
    assert (applied(here), lag(here)) == (list(range(10)), 0)
