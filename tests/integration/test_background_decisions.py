"""A transactional producer that does not wait for its decisions: many are sent in one call, and none is lost."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine

import mqpg
from tests.support.business import INSERT, business, business_at, delivered
from tests.support.killing import die_at, killed
from tests.support.waiting import eventually

pytestmark = pytest.mark.shared_database

NOW = timedelta(0)


@pytest.fixture
def shop(local_url: str) -> Iterator[Engine]:
    with business_at(local_url) as engine:
        yield engine


def background_producer(mq: mqpg.Client, shop: Engine) -> mqpg.TransactionalProducer:
    mq.subscribe("readers", "orders")
    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=shop, decide_in_background=True)
    producer.create_ledger()
    return producer


def send(producer: mqpg.TransactionalProducer, number: int) -> Any:
    with producer.transaction("orders", number, key="one") as tx:
        tx.execute(INSERT, {"id": number})
    return tx


def calls(db: psycopg.Connection[Any]) -> int:
    """How many calls made the decisions that there are."""
    row = db.execute("select count(distinct order_no) from mqpg.op_log where op = 'commit'").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.usefixtures("orders")
def test_decisions_are_sent_together_while_the_producer_continues(
    mq: mqpg.Client, shop: Engine, db: psycopg.Connection[Any], dsn: str
) -> None:
    producer = background_producer(mq, shop)
    with psycopg.connect(dsn) as other:
        with producer.transaction("orders", 0, key="one") as tx:
            tx.execute(INSERT, {"id": 0})
            other.execute("select mqpg.commit(%s)", [tx.handle])
        # The first call waits for the other session, and none of these waits for it.
        later = [send(producer, number) for number in range(1, 6)]
        assert [tx.outcome for tx in later] == [None] * 5
        assert business(shop) == [0, 1, 2, 3, 4, 5]
    producer.close()
    assert delivered(mq, "orders") == [0, 1, 2, 3, 4, 5]
    assert calls(db) <= 3  # the other session's, and the five in one call or two
    assert producer.ledger._open_rows() == []


def test_a_final_payload_is_decided_at_once_and_behind_earlier_messages(
    mq: mqpg.Client, orders: str, shop: Engine
) -> None:
    producer = background_producer(mq, shop)
    send(producer, 1)
    with producer.transaction(orders, 2, key="one") as tx:
        tx.commit_payload(3)
    assert tx.outcome is mqpg.Outcome.COMMITTED
    assert delivered(mq, orders) == [1, 3]
    producer.close()


def test_recovery_sends_what_the_broker_did_not_hear(
    mq: mqpg.Client, orders: str, shop: Engine, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    with mqpg.connect(dsn, retry_timeout=0.1) as other:
        producer = background_producer(other, shop)
        with producer.transaction(orders, 1) as tx:
            other.close()
        assert tx.outcome is None
        producer.close()
    assert "recovery sends the decisions" in caplog.text
    assert delivered(mq, orders) == []
    assert mqpg.TransactionalProducer(mq, group="shop", ledger=shop).recover(older_than=NOW) == 1
    assert delivered(mq, orders) == [1]


@pytest.mark.chaos
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_producer_that_is_killed_leaves_its_decision_to_the_check_back(
    mq: mqpg.Client, orders: str, shop: Engine, dsn: str, local_url: str, db: psycopg.Connection[Any], when: str
) -> None:
    mq.alter_producer_group("shop", check_after="10 ms", checker="url", checker_target="shop")
    mq.subscribe("readers", orders)
    ledger = mqpg.Ledger(shop)
    ledger.create()
    killed("tests.integration.test_background_decisions", dsn, local_url, when)
    assert business(shop) == [1]
    if when == "before":
        assert delivered(mq, orders) == []
        [half] = eventually(lambda: mq.due_checks("shop"))
        assert ledger.verdict(half.handle) is mqpg.Verdict.COMMIT
        mq.commit(half.handle)
    assert db.execute("select count(*) from mqpg.half_pending").fetchone() == (0,)
    assert delivered(mq, orders) == [1]


def main(dsn: str, local_url: str, when: str) -> None:
    die_at("mqpg._sync.producer.background:BackgroundDecisions._send", when)
    with mqpg.connect(dsn) as mq:
        producer = mqpg.TransactionalProducer(mq, group="shop", ledger=local_url, decide_in_background=True)
        send(producer, 1)
        producer.close()


async def test_an_asynchronous_producer_sends_all_before_it_is_closed(
    amq: mqpg.AsyncClient, mq: mqpg.Client, orders: str, new_database: Any, db: psycopg.Connection[Any]
) -> None:
    mq.subscribe("readers", orders)
    url = new_database(empty=True).replace("postgresql://", "postgresql+psycopg://", 1)
    producer = mqpg.AsyncTransactionalProducer(amq, group="shop", ledger=url, decide_in_background=True)
    await producer.create_ledger()

    async def one(number: int) -> None:
        async with producer.transaction(orders, number) as tx:
            await tx.add(orders, -number)
        assert tx.outcome is None

    await asyncio.gather(*(one(number) for number in range(1, 6)))
    await producer.close()
    assert sorted(delivered(mq, orders)) == [-5, -4, -3, -2, -1, 1, 2, 3, 4, 5]
    assert calls(db) <= 5


async def test_a_cancelled_caller_takes_no_decision_along(
    amq: mqpg.AsyncClient,
    mq: mqpg.Client,
    orders: str,
    new_database: Any,
    dsn: str,
    db: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mqpg._async.producer.background._LINGER", 60.0)
    monkeypatch.setattr("mqpg._async.producer.background._PATIENCE", 0.0)
    mq.subscribe("readers", orders)
    url = new_database(empty=True).replace("postgresql://", "postgresql+psycopg://", 1)
    producer = mqpg.AsyncTransactionalProducer(amq, group="shop", ledger=url, decide_in_background=True)
    await producer.create_ledger()

    async def final() -> None:
        async with producer.transaction(orders, 2) as tx:
            await tx.commit_payload(3)

    with psycopg.connect(dsn) as other:
        async with producer.transaction(orders, 1) as tx:
            other.execute("select mqpg.commit(%s)", [tx.handle])
        sending = asyncio.ensure_future(final())
        waits = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        while db.execute(waits).fetchone() is None:
            await asyncio.sleep(0.01)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        other.rollback()
    await producer.close()
    assert delivered(mq, orders) == [1]
