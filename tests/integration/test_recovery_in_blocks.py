"""A producer runs recovery by itself for as long as its block lasts."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

import mqpg
from mqpg import errors, protocols
from mqpg._async.producer import loop as async_loop
from mqpg._sync.producer import loop
from tests.support.waiting import eventually

pytestmark = pytest.mark.shared_database

AGED = "2020-01-01 00:00:00"
NAME = "mqpg-recovery"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch, recovery_by_hand: None) -> None:
    for module in (async_loop, loop):
        monkeypatch.setattr(module, "_PAUSE", 0.1)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'shop.db'}"


def left_by_a_crash(mq: mqpg.Client, url: str, orders: str) -> str:
    """A committed ledger row whose decision was never sent. Returns its handle."""
    handle = mq.prepare(orders, 1, "shop")
    with mqpg.Ledger(url) as ledger:
        ledger.create()
        with ledger.database.engine.begin() as conn:
            ledger.begin(conn, handle, orders)
            conn.execute(
                text("update mqpg_ledger set created_at = :at where handle = :one"), {"at": AGED, "one": handle}
            )
    return handle


def is_done(url: str, handle: str) -> bool:
    engine = create_engine(url)
    with engine.connect() as conn:
        found = conn.execute(text("select done_at is not null from mqpg_ledger where handle = :one"), {"one": handle})
        done = bool(found.scalar())
    engine.dispose()
    return done


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == NAME]


def test_in_a_block(mq: mqpg.Client, url: str, orders: str) -> None:
    first = left_by_a_crash(mq, url, orders)
    with mqpg.TransactionalProducer(mq, group="shop", ledger=url):
        eventually(lambda: is_done(url, first))
        assert mq.commit(first) is mqpg.Outcome.ALREADY_COMMITTED
        assert len(threads()) == 1
    assert threads() == []
    second = left_by_a_crash(mq, url, orders)
    time.sleep(0.5)
    assert not is_done(url, second)


async def test_in_an_asynchronous_block(amq: mqpg.AsyncClient, mq: mqpg.Client, url: str, orders: str) -> None:
    handle = left_by_a_crash(mq, url, orders)
    asynchronous = url.replace("sqlite", "sqlite+aiosqlite")
    async with mqpg.AsyncTransactionalProducer(amq, group="shop", ledger=asynchronous):
        assert [one for one in asyncio.all_tasks() if "_recover_until" in repr(one)] != []
        async with asyncio.timeout(45):
            while not is_done(url, handle):
                await asyncio.sleep(0.05)
    assert [one for one in asyncio.all_tasks() if "_recover_until" in repr(one)] == []


def test_an_outbox_in_a_block(mq: mqpg.Client, url: str, orders: str) -> None:
    mq.subscribe("g", orders)
    with protocols.OutboxProducer(mq, database=url) as producer:
        producer.create_outbox()
        with producer.outbox.database.engine.begin() as conn:
            producer.send(orders, {"id": 1}, conn=conn)
            conn.execute(text("update mqpg_outbox set created_at = :at"), {"at": AGED})
        eventually(lambda: mq.append() > 0)
    assert [one.payload for one in mq.receive("g", orders)] == [{"id": 1}]


def test_an_error_in_the_block_is_raised(mq: mqpg.Client, url: str, orders: str) -> None:
    with pytest.raises(ZeroDivisionError), mqpg.TransactionalProducer(mq, group="shop", ledger=url):
        raise ZeroDivisionError
    assert threads() == []


def test_failures_of_recovery_are_logged_and_end_nothing(
    mq: mqpg.Client, url: str, orders: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=url)
    failed = threading.Event()

    def fail(*_: Any) -> None:
        failed.set()
        raise errors.ConnectionFailed("away")

    monkeypatch.setattr(producer.brokers, "_each", fail)
    producer.create_ledger()
    with producer:
        assert failed.wait(45)
        with producer.transaction(orders, 2) as tx:
            pass
        assert tx.outcome is mqpg.Outcome.COMMITTED
    assert "recovery of producer group shop failed and is tried again: away" in caplog.text


def test_the_end_of_a_block_does_not_wait_for_a_broker_that_is_away(
    dsn: str, url: str, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = threading.Event()

    with mqpg.connect(dsn, retry_timeout=60) as mq:
        producer = mqpg.TransactionalProducer(mq, group="shop", ledger=url)
        producer.create_ledger()

        def away(*_: Any, **__: Any) -> None:
            began.set()
            raise errors.ConnectionFailed("away")

        with producer:
            monkeypatch.setattr(mq._pool, "getconn", away)
            assert began.wait(45)
            ended = time.monotonic()
        assert time.monotonic() - ended < 30


def test_an_error_that_nobody_expected_does_not_end_recovery(
    mq: mqpg.Client, url: str, orders: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mq.subscribe("g", orders)
    producer = protocols.OutboxProducer(mq, database=url)
    producer.create_outbox()
    look, failed = producer.outbox.open_rows, threading.Event()

    def fail_once(*args: Any) -> Any:
        if not failed.is_set():
            failed.set()
            raise ZeroDivisionError
        return look(*args)

    monkeypatch.setattr(producer.outbox, "open_rows", fail_once)
    with producer.outbox.database.engine.begin() as conn:
        producer.send(orders, {"id": 1}, conn=conn)
        conn.execute(text("update mqpg_outbox set created_at = :at"), {"at": AGED})
    with producer:
        eventually(lambda: mq.append() > 0)
    assert failed.is_set()
    assert "recovery of the outbox failed and is tried again" in caplog.text
