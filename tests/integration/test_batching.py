"""Batching: calls that are made at the same time become one statement, and each has its own answer."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

import mqpg
from mqpg.errors import InvalidArgument, OutcomeUnknown, PayloadTooLarge, UnknownTopic
from mqpg.values.messages import Outcome
from tests.support.waiting import eventually


@pytest.fixture
def sync(dsn: str) -> Iterator[mqpg.Client]:
    with mqpg.connect(dsn) as mq:
        mq.create_topic("one", queues=1)
        mq.create_topic("two", queues=1)
        mq.create_producer_group("pg")
        mq.subscribe("g", "one")
        yield mq


@pytest.fixture
async def mq(dsn: str, sync: mqpg.Client) -> AsyncIterator[mqpg.AsyncClient]:
    async with await mqpg.connect_async(dsn) as client:
        yield client


class Gate:
    """Makes sends wait at a table lock until it is opened."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.conn = psycopg.connect(dsn, autocommit=False)
        self.conn.execute("lock table mqpg.topic in access exclusive mode")

    def waiting(self) -> list[int]:
        """The sessions that wait, by their process ids."""
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            rows = conn.execute("select pid from pg_stat_activity where wait_event_type = 'Lock'").fetchall()
        return [int(pid) for (pid,) in rows]

    def open(self) -> None:
        self.conn.rollback()
        self.conn.close()


async def until(condition: Any) -> None:
    while not await asyncio.to_thread(condition):
        await asyncio.sleep(0.01)


def rows_of(sync: mqpg.Client, topic: str = "one") -> list[tuple[int, Any]]:
    sync.append()
    found = []
    while delivery := sync.receive("g", topic, 1000):
        found += [(message.message_id, message.payload) for message in delivery]
        delivery.ack()
    return found


def batches(dsn: str) -> list[int]:
    with psycopg.connect(dsn) as conn:
        return [row[0] for row in conn.execute("select n from mqpg.commit_log order by batch_id")]


async def test_what_comes_while_a_send_is_under_way_is_one_batch_in_order(
    mq: mqpg.AsyncClient, sync: mqpg.Client, dsn: str
) -> None:
    gate = Gate(dsn)
    first = asyncio.create_task(mq.send("one", 0))
    await until(gate.waiting)
    rest = [asyncio.create_task(mq.send("one", n, key="k" if n % 2 else None, tag="t")) for n in range(1, 30)]
    await asyncio.sleep(0)
    assert len(gate.waiting()) == 1
    gate.open()
    ids = [await first, *await asyncio.gather(*rest)]
    assert sum(batches(dsn)) == 30
    assert len(batches(dsn)) == 3  # the first; those with and without a key
    assert sorted(rows_of(sync)) == sorted(zip(ids, range(30), strict=True))
    assert ids[1::2] == sorted(ids[1::2])


async def test_a_bad_neighbour_fails_alone(mq: mqpg.AsyncClient, sync: mqpg.Client, dsn: str) -> None:
    gate = Gate(dsn)
    first = asyncio.create_task(mq.send("one", 0))
    await until(gate.waiting)
    bad = {3: mqpg.Json("{"), 5: "x" * 2_000_000, 7: None, 9: "\ud800"}
    calls = [asyncio.create_task(mq.send("one", bad.get(n, n))) for n in range(1, 12)]
    gate_2 = asyncio.create_task(mq.send("nosuch", 1))
    await asyncio.sleep(0)
    gate.open()
    answers: list[Any] = [await first, *await asyncio.gather(*calls, return_exceptions=True)]
    with pytest.raises(UnknownTopic):
        await gate_2
    assert isinstance(answers[5], PayloadTooLarge)
    assert all(isinstance(answers[n], InvalidArgument) for n in bad)
    assert "payload" in str(answers[9])
    good = [n for n in range(12) if n not in bad]
    assert rows_of(sync) == [(answers[n], n) for n in good]


async def test_a_lost_connection_is_reported_to_each_and_nothing_is_sent_twice(
    mq: mqpg.AsyncClient, sync: mqpg.Client, dsn: str
) -> None:
    gate = Gate(dsn)
    first = asyncio.create_task(mq.send("one", 0))
    await until(gate.waiting)
    calls = [asyncio.create_task(mq.send("one", n)) for n in range(1, 8)]
    await asyncio.sleep(0)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("select pg_terminate_backend(%s)", gate.waiting()[:1])
        with pytest.raises(OutcomeUnknown):
            await first
        await until(gate.waiting)  # the batch behind it
        conn.execute("select pg_terminate_backend(%s)", gate.waiting()[:1])
    answers = await asyncio.gather(*calls, return_exceptions=True)
    gate.open()
    assert all(isinstance(answer, OutcomeUnknown) for answer in answers)
    assert len({id(answer) for answer in answers}) == 7
    assert await mq.send("one", "after")
    assert [payload for _, payload in rows_of(sync)] == ["after"]


