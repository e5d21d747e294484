"""Waiting: the appender wakes consumers over one connection for each process, or they look at the
newest tick.
"""

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import mqpg
from mqpg import errors
from mqpg._sync.client import wakeup
from mqpg.connection import listener, notifications
from tests.fixtures.databases import OwnServer
from tests.support.consuming import running, sent
from tests.support.proxied import proxied
from tests.support.waiting import PATIENCE, eventually


@pytest.fixture
def topics(mq: mqpg.Client) -> list[str]:
    names = [f"t{n}" for n in range(4)]
    for name in names:
        mq.create_topic(name, queues=2)
        mq.subscribe("g", name)
    return names


class Sender:
    """Sends and appends after a while, in a thread."""

    def __init__(self, mq: mqpg.Client, topic: str, after: float) -> None:
        self.at = 0.0

        def work() -> None:
            time.sleep(after)
            mq.send(topic, 1)
            self.at = time.monotonic()
            mq.append()

        threading.Thread(target=work, daemon=True).start()


@pytest.mark.parametrize("listen", [True, False])
def test_receive_waits(dsn: str, topics: list[str], listen: bool) -> None:
    with mqpg.connect(dsn, listen=listen, poll_interval=0.2) as mq:
        began = time.monotonic()
        assert mq.receive("g", "t0", wait=0.3) == []
        assert 0.28 < time.monotonic() - began < 45

        def one_comes() -> None:
            sender = Sender(mq, "t0", 0.5)
            (message,) = mq.receive("g", "t0", wait=20)
            assert time.monotonic() - sender.at < 10
            mq.ack(message)

        for _ in range(2):
            one_comes()
        # a message that was found before its notification came lets it wait for another one
        eventually(lambda: mq._ticks().trusted == listen or one_comes())


def test_a_step_waits(mq: mqpg.Client, topics: list[str]) -> None:
    handled: list[object] = []
    consumer = mqpg.consumer("t0", group="g")(lambda message: handled.append(message.payload))
    assert consumer.step(mq, wait=0.1) == 0
    for times in (1, 2):
        Sender(mq, "t0", 0.3)
        assert consumer.step(mq, wait=PATIENCE) == 1
        assert handled == [1] * times
    with pytest.raises(errors.InvalidArgument, match="wait must be"):
        consumer.step(mq, wait=-1)


async def test_receive_waits_asynchronously(amq: mqpg.AsyncClient, topics: list[str]) -> None:
    waiting = [asyncio.create_task(amq.receive("g", name, wait=20)) for name in topics]
    await asyncio.sleep(0.5)
    for name in topics:
        await amq.send(name, name)
    await amq.append()
    assert [[m.payload for m in await task] for task in waiting] == [[name] for name in topics]


def test_a_transaction_cannot_wait(mq: mqpg.Client, topics: list[str]) -> None:
    with mq.transaction() as conn, pytest.raises(errors.InvalidArgument, match="wait and conn"):
        mq.receive("g", "t0", wait=1, conn=conn)


def test_one_listening_connection_a_process(
    mq: mqpg.Client, topics: list[str], dsn: str, db: psycopg.Connection[Any]
) -> None:
    """Consumers of several clients, sync and async, share the connection.

    It closes with the last of them.
    """

    def listeners() -> int:
        query = "select count(*) from pg_stat_activity where application_name = 'mqpg ticks' and datname = current_database()"
        row = db.execute(query).fetchone()
        return int(row[0]) if row else -1

    seen: list[str] = []
    consumers = [
        mqpg.consumer(name, group="g", effect="external")(lambda message: seen.append(message.topic)) for name in topics
    ]
    with (
        mqpg.connect(dsn) as other,
        running(consumers[0], mq),
        running(consumers[1], mq),
        running(consumers[2], other),
    ):
        for name in topics[:3]:
            mq.send(name, 1)
        mq.append()
        eventually(lambda: sorted(seen) == topics[:3])
        assert listeners() == 1
        assert mq._ticks() is other._ticks()
    mq.close()
    eventually(lambda: listeners() == 0)


def test_only_those_are_woken_whom_it_concerns(mq: mqpg.Client, topics: list[str]) -> None:
    watch, woken = mq._ticks(), []
    interests = [watch.add(name, lambda name=name: woken.append(name)) for name in topics]  # type: ignore[misc]
    eventually(lambda: watch._seen is not None)
    time.sleep(0.3)
    woken.clear()
    sent(mq, "t2", 1)
    eventually(lambda: "t2" in woken)
    time.sleep(0.3)
    assert set(woken) == {"t2"}
    for interest in interests:
        watch.remove(interest)


def test_what_a_dead_member_held_is_found_without_a_tick(mq: mqpg.Client, topics: list[str]) -> None:
    """No tick announces that a lease ended."""
    sent(mq, "t0", 1)
    began = time.monotonic()
    assert len(mq.receive("g", "t0", lease=1.5)) == 1
    (message,) = mq.receive("g", "t0", wait=20)
    assert message.attempt == 2
    assert 1.5 <= time.monotonic() - began < 20


@pytest.mark.parametrize("others", [0, 1])
def test_a_name_that_could_not_join_yet_is_not_forgotten(mq: mqpg.Client, topics: list[str], others: int) -> None:
    """No tick announces that a group is resumed, and no view shows a member that has not joined
    yet.
    """
    mq.subscribe("all", "t0", "broadcast")
    sent(mq, "t0", 1)
    for _ in range(others):
        (message,) = mq.receive("all", "t0", consumer="old", wait=20)
        mq.ack(message)
    mq.pause("t0", "all")
    threading.Timer(1.0, mq.resume, ("t0", "all")).start()
    began = time.monotonic()
    assert len(mq.receive("all", "t0", consumer="new", wait=25)) == 1
    assert time.monotonic() - began < 10


