"""Several brokers: a transaction takes one and stays with it; a broken one is left out, and told later.

Two servers of their own, stopped by immediate shutdown (what a power cut leaves) in the middle of things.
"""

import itertools
import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine

import mqpg
from mqpg import errors, protocols
from mqpg.embedded import EmbeddedServer
from tests.support.business import INSERT, business, delivered
from tests.support.servers import copied_broker
from tests.support.waiting import eventually

AT_ONCE = timedelta(0)
QUICK = {"pool_timeout": 2, "retry_timeout": 0.5, "connect_timeout": 3}


class Site:
    """A server with a broker on it."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        self.dsn = server.dsn("broker")
        with mqpg.connect(self.dsn) as mq:
            self.broker_id = mq.info().broker_id
            mq.create_topic("orders", queues=1)
            mq.create_producer_group("shop", check_after="20 ms")
            mq.subscribe("readers", "orders")

    def crash(self) -> None:
        self.server.stop("immediate")

    def start(self) -> None:
        self.server.start()

    def delivered(self) -> list[Any]:
        with mqpg.connect(self.dsn) as mq:
            return delivered(mq, "orders")

    def undecided(self) -> int:
        with psycopg.connect(self.dsn) as conn:
            return int(conn.execute("select count(*) from mqpg.half_pending").fetchall()[0][0])


@pytest.fixture(scope="module")
def servers(broker_files: EmbeddedServer) -> Iterator[list[Site]]:
    with ExitStack() as stack:
        yield [Site(stack.enter_context(copied_broker(broker_files))) for _ in range(2)]


@pytest.fixture
def sites(servers: list[Site]) -> Iterator[list[Site]]:
    """Two running brokers with nothing left in them."""
    yield servers
    for site in servers:
        if site.server.pid is None:
            site.start()
        with psycopg.connect(site.dsn, autocommit=True) as conn:
            for (handle,) in conn.execute("select handle from mqpg.half_pending").fetchall():
                conn.execute("select mqpg.rollback(%s)", (handle,))
        site.delivered()


@pytest.fixture
def brokers(sites: list[Site]) -> Iterator[protocols.Brokers]:
    with protocols.Brokers([site.dsn for site in sites], pause=0.2, longest_pause=0.5, **QUICK) as found:
        yield found


@pytest.fixture
def producer(brokers: protocols.Brokers, sqlite: Engine) -> mqpg.TransactionalProducer:
    producer = mqpg.TransactionalProducer(brokers, group="shop", ledger=sqlite)
    producer.create_ledger()
    return producer


def send(producer: mqpg.TransactionalProducer, number: int, key: str | None = None) -> Any:
    with producer.transaction("orders", number, key=key) as tx:
        tx.execute(INSERT, {"id": number})
    return tx


def test_they_take_turns_and_a_key_has_its_own(
    producer: mqpg.TransactionalProducer, sites: list[Site], sqlite: Engine
) -> None:
    for number in range(6):
        send(producer, number)
    assert [len(site.delivered()) for site in sites] == [3, 3]
    homes = {key: {send(producer, 100 + n + 10 * k, key).mq.dsn for n in range(4)} for k, key in enumerate("abcd")}
    assert all(len(home) == 1 for home in homes.values())
    assert len(set.union(*homes.values())) == 2
    assert len(business(sqlite)) == 22


def test_a_broken_broker_is_left_out_and_tried_again(
    producer: mqpg.TransactionalProducer,
    brokers: protocols.Brokers,
    sites: list[Site],
    caplog: pytest.LogCaptureFixture,
) -> None:
    send(producer, 1)
    send(producer, 2)
    sites[0].crash()
    with caplog.at_level(logging.WARNING, "mqpg"):
        for number in range(10, 16):
            assert send(producer, number).outcome is mqpg.Outcome.COMMITTED
    assert 1 <= caplog.text.count("is left alone for") <= 3  # not each time
    sites[0].start()
    numbers = itertools.count(20)
    eventually(lambda: send(producer, next(numbers)).handle.startswith(sites[0].broker_id))
    first, second = (site.delivered() for site in sites)
    assert len([number for number in first if number >= 20]) == 1
    assert sorted(first + second) == [1, 2, *range(10, 16), *range(20, next(numbers))]


def test_all_away(producer: mqpg.TransactionalProducer, sites: list[Site], sqlite: Engine) -> None:
    for site in sites:
        site.crash()
    with pytest.raises(errors.ConnectionFailed), producer.transaction("orders", 1) as tx:
        tx.execute(INSERT, {"id": 1})
    with pytest.raises(errors.ConnectionFailed):
        producer.recover(older_than=AT_ONCE)
    assert business(sqlite) == []


def test_a_crash_in_the_middle_of_many_producers(
    producer: mqpg.TransactionalProducer, sites: list[Site], sqlite: Engine
) -> None:
    """Whatever was committed locally is delivered once, at one broker; nothing else is."""
    stop = threading.Event()
    done: list[int] = []

    def produce(start: int) -> None:
        for number in range(start, start + 1000):
            if stop.is_set():
                return
            try:
                send(producer, number)
                done.append(number)
            except (errors.Error, Exception) as error:  # SQLite is busy, or all brokers are away for a moment
                logging.getLogger("test").info("%s", error)

    threads = [threading.Thread(target=produce, args=(start,)) for start in (1000, 3000)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(done) > 10)
    sites[0].crash()
    reached = len(done)
    eventually(lambda: len(done) > reached + 10)
    sites[0].start()
    reached = len(done)
    eventually(lambda: len(done) > reached + 10)
    sites[1].crash()
    eventually(lambda: len(done) > reached + 20)
    sites[1].start()
    stop.set()
    for thread in threads:
        thread.join(30)
    eventually(lambda: producer.recover(older_than=AT_ONCE) == 0 and not producer.ledger._open_rows())
    found = sites[0].delivered() + sites[1].delivered()
    assert sorted(found) == business(sqlite)


def test_post_takes_a_broker_that_answers(brokers: protocols.Brokers, sites: list[Site]) -> None:
    producer = protocols.PostProducer(brokers, group="shop", check=lambda half: "success")
    sites[1].crash()
    for number in range(4):
        assert producer.post("orders", number, lambda handle: "success").outcome is mqpg.Outcome.COMMITTED
    producer.post("orders", 4, lambda handle: "wait")
    eventually(lambda: producer.answer() == 1)
    sites[1].start()
    assert (sites[0].delivered(), sites[1].delivered()) == ([0, 1, 2, 3, 4], [])


def test_reconciliation_asks_each_handle_s_own_broker(
    producer: mqpg.TransactionalProducer, brokers: protocols.Brokers, sites: list[Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("mqpg._sync.producer.transactional.decide", lambda *_: None)
        handles = [send(producer, number).handle for number in range(4)]
    sites[0].crash()
    reconciler = protocols.Reconciler(brokers, producer.ledger, older_than=AT_ONCE)
    assert len(reconciler.step()) == 2
    sites[0].start()
    hits: list[protocols.Unsettled] = []

    def resumed() -> bool:
        hits.extend(reconciler.step())
        return bool(hits)

    eventually(resumed)
    assert len(hits) == 2
    assert {hit.handle for hit in hits} < set(handles)
    assert sorted(sites[0].delivered() + sites[1].delivered()) == [0, 1, 2, 3]


def test_looking_up_a_broker(brokers: protocols.Brokers, sites: list[Site]) -> None:
    assert brokers.of(f"{sites[1].broker_id}.1.1024.00").info().broker_id == sites[1].broker_id
    with pytest.raises(errors.UnknownHandle, match="none of these brokers"):
        brokers.of("x.1.1024.00")
    assert brokers.pick("some key").dsn == brokers.pick("some key").dsn
    sites[0].crash()
    with protocols.Brokers([site.dsn for site in sites], **QUICK) as fresh:
        assert fresh._by_id(sites[1].broker_id).info().broker_id == sites[1].broker_id
        with pytest.raises(errors.ConnectionFailed, match="may be one that does not answer"):
            fresh._by_id(sites[0].broker_id)


def test_arguments(sites: list[Site]) -> None:
    wrong: Any
    for wrong in ([], sites[0].dsn):
        with pytest.raises(errors.ConfigurationError, match="dsns"):
            protocols.Brokers(wrong)


async def test_async(sites: list[Site], sqlite: Engine) -> None:
    url = str(sqlite.url).replace("sqlite://", "sqlite+aiosqlite://")
    async with (
        protocols.AsyncBrokers([site.dsn for site in sites], **QUICK) as brokers,
        mqpg.AsyncTransactionalProducer(brokers, group="shop", ledger=url) as producer,
    ):
        await producer.create_ledger()
        for number in range(4):
            async with producer.transaction("orders", number) as tx:
                await tx.execute(INSERT, {"id": number})
                await tx.add("orders", number + 100)
            assert tx.outcome is mqpg.Outcome.COMMITTED
        async with protocols.AsyncReconciler(brokers, url, older_than=AT_ONCE) as reconciler:
            assert await reconciler.step() == []
    assert [len(site.delivered()) for site in sites] == [4, 4]
