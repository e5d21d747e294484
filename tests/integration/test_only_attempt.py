"""What fails for good in its only attempt is a dead letter at once, and what is behind it in its delivery is applied."""

from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text

import mqpg
from tests.support.business import INSERT
from tests.support.consuming import drain, sent_batch

pytestmark = pytest.mark.shared_database

_ON_FAILURE = pytest.mark.parametrize("on_failure", ["skip", "block_key", "block_queue"])
# The group has one attempt, or gets it while a handler is at work, or the handler wants no other one.
_WHY = pytest.mark.parametrize("why", ["only attempt", "lowered", "rejected"])
_KEYS = ["a", "b", "b", "c", "b"]


class _Fails:
    """What each handler does for message 1."""

    def __init__(self, mq: mqpg.Client, why: str) -> None:
        self._mq, self._why = mq, why
        self.options: dict[str, Any] = {"max_attempts": 1 if why == "only attempt" else 5, "retry_delay": "10 ms"}

    def __call__(self, message: mqpg.Message) -> None:
        if message.payload["id"] == 1:
            if self._why == "lowered":
                self._mq.alter_subscription("g", "orders", max_attempts=1)
            raise mqpg.Reject("never") if self._why == "rejected" else ValueError("never")


def _consume(mq: mqpg.Client, bill: Any) -> list[int]:
    """Let it consume five messages and return the dead letters."""
    assert bill.step(mq) == 0
    mq.send("orders", {"id": 9}, key="z")  # the first delivery after a start comes alone
    mq.append()
    drain(bill, mq)
    sent_batch(mq, "orders", [{"id": n} for n in range(5)], keys=_KEYS)
    drain(bill, mq)
    return [letter.payload["id"] for letter in mq.dead_letters("g", "orders")]


@_WHY
@_ON_FAILURE
def test_here(mq: mqpg.Client, topic: str, db: psycopg.Connection[Any], on_failure: Any, why: str) -> None:
    db.execute("create table business (row serial, id int)")
    fails = _Fails(mq, why)

    @mqpg.consumer(topic, group="g", on_failure=on_failure, **fails.options)
    def bill(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        fails(message)
        conn.execute("insert into business (id) values (%s)", [message.payload["id"]])

    assert _consume(mq, bill) == [1]
    assert [row[0] for row in db.execute("select id from business order by id")] == [0, 2, 3, 4, 9]


@_WHY
@_ON_FAILURE
@pytest.mark.parametrize("ack", ["each", "delivery"])
def test_outside(mq: mqpg.Client, topic: str, on_failure: Any, why: str, ack: Any) -> None:
    fails, handled = _Fails(mq, why), []

    @mqpg.consumer(topic, group="g", effect="external", ack=ack, on_failure=on_failure, lease=1, **fails.options)
    def note(message: mqpg.Message) -> None:
        fails(message)
        handled.append(message.payload["id"])

    assert _consume(mq, note) == [1]
    assert sorted(handled) == [0, 2, 3, 4, 9]


@_WHY
@pytest.mark.parametrize("on_failure", ["skip", "block_queue"])
def test_there(mq: mqpg.Client, topic: str, local_url: str, on_failure: Any, why: str) -> None:
    engine = create_engine(local_url)
    with engine.begin() as conn:
        conn.execute(text("create table business (id int)"))
    fails = _Fails(mq, why)

    @mqpg.consumer(topic, group="g", database=local_url, consumer="one", on_failure=on_failure, **fails.options)
    def bill(message: mqpg.Message, conn: Any) -> None:
        fails(message)
        conn.execute(INSERT, {"id": message.payload["id"]})

    dead = _consume(mq, bill)
    with engine.connect() as conn:
        applied = list(conn.execute(text("select id from business order by id")).scalars())
    assert (applied, dead) == ([0, 2, 3, 4, 9], [1])
    bill.close()
    engine.dispose()
