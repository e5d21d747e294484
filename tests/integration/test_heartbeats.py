"""A handler keeps its lease whatever it does to its event loop and to its client's connections."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

import pytest

import mqpg
from mqpg.connection.forking import OfThisProcess
from mqpg.connection.pooled import BrokerConnection
from tests.support.consuming import sent
from tests.support.waiting import eventually

pytestmark = [pytest.mark.shared_database, pytest.mark.waits]

MODES: dict[str, dict[str, Any]] = {"C1 shared": {"mode": "shared"}, "C1": {}, "C3": {"effect": "external"}}


def require_held(mq: mqpg.Client, seconds: float) -> None:
    """Nobody else gets the message meanwhile."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert mq.receive("g", "orders") == []
        time.sleep(0.1)


@pytest.mark.parametrize("mode", MODES)
def test_a_handler_that_blocks_its_loop_keeps_its_lease(
    mq: mqpg.Client, dsn: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    mq.create_topic("orders", queues=1)
    mq.subscribe("g", "orders", MODES[mode].get("mode", "exclusive"), max_attempts=3)
    calls: list[int] = []

    async def handle(message: mqpg.Message) -> None:
        calls.append(message.attempt)
        time.sleep(6)

    consumer = mqpg.consumer("orders", group="g", lease=3, **MODES[mode])(handle)
    sent(mq, "orders", 1)

    async def run() -> None:
        async with await mqpg.connect_async(dsn, pool_max_size=2) as client:
            stop = asyncio.Event()
            running = asyncio.ensure_future(consumer.run(client, stop))
            while not calls:
                await asyncio.sleep(0.05)
            stop.set()
            await running

    with caplog.at_level(logging.WARNING, "mqpg"):
        thread = threading.Thread(target=lambda: asyncio.run(run()))
        thread.start()
        eventually(lambda: calls)
        require_held(mq, 4.5)
        thread.join(30)
    assert calls == [1]
    assert mq.receive("g", "orders") == []
    assert any("handler of g/orders blocks its event loop" in record.getMessage() for record in caplog.records)


def test_handlers_that_hold_all_connections_keep_their_leases(mq: mqpg.Client, dsn: str) -> None:
    mq.create_topic("orders", queues=1)
    calls: list[int] = []

    @mqpg.consumer("orders", group="g", lease=3, mode="shared")
    def handle(message: mqpg.Message, conn: Any) -> None:
        calls.append(message.attempt)
        time.sleep(5)

    with mqpg.connect(dsn, pool_max_size=1) as client:
        handle.step(client)
        sent(mq, "orders", 1)
        thread = threading.Thread(target=handle.step, args=(client,))
        thread.start()
        eventually(lambda: calls)
        require_held(mq, 4)
        thread.join(30)
    assert calls == [1]


@pytest.mark.parametrize("what", ["no thread", "no connection"])
def test_heartbeats_begin_again(mq: mqpg.Client, dsn: str, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """The process can have no thread for a moment, or connecting fails in a way that is none of the database's."""
    mq.create_topic("orders", queues=1)
    mq.subscribe("g", "orders", max_attempts=3)
    failed: list[str] = []
    start, connect = threading.Thread.start, BrokerConnection.connect

    def cannot_start(thread: threading.Thread) -> None:
        if thread.name == "mqpg-leases" and not failed:
            failed.append(what)
            raise RuntimeError("can't start new thread")
        start(thread)

    def cannot_connect(*args: Any, **kwargs: Any) -> BrokerConnection:
        if threading.current_thread().name == "mqpg-leases" and not failed:
            failed.append(what)
            raise OSError("too many open files")
        return connect(*args, **kwargs)

    monkeypatch.setattr("mqpg.connection.lease_extender._shared", OfThisProcess())
    if what == "no thread":
        monkeypatch.setattr(threading.Thread, "start", cannot_start)
    else:
        monkeypatch.setattr(BrokerConnection, "connect", cannot_connect)
    calls: list[int] = []

    @mqpg.consumer("orders", group="g", effect="external", lease=3)
    def handle(message: mqpg.Message) -> None:
        calls.append(message.attempt)
        require_held(mq, 4.5)

    sent(mq, "orders", 1)
    if what == "no thread":
        with pytest.raises(RuntimeError):
            handle.step(mq)
        eventually(lambda: handle.step(mq) == 1)
    else:
        assert handle.step(mq) == 1
    assert failed == [what]
    assert len(calls) == 1
    assert mq.receive("g", "orders") == []
