"""Consumers honour their subscription: failures that block, filters, seeks, members of a broadcast."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text

import mqpg
from mqpg import errors
from tests.support.business import INSERT
from tests.support.consuming import drain, running, send, sent_batch
from tests.support.proven import prove
from tests.support.waiting import eventually

pytestmark = pytest.mark.shared_database


class Own:
    """The business and the consumer's tables in the consumer's own database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = create_engine(url)
        with self.engine.begin() as conn:
            conn.execute(text("create table business (row integer primary key, id int)" if "sqlite" in url else
                              "create table business (row serial primary key, id int)"))  # fmt: skip

    def ids(self) -> list[int]:
        with self.engine.connect() as conn:
            return list(conn.execute(text("select id from business order by row")).scalars())

    def applied(self) -> list[int]:
        with self.engine.connect() as conn:
            return list(conn.execute(text("select message_id from mqpg_applied")).scalars())


@pytest.fixture
def own(local_url: str) -> Iterator[Own]:
    found = Own(local_url)
    yield found
    found.engine.dispose()


KEYS = ["a", "b", "b", "c", "b"]


def send_keyed(mq: mqpg.Client) -> None:
    sent_batch(mq, "orders", [{"id": n} for n in range(5)], keys=KEYS)


@pytest.mark.parametrize(("on_failure", "first"), [("skip", [0, 2, 3, 4]), ("block_key", [0, 3]), ("block_queue", [0])])
def test_here_what_must_not_overtake_is_not_applied(
    mq: mqpg.Client, topic: str, db: psycopg.Connection[Any], on_failure: Any, first: list[int]
) -> None:
    db.execute("create table business (row serial, id int)")

    @mqpg.consumer(topic, group="g", on_failure=on_failure, retry_delay="300 ms", journal=True)
    def bill(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        conn.execute("insert into business (id) values (%s)", [message.payload["id"]])
        if message.payload["id"] == 1 and message.attempt < 3:
            raise ValueError("later")

    def ids() -> list[int]:
        return [row[0] for row in db.execute("select id from business order by row")]

    assert bill.step(mq) == 0
    prove(bill)
    send_keyed(mq)
    assert bill.step(mq) == 5
    assert ids() == first
    eventually(lambda: (mq.append(), bill.step(mq), len(ids()) >= 5)[2])
    drain(bill, mq)
    of_b = [number for number in ids() if KEYS[number] == "b"]
    assert of_b == ([2, 4, 1] if on_failure == "skip" else [1, 2, 4])
    assert sorted(ids()) == [0, 1, 2, 3, 4]
    assert db.execute("select count(distinct message_id), count(*) from mqpg_applied").fetchone() == (5, 5)


def test_there_the_offset_stops_before_the_failed_message(mq: mqpg.Client, topic: str, own: Own) -> None:
    """With block_queue and an own database messages are applied in order and once.

    A dead letter unblocks the queue.
    """
    attempts: list[int] = []

    @mqpg.consumer(topic, group="g", database=own.url, consumer="one", on_failure="block_queue",
                   retry_delay="100 ms", max_attempts=3, journal=True)  # fmt: skip
    def bill(message: mqpg.Message, conn: Any) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})
        if message.payload["id"] == 1 and message.attempt < 3:
            raise ValueError("later")
        if message.payload["id"] == 3:
            attempts.append(message.attempt)
            raise ValueError("never")

    assert bill.step(mq) == 0
    send_keyed(mq)
    assert bill.step(mq) == 5
    assert own.ids() == [0]
    with own.engine.connect() as conn:
        assert conn.execute(text("select next_offset from mqpg_offsets")).scalar() == 1
    eventually(lambda: (mq.append(), bill.step(mq), mq.dead_letters("g", topic))[2])
    drain(bill, mq)
    assert own.ids() == [0, 1, 2, 4]
    assert sorted(set(attempts)) == [1, 2, 3]
    assert [letter.payload["id"] for letter in mq.dead_letters("g", topic)] == [3]
    assert mq.redrive("g", topic) == 1
    assert len(set(own.applied())) == len(own.applied()) == 4
    bill.close()


def test_there_block_key_is_refused(mq: mqpg.Client, topic: str, own: Own) -> None:
    bill = mqpg.consumer(topic, group="g", database=own.url, on_failure="block_key")(lambda message, conn: None)
    with pytest.raises(errors.InvalidArgument, match="block_queue"):
        bill.step(mq)
    bill.close()


def test_there_what_the_filter_leaves_out_is_not_taken_from_the_log(mq: mqpg.Client, topic: str, own: Own) -> None:
    """The delivery leaves out offsets that the filter does not choose. They are not missing."""

    @mqpg.consumer(topic, group="g", database=own.url, consumer="one", max_messages=2,
                   filter="$.id % 3 == 1", tags=["x"], journal=True)  # fmt: skip
    def bill(message: mqpg.Message, conn: Any) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})

    assert bill.step(mq) == 0
    for start in (0, 10, 20):
        send(mq, range(start, start + 10), tags=["x" if n != 4 else "y" for n in range(start, start + 10)])
        drain(bill, mq)
    assert own.ids() == [n for n in range(30) if n % 3 == 1 and n != 4]
    bill.close()


def test_there_a_seek_forward_is_followed(mq: mqpg.Client, topic: str, own: Own) -> None:
    """The consumer does not apply from the log what the group skipped on purpose."""

    @mqpg.consumer(topic, group="g", database=own.url, consumer="one")
    def bill(message: mqpg.Message, conn: Any) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})

    assert bill.step(mq) == 0
    send(mq, range(2))
    drain(bill, mq)
    send(mq, range(2, 6))
    mq.seek("g", topic, "5", 0)
    drain(bill, mq)
    assert own.ids() == [0, 1, 5]
    bill.close()


def test_workers_take_queues_that_are_added_while_they_run(
    mq: mqpg.Client, topic: str, db: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two workers of one name have divided the queues, and the added ones come to them."""
    monkeypatch.setattr("mqpg._sync.consumer.assignment._LOOK", 0.1)
    got: list[int] = []

    @mqpg.consumer(topic, group="g", mode="broadcast", consumer="c", effect="external", concurrency=2)
    def notify(message: mqpg.Message) -> None:
        got.append(message.payload["id"])

    def consumed(numbers: range) -> bool:
        db.execute("select mqpg._open_queues()")
        return len(got) == numbers.stop

    with running(notify, mq):
        for numbers in (range(20), range(20, 40)):
            sent_batch(mq, topic, [{"id": n} for n in numbers], keys=[str(n) for n in numbers])
            eventually(partial(consumed, numbers))
            mq.alter_topic(topic, queues=4)
    assert sorted(got) == list(range(40))