async def test_prepares_survive_a_lost_connection_as_one_does(
    mq: mqpg.AsyncClient, sync: mqpg.Client, dsn: str
) -> None:
    gate = Gate(dsn)
    calls = [asyncio.create_task(mq.prepare("one", n, "pg")) for n in range(8)]
    await until(gate.waiting)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("select pg_terminate_backend(%s)", gate.waiting()[:1])
    await asyncio.sleep(0.1)
    gate.open()
    handles = await asyncio.gather(*calls)
    assert len(set(handles)) == 8
    outcomes = await asyncio.gather(*(mq.commit(handle) for handle in handles))
    assert set(outcomes) == {Outcome.COMMITTED}
    assert sorted(payload for _, payload in rows_of(sync)) == list(range(8))


@pytest.mark.parametrize("victim", [0, 1, 4])
async def test_a_cancelled_call_takes_no_neighbour_with_it(
    mq: mqpg.AsyncClient, sync: mqpg.Client, dsn: str, victim: int
) -> None:
    """The one that is under way, the first of the next batch, and one in its middle."""
    gate = Gate(dsn)
    calls = [asyncio.create_task(mq.send("one", 0))]
    await until(gate.waiting)
    calls += [asyncio.create_task(mq.send("one", n)) for n in range(1, 8)]
    await asyncio.sleep(0)
    calls[victim].cancel()
    with pytest.raises(asyncio.CancelledError):
        await calls[victim]
    gate.open()
    answers = [await call for n, call in enumerate(calls) if n != victim]
    assert rows_of(sync) == list(zip(answers, [n for n in range(8) if n != victim], strict=True))


async def test_a_call_that_is_cancelled_during_its_batch_takes_no_neighbour_with_it(
    mq: mqpg.AsyncClient, sync: mqpg.Client, dsn: str
) -> None:
    gate = Gate(dsn)
    calls = [asyncio.create_task(mq.send("one", 0))]
    await until(gate.waiting)
    calls += [asyncio.create_task(mq.send("one", n)) for n in range(1, 5)]
    await asyncio.sleep(0)
    with psycopg.connect(dsn, autocommit=True) as conn:  # the first fails, so the batch begins to wait
        conn.execute("select pg_cancel_backend(%s)", gate.waiting()[:1])
        with pytest.raises(mqpg.Error):
            await calls[0]
        await until(gate.waiting)
    calls[1].cancel()
    gate.open()
    answers = await asyncio.gather(*calls[2:])
    assert sorted(payload for _, payload in rows_of(sync)) == [1, 2, 3, 4]  # sent, only not reported
    assert len(set(answers)) == 3


async def test_decisions_and_who_was_first(mq: mqpg.AsyncClient, sync: mqpg.Client, dsn: str) -> None:
    handles = [await mq.prepare("one", n, "pg") for n in range(6)]
    assert await mq.rollback(handles[5]) is Outcome.ROLLED_BACK
    named = [handles[3], handles[0], handles[1], handles[0], handles[5], "nonsense", handles[2], handles[2]]
    outcomes = await asyncio.gather(*(mq.commit(handle) for handle in named))
    assert outcomes == [
        Outcome.COMMITTED, Outcome.COMMITTED, Outcome.COMMITTED, Outcome.ALREADY_COMMITTED,
        Outcome.ALREADY_ROLLED_BACK, Outcome.UNKNOWN, Outcome.COMMITTED, Outcome.ALREADY_COMMITTED,
    ]  # fmt: skip
    assert [payload for _, payload in rows_of(sync)] == [3, 0, 1, 2]
    refused = await asyncio.gather(mq.commit(None), mq.commit(handles[4]), return_exceptions=True)  # type: ignore[arg-type]
    assert isinstance(refused[0], InvalidArgument)
    assert refused[1] is Outcome.COMMITTED


