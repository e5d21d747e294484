"""Engines that a program brings along: with a single connection, and in autocommit mode."""

import threading
from typing import Any

import pytest
from sqlalchemy import QueuePool, create_engine, text

import mqpg
from mqpg import errors, protocols
from tests.support.consuming import drain, send

pytestmark = pytest.mark.shared_database


@pytest.fixture
def single(local_url: str) -> Any:
    """An engine that never has a second connection."""
    engine = create_engine(local_url, poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=2)
    yield engine
    engine.dispose()


def test_a_consumer_needs_one_connection(mq: mqpg.Client, topic: str, single: Any) -> None:
    seen: list[int] = []

    @mqpg.consumer(topic, group="g", database=single, consumer="one", journal=True)
    def handle(message: mqpg.Message, conn: Any) -> None:
        conn.execute(text("select 1"))
        seen.append(message.payload["id"])

    assert handle.step(mq) == 0
    send(mq, [1])
    drain(handle, mq)
    assert seen == [1]


def test_producers_and_inbox_need_one_connection(mq: mqpg.Client, topic: str, single: Any) -> None:
    mq.create_producer_group("shop")
    mq.create_producer_group("far", checker="url", checker_target="far")
    outbox = protocols.OutboxProducer(mq, group="shop", database=single)
    outbox.create_outbox()
    producer = mqpg.TransactionalProducer(mq, group="far", ledger=single, keep_messages=True)
    producer.create_ledger()
    inbox = protocols.Inbox(single, name="one")
    inbox.create_inbox()
    with outbox.transaction(topic, 1) as tx:
        pass
    assert tx.outcome is mqpg.Outcome.COMMITTED
    with producer.transaction(topic, 1) as tx:
        tx.add(topic, 2)
    assert tx.outcome is mqpg.Outcome.COMMITTED
    assert producer.recover() == 0


@pytest.mark.parametrize("where", ["engine", "option"])
def test_an_engine_in_autocommit_mode_buries_nothing(
    mq: mqpg.Client, topic: str, new_database: Any, where: str
) -> None:
    url = new_database(empty=True).replace("postgresql://", "postgresql+psycopg://", 1)
    engine = create_engine(url, isolation_level="AUTOCOMMIT") if where == "engine" else create_engine(url)
    given = engine if where == "engine" else engine.execution_options(isolation_level="AUTOCOMMIT")

    @mqpg.consumer(topic, group="g", database=given, consumer="one", max_attempts=1)
    def handle(message: mqpg.Message, conn: Any) -> None: ...

    handle.step(mq)
    send(mq, [1])
    with pytest.raises(errors.LedgerError, match="must not be in autocommit mode"):
        handle.run(mq, threading.Event())
    assert mq.dead_letters("g", topic) == []
    engine.dispose()
