"""I1 atomic: a message is delivered iff its transaction committed."""

import random
from typing import Any

import pytest

from tests.support.broker import Broker, Session, cut_off, refused
from tests.support.history import run_history


def delivered(mq: Session, topic: str = "one") -> list[int]:
    return [m.message_id for m in mq.delivered(topic)]


@pytest.fixture
def shop(mq: Session) -> Session:
    mq.execute("create table sale (message_id bigint primary key)")
    return mq


def test_I1_business_row_and_message_commit_together(shop: Session) -> None:
    with shop.transaction():
        shop.execute("insert into sale select mqpg.send('one', '1')")
    assert delivered(shop) == [r[0] for r in shop.rows("select * from sale")]


def test_I1_rollback_takes_both(shop: Session) -> None:
    with shop.transaction(force_rollback=True):
        shop.execute("insert into sale select mqpg.send('one', '1')")
    assert delivered(shop) == []


def test_I1_a_failed_statement_takes_both(shop: Session) -> None:
    with refused("22012"), shop.transaction():
        shop.execute("insert into sale select mqpg.send('one', '1')")
        shop.execute("select 1 / 0")
    assert delivered(shop) == []


def test_I1_a_connection_lost_before_commit_takes_both(shop: Session, other: Session) -> None:
    with cut_off(), other.transaction():
        other.execute("insert into sale select mqpg.send('one', '1')")
        shop.execute("select pg_terminate_backend(%s)", other.pid)
        other.execute("select 1")
    assert shop.rows("select * from sale") == []
    assert delivered(shop) == []


def test_I1_a_decision_is_part_of_its_transaction(shop: Session) -> None:
    kept, dropped = shop.prepare("one", "1"), shop.prepare("one", "2")
    with shop.transaction():
        shop.commit(kept)
    with shop.transaction(force_rollback=True):
        shop.commit(dropped)
    assert delivered(shop) == [int(kept.split(".")[2])]


def test_I1_delayed_sends_are_part_of_their_transaction(shop: Session) -> None:
    with shop.transaction(force_rollback=True):
        shop.send("one", "1", delay="0.02 s")
    kept = shop.send("one", "2", delay="0.02 s")
    shop.execute("select pg_sleep(0.05)")
    assert delivered(shop) == [kept]


def _sell(mq: Session, rng: random.Random, n: int) -> None:
    """Run business transactions with messages. Some are rolled back, as a whole or in part."""
    for _ in range(n):
        with mq.transaction() as tx:
            mq.execute("insert into sale select mqpg.send('t', '1', key => %s)", f"k{rng.randrange(3)}")
            with mq.transaction() as part:
                mq.execute("insert into sale select mqpg.send_batch('t', array['1', '2', '3'])")
                part.force_rollback = rng.random() < 0.3
            if rng.random() < 0.2:
                mq.execute("insert into sale select mqpg.send('t', '1')")
            tx.force_rollback = rng.random() < 0.3


def test_I1_delivered_equals_committed_under_concurrency(shop: Session, broker: Broker, rng: random.Random) -> None:
    running: list[Any] = [broker.background(_sell, broker.session(), random.Random(rng.random()), 25) for _ in range(6)]
    got: list[int] = []
    while not all(f.done() for f in running):
        got += delivered(shop, "t")
    for f in running:
        f.result()
    got += delivered(shop, "t")
    assert len(got) == len(set(got))
    assert sorted(got) == [r[0] for r in shop.rows("select message_id from sale order by 1")]


def test_I1_delivered_equals_committed_in_a_random_history(mq: Session, broker: Broker, rng: random.Random) -> None:
    history = run_history(broker, rng, "t", steps=15)
    got = delivered(mq, "t")
    assert len(got) == len(set(got))
    assert set(got) == set(history.ids)
    assert not set(got) & history.gone
