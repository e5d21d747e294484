"""Engines that a program brings along: with a single connection, and in autocommit mode."""

import threading
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import QueuePool, create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

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


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg", "sqlite"])
@pytest.mark.parametrize("kind", ["ledger", "outbox"])
async def test_a_producer_with_an_engine_in_autocommit_mode_sends_nothing(
    amq: mqpg.AsyncClient, mq: mqpg.Client, topic: str, new_database: Any, tmp_path: Path, driver: str, kind: str
) -> None:
    """Its row would be committed at once, and recovery would send what has no business."""
    url = f"sqlite+aiosqlite:///{tmp_path / 'local.db'}"
    if driver != "sqlite":
        url = new_database(empty=True).replace("postgresql://", f"postgresql+{driver}://", 1)
    engine = create_async_engine(url, isolation_level="AUTOCOMMIT")
    options: dict[str, Any] = {"checker": "url", "checker_target": "shop"} if kind == "ledger" else {}
    mq.create_producer_group("shop", **options)
    mq.subscribe("g", topic)
    producer: Any = mqpg.AsyncTransactionalProducer(amq, group="shop", ledger=engine)
    if kind == "outbox":
        producer = protocols.AsyncOutboxProducer(amq, group="shop", database=engine)
    await (producer.create_outbox() if kind == "outbox" else producer.create_ledger())
    with pytest.raises(errors.LedgerError, match="must not be in autocommit mode"):
        async with producer.transaction(topic, 1):
            pass
    async with engine.connect() as conn:
        left = f"mqpg_{kind} where handle <> 'identity'" if kind == "ledger" else "mqpg_outbox where state = 'commit'"
        assert (await conn.execute(text(f"select count(*) from {left}"))).scalar_one() == 0
    await engine.dispose()
