"""A batch that fails is halved until each message that fails is alone."""

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text

import mqpg
from tests.support.consuming import sent_batch
from tests.support.proven import prove

pytestmark = pytest.mark.shared_database

INSERT = text("insert into business values (:id)")


@pytest.fixture
def engine(tmp_path: Any) -> Engine:
    made = create_engine(f"sqlite:///{tmp_path}/shop.db")
    with made.begin() as conn:
        conn.execute(text("create table business (id int)"))
    return made


def applied(engine: Engine) -> list[int]:
    with engine.connect() as conn:
        return list(conn.execute(text("select id from business")).scalars())


def waiting_for_retry(mq: mqpg.Client) -> set[int]:
    """Take the messages that are to be tried again."""
    mq.append()
    return {message.payload["id"] for message in mq.receive("g", "orders", consumer="one")}


class Picky:
    """A handler of batches that refuses some ids, and counts its calls."""

    def __init__(self, *refused: int) -> None:
        self.refused = set(refused)
        self.calls: list[list[int]] = []

    def __call__(self, messages: Sequence[mqpg.Message], conn: Any) -> None:
        ids = [message.payload["id"] for message in messages]
        self.calls.append(ids)
        conn.execute(INSERT, [{"id": one} for one in ids])
        if bad := self.refused & set(ids):
            raise ValueError(f"no {sorted(bad)}")


def consume(mq: mqpg.Client, engine: Engine, picky: Picky, keys: list[str | None], **options: Any) -> mqpg.Consumer:
    mq.create_topic("orders", queues=1)
    consumer = mqpg.consumer(
        "orders",
        group="g",
        database=engine,
        consumer="one",
        batch=True,
        max_messages=len(keys),
        retry_delay=0,
        **options,
    )(picky)
    sent_batch(mq, "orders", [{"id": one} for one in range(len(keys))], keys=keys)
    return consumer


@pytest.mark.parametrize("bad", [0, 41, 63])
def test_one_bad_message_costs_few_calls(mq: mqpg.Client, engine: Engine, bad: int) -> None:
    picky = Picky(bad)
    consumer = consume(mq, engine, picky, [None] * 64)
    consumer.step(mq)
    assert applied(engine) == [one for one in range(64) if one != bad]
    assert len(picky.calls) == 1 + 2 * 6  # 64, and both halves of 64, 32, 16, 8, 4 and 2
    assert picky.calls.count([bad]) == 1
    assert waiting_for_retry(mq) == {bad}


def test_every_bad_message_is_found(mq: mqpg.Client, engine: Engine) -> None:
    picky = Picky(1, 2, 6)
    consumer = consume(mq, engine, picky, [None] * 7)
    consumer.step(mq)
    assert applied(engine) == [0, 3, 4, 5]
    assert waiting_for_retry(mq) == {1, 2, 6}


def test_nothing_of_a_key_overtakes_a_failure_in_another_half(mq: mqpg.Client) -> None:
    calls: list[list[int]] = []
    mq.create_topic("orders", queues=1)

    @mqpg.consumer("orders", group="g", batch=True, max_messages=8, on_failure="block_key")
    def handle(messages: Sequence[mqpg.Message], conn: Any) -> None:
        calls.append([message.payload for message in messages])
        if 1 in calls[-1]:
            raise ValueError("no 1")

    assert handle.step(mq) == 0  # subscribes
    prove(handle)
    sent_batch(mq, "orders", list(range(8)), keys=["a", "b", "a", "b", "c", "b", "a", "b"])
    handle.step(mq)
    assert calls == [[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3], [0, 1], [0], [1], [2], [4, 6]]
