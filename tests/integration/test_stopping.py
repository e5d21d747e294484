"""A consumer that has to end does not wait for a broker that is away."""

import asyncio
import signal
import threading
from typing import Any

import pytest

import mqpg
from tests.fixtures.databases import OwnServer
from tests.support.consuming import sent
from tests.support.waiting import eventually

_PATIENT = {"pool_timeout": 3600.0, "retry_timeout": 3600.0}
_SOON = 60  # of the hour that a call may wait


def test_a_consumer_ends_while_the_broker_is_away(own_server: OwnServer) -> None:
    stop = threading.Event()

    @mqpg.consumer("orders", group="billing", concurrency=2)
    def bill(message: mqpg.Message) -> None: ...

    with mqpg.connect(own_server.dsn, **_PATIENT) as mq:
        mq.create_topic("orders")
        mq.subscribe("billing", "orders")
        thread = threading.Thread(target=bill.run, args=(mq, stop), daemon=True)
        thread.start()
        message_id = sent(mq, "orders", 1)
        mq.wait_done(message_id, "billing")
        own_server.server.stop()
        stop.set()
        thread.join(_SOON)
        assert not thread.is_alive()


async def test_a_consumer_ends_while_the_broker_is_away_async(own_server: OwnServer) -> None:
    @mqpg.consumer("orders", group="billing", concurrency=2)
    async def bill(message: mqpg.Message) -> None: ...

    async with await mqpg.connect_async(own_server.dsn, **_PATIENT) as mq:
        await mq.create_topic("orders")
        await mq.subscribe("billing", "orders")
        stop = asyncio.Event()
        running = asyncio.create_task(bill.run(mq, stop))
        message_id = await mq.send("orders", 1)
        await mq.append()
        await mq.wait_done(message_id, "billing")
        await asyncio.to_thread(own_server.server.stop)
        stop.set()
        await asyncio.wait_for(running, _SOON)


def test_what_is_under_way_is_finished_though_the_pool_is_busy(mq: mqpg.Client, dsn: str) -> None:
    """Nothing is cut short where the broker answers and all connections are in use."""
    stop, entered = threading.Event(), threading.Event()

    @mqpg.consumer("orders", group="billing", effect="external", max_attempts=1)
    def bill(message: mqpg.Message) -> None:
        entered.set()
        assert released.wait(_SOON)
        with one.transaction() as conn:
            conn.execute("select 1")

    released = threading.Event()
    with mqpg.connect(dsn, pool_max_size=1) as one:
        one.create_topic("orders")
        one.subscribe("billing", "orders", max_attempts=1)
        message_id = sent(one, "orders", 1)
        thread = threading.Thread(target=bill.run, args=(one, stop), daemon=True)
        thread.start()
        assert entered.wait(_SOON)
        with one.transaction() as conn:
            conn.execute("select 1")
            stop.set()
            released.set()
            conn.execute("select pg_sleep(5)")  # longer than a slice of the wait for a connection
        thread.join(_SOON)
        assert not thread.is_alive()
        one.wait_done(message_id, "billing")
    assert mq.dead_letters("billing", "orders") == []


def test_a_signal_that_ends_run_ends_its_threads(mq: mqpg.Client) -> None:
    """Otherwise they consume on, and the process waits for them at its end."""
    mq.create_topic("orders")
    here, before = threading.main_thread().ident or 0, set(threading.enumerate())

    def workers() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one not in before and not one.daemon]

    def interrupt() -> None:
        eventually(lambda: len(workers()) == 3)
        signal.pthread_kill(here, signal.SIGUSR1)

    def raise_it(*_: Any) -> None:
        raise KeyboardInterrupt

    @mqpg.consumer("orders", group="billing", effect="external", concurrency=3)
    def bill(message: mqpg.Message) -> None: ...

    handled = signal.signal(signal.SIGUSR1, raise_it)
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            bill.run(mq, threading.Event())
    finally:
        signal.signal(signal.SIGUSR1, handled)
    eventually(lambda: workers() == [])