async def test_a_decision_that_has_to_wait_holds_up_no_other(mq: mqpg.AsyncClient, sync: mqpg.Client, dsn: str) -> None:
    """Another transaction has decided the same half message and is still open."""
    handles = [await mq.prepare("one", n, "pg") for n in range(5)]
    with psycopg.connect(dsn) as conn:
        sync.rollback(handles[0], conn=conn)
        blocked = asyncio.create_task(mq.commit(handles[0]))
        others = [asyncio.create_task(mq.commit(handle)) for handle in handles[1:]]
        assert set(await asyncio.gather(*others)) == {Outcome.COMMITTED}
        assert not blocked.done()
        conn.rollback()
    assert await blocked is Outcome.COMMITTED


async def test_it_is_off_where_the_setting_says_so(dsn: str, sync: mqpg.Client) -> None:
    async with await mqpg.connect_async(dsn, batching=False) as mq:
        ids = await asyncio.gather(*(mq.send("one", n) for n in range(20)))
    assert len(set(ids)) == 20
    assert batches(dsn) == [1] * 20


async def test_linger_waits_for_others(dsn: str, sync: mqpg.Client) -> None:
    async with await mqpg.connect_async(dsn, linger=0.05) as mq:
        ids = await asyncio.gather(*(mq.send("one", n) for n in range(20)))
        assert batches(dsn) == [20]
        assert ids == sorted(ids)
        assert len(await asyncio.gather(*(mq.send("two", n) for n in range(3)), mq.send("one", 1))) == 4
    with pytest.raises(mqpg.ConfigurationError):
        await mqpg.connect_async(dsn, linger=-1)


async def test_one_task_keeps_its_order(mq: mqpg.AsyncClient, sync: mqpg.Client) -> None:
    async def work(task: int) -> None:
        for n in range(20):
            await mq.send("one", [task, n], key=str(task))

    await asyncio.gather(*(work(task) for task in range(8)))
    payloads = [payload for _, payload in rows_of(sync)]
    assert len(payloads) == 160
    for task in range(8):
        assert [n for one, n in payloads if one == task] == list(range(20))


def test_threads_that_share_a_client(sync: mqpg.Client, dsn: str) -> None:
    gate = Gate(dsn)
    answers: dict[Any, Any] = {}

    def work(n: Any) -> None:
        try:
            answers[n] = sync.send("one", n if n != 5 else mqpg.Json("{"))
        except mqpg.Error as error:
            answers[n] = error

    threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
    threads[0].start()
    eventually(gate.waiting)
    for thread in threads[1:]:
        thread.start()
    waiting_calls = sync._batcher._waiting
    eventually(lambda: [waiting for waiting in waiting_calls.values() if len(waiting) == 11])
    gate.open()
    for thread in threads:
        thread.join(30)
    assert isinstance(answers.pop(5), InvalidArgument)
    assert {n: message_id for message_id, n in rows_of(sync)} == answers
    assert len(answers) == 11
    assert not waiting_calls
    assert max(batches(dsn)) > 1


def test_threads_without_a_gate(dsn: str, sync: mqpg.Client) -> None:
    done: list[int] = []

    def work(thread: int) -> None:
        for n in range(50):
            handle = sync.prepare("one", [thread, n], "pg")
            assert sync.commit(handle) is Outcome.COMMITTED
            done.append(n)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(done) == 400
    assert len(rows_of(sync)) == 400
    assert not sync._batcher._waiting


def test_an_interrupted_thread_leaves_the_outcome_of_the_others_unknown(dsn: str, sync: mqpg.Client) -> None:
    """The one that makes the call for all is the main thread, which gets a KeyboardInterrupt."""
    answers: dict[int, Any] = {}

    def work(n: int) -> None:
        try:
            answers[n] = sync.send("one", n)
        except BaseException as error:
            answers[n] = error

    gate, waiting_calls = Gate(dsn), sync._batcher._waiting
    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    threads[0].start()
    eventually(gate.waiting)

    def queue() -> int:
        return max((len(waiting) for waiting in waiting_calls.values()), default=0)

    def interrupt() -> None:
        eventually(lambda: queue() == 1)  # the main thread
        for thread in threads[1:]:
            thread.start()
        eventually(lambda: queue() == 4)
        first = gate.waiting()[0]
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("select pg_cancel_backend(%s)", [first])
        eventually(lambda: queue() == 0 and gate.waiting() and len(answers) == 1)
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        sync.send("one", "main")
    for thread in (interrupter, *threads):
        thread.join(30)
    gate.open()
    assert isinstance(answers.pop(0), mqpg.Error)
    assert [type(answers[n]) for n in (1, 2, 3)] == [OutcomeUnknown] * 3
    assert len({id(error) for error in answers.values()}) == 3
    assert sync.send("one", "after")