def test_a_seek_wakes_whoever_waits(dsn: str, topics: list[str]) -> None:
    """A seek makes no tick. While notifications are trusted, the next look finds it."""
    with mqpg.connect(dsn, listen=False, poll_interval=0.2) as mq:
        sent(mq, "t0", 1)
        (message,) = mq.receive("g", "t0")
        mq.ack(message)
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.extend(mq.receive("g", "t0", wait=40)))
        thread.start()
        time.sleep(1.5)
        assert found == []
        mq.seek("g", "t0", "earliest")
        thread.join(20)
        assert [message.payload for message in found] == [1]


def test_waiting_outlives_a_restart(own_server: OwnServer) -> None:
    with mqpg.connect(own_server.dsn, retry_timeout=20) as mq:
        mq.create_topic("t")
        mq.subscribe("g", "t")
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.extend(mq.receive("g", "t", wait=40)))
        thread.start()
        time.sleep(0.5)
        own_server.crash()
        time.sleep(0.5)
        sent(mq, "t", 1, dedup_id="one")
        thread.join(30)
        assert [message.payload for message in found] == [1]


def test_pauses_grow_only_while_wakes_bring_nothing(
    mq: mqpg.Client, topics: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look after a delivery often finds the next message before its notification comes.

    The message after that one must not wait for a long pause.
    """
    pauses: list[float] = []
    monkeypatch.setattr(wakeup, "sleep", pauses.append)
    # The clock stands still, because a pause is shorter by the time that has passed.
    monkeypatch.setattr(wakeup, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    with wakeup.TopicWaiter(mq, "t0") as waiter:

        def wake(times: int) -> list[float]:
            pauses.clear()
            for _ in range(times):
                waiter.wake()
                waiter.wait(seconds=20)
            return list(pauses)

        grown = wake(12)
        assert grown == sorted(grown)
        assert 0 < grown[0] <= 0.001
        assert 0.01 < grown[-1] <= 0.02
        waiter.succeeded(1)
        assert wake(1) == []
        assert wake(1)[0] <= 0.001


def test_lost_notifications_are_noticed(dsn: str, mq: mqpg.Client, topics: list[str]) -> None:
    """Notifications arrive and are trusted at first.

    Then they get lost, as behind a pooler in transaction mode. A tick without a notification shows it.
    """
    with proxied(dsn) as (proxy, through), mqpg.connect(through, poll_interval=0.1) as behind:
        eventually(lambda: (mq.send("t0", 1), mq.append(), behind.receive("g", "t0", wait=1))[2])
        watch = behind._ticks()
        interest = watch.add("t1", lambda: None)
        eventually(lambda: (mq.send("t1", 1), mq.append(), time.sleep(0.2), watch.trusted)[3])
        proxy.swallow_notifications = True
        sender = Sender(mq, "t2", 0.2)
        (message,) = behind.receive("g", "t2", wait=30)
        assert message.payload == 1
        assert time.monotonic() - sender.at < 20
        eventually(lambda: not watch.trusted)
        sender = Sender(mq, "t3", 0.2)
        behind.receive("g", "t3", wait=30)
        assert time.monotonic() - sender.at < 10
        watch.remove(interest)


def test_looks_that_are_faster_than_the_notification(
    dsn: str, mq: mqpg.Client, topics: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A notification that comes after its tick was seen proves, too, that notifications arrive."""
    late: list[str] = []
    notified, database = listener._notified, conninfo_to_dict(dsn)["dbname"]

    def one_look_late(conn: psycopg.Connection[Any], *args: Any) -> list[str]:
        if conn.info.dbname != database:  # a listener that another test has left
            return notified(conn, *args)
        if late:
            told, late[:] = list(late), []
            return told
        late.extend(notified(conn, *args))
        return []

    monkeypatch.setattr(listener, "_notified", one_look_late)
    with mqpg.connect(dsn, poll_interval=0.1) as behind:
        watch = behind._ticks()
        interest = watch.add("t0", lambda: None)
        eventually(lambda: watch._seen is not None)
        for _ in range(2):
            sent(mq, "t0", 1)
            eventually(lambda: watch.trusted and not late)
            time.sleep(notifications._LATE + 0.3)
            assert watch.trusted
        watch.remove(interest)
    assert "no longer arrive" not in caplog.text


def test_the_waiters_of_a_single_topic_are_woken_before_the_look(
    dsn: str, mq: mqpg.Client, topics: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notification is enough to wake them, once. After the look they would wait a round trip longer."""
    events: list[str] = []
    newest = listener.TickListener._newest

    def looking(this: listener.TickListener, conn: psycopg.Connection[Any]) -> tuple[int, int]:
        events.append("look")
        return newest(this, conn)

    def woken_first() -> bool:
        """False where the look was due just then."""
        events.clear()
        sent(mq, "t0", 1)
        eventually(lambda: {"wake", "look"} <= set(events))
        time.sleep(0.3)
        return events == ["wake", "look"]

    with mqpg.connect(dsn) as behind:
        watch = behind._ticks()
        interest = watch.add("t0", lambda: events.append("wake"))
        eventually(lambda: (mq.send("t0", 1), mq.append(), watch.trusted)[2])
        monkeypatch.setattr(listener.TickListener, "_newest", looking)
        eventually(woken_first)
        watch.remove(interest)
