"""Every role may NOTIFY on the channel mqpg: junk neither ends a listener nor makes it loop, and no message is missed."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from mqpg.connection import listener, notifications
from mqpg.connection.settings import Settings
from tests.support.broker import Broker, Session
from tests.support.waiting import eventually

PAYLOADS = ["", "junk", "-1", "9" * 400, "x" * 7999, "\x01\x7f\u2028'\"\\", "1; drop table mqpg.tick", "NaN"]


@pytest.fixture
def mq(broker: Broker) -> Session:
    session = broker.session()
    session.call("create_topic", "t", queues=1)
    return session


class Watched:
    """A listener with a waiter for topic `t`, and how often it was woken, looked, and read notifications."""

    def __init__(self, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.woken = threading.Event()
        self.wakes = self.looks = self.opened = self.reads = 0
        self.listener = listener.TickListener(dsn, Settings())
        look, connect, notified = listener.TickListener._poll, listener._open, listener._notified

        def counted(this: listener.TickListener, *args: Any) -> bool:
            self.looks += this is self.listener
            return look(this, *args)

        def opening(address: str, settings: Settings) -> psycopg.Connection:
            # Listeners that other tests left in this process also connect.
            self.opened += address == dsn
            return connect(address, settings)

        def reading(*args: Any) -> list[str]:
            self.reads += 1
            return notified(*args)

        monkeypatch.setattr(listener.TickListener, "_poll", counted)
        monkeypatch.setattr(listener, "_notified", reading)
        monkeypatch.setattr(listener, "_open", opening)
        self.listener.add("t", self.wake)

    def wake(self) -> None:
        self.wakes += 1
        self.woken.set()


@pytest.fixture
def watched(mq: Session, dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    watched = Watched(dsn, monkeypatch)
    eventually(lambda: watched.looks > 0 and watched.woken.is_set())
    yield watched
    watched.listener.close()


def require_wake(mq: Session, watched: Watched, otherwise: str = "the listener missed a message") -> None:
    """Send a message, and wait until it wakes the waiter."""
    watched.woken.clear()
    mq.sent("t")
    assert watched.woken.wait(45), otherwise


def test_junk_neither_ends_a_listener_nor_hides_a_message(mq: Session, watched: Watched) -> None:
    for payload in PAYLOADS:
        mq.execute("select pg_notify('mqpg', %s)", payload)
    require_wake(mq, watched)
    assert watched.opened == 1, "the listener lost its connection"


@pytest.mark.parametrize("payload", ["0", "x"])
def test_one_notification_after_the_other_does_not_keep_a_listener_busy(
    mq: Session, watched: Watched, payload: str
) -> None:
    """The listener ignores old ticks, and pauses after junk, however slowly the notifications come."""
    before, read_before, began = watched.looks, watched.reads, time.monotonic()
    for _ in range(600):
        mq.execute("select pg_notify('mqpg', %s)", payload)
        mq.execute("select pg_sleep(0.002)")
    spent = time.monotonic() - began
    assert watched.looks - before <= 5 + 25 * spent
    assert watched.reads - read_before <= 20 + 30 * spent
    require_wake(mq, watched, "the listener missed a message behind the junk")


def test_old_ticks_do_not_delay_the_look_that_is_due(
    mq: Session, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who notifies of tick 0 more often than the listener looks by itself would hide a lost notification."""
    monkeypatch.setattr(notifications, "_SAFETY", 0.3)
    require_wake(mq, watched)
    eventually(lambda: watched.listener.trusted)
    before, began = watched.looks, time.monotonic()
    while time.monotonic() - began < 2:
        mq.execute("notify mqpg, '0'")
        mq.execute("select pg_sleep(0.02)")
    assert watched.looks - before >= 2


def test_a_flood_costs_a_bounded_number_of_looks(mq: Session, watched: Watched) -> None:
    """100,000 notifications: the listener looks at the broker a few times a second, not once for each."""
    flood = "select count(pg_notify('mqpg', i::text)) from generate_series(%s::int, %s::int) i"
    before, began = watched.looks, time.monotonic()
    for start in range(0, 100_000, 5_000):
        mq.execute(flood, start, start + 4_999)
    require_wake(mq, watched, "the listener missed a message behind the flood")
    spent = time.monotonic() - began
    assert watched.looks - before <= 20 + 30 * spent
    assert watched.opened == 1


def test_announced_ticks_that_do_not_exist_wake_a_waiter_once(mq: Session, watched: Watched) -> None:
    """A waiter is woken before the look, which would be an empty receive for each of them."""
    require_wake(mq, watched)
    eventually(lambda: watched.listener.trusted)
    before, looks = watched.wakes, watched.looks
    for number in range(20):
        mq.execute("select pg_notify('mqpg', %s)", str(10**9 + number))
        mq.execute("select pg_sleep(0.1)")
    eventually(lambda: watched.looks - looks >= 5)
    assert watched.wakes - before <= 1
    require_wake(mq, watched, "the listener missed a message behind ticks that do not exist")


def test_a_tick_that_was_announced_before_its_commit_still_wakes(
    mq: Session, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever announces the next tick wakes a waiter too early. It is committed before the look that follows."""
    require_wake(mq, watched)
    eventually(lambda: watched.listener.trusted)
    newest, forged, committed = listener.TickListener._newest, threading.Event(), threading.Event()

    def late(this: listener.TickListener, conn: psycopg.Connection[Any]) -> tuple[int, int]:
        if this is watched.listener and watched.woken.is_set() and not forged.is_set():
            forged.set()
            assert committed.wait(45)
        return newest(this, conn)

    eventually(lambda: (watched.woken.clear(), time.sleep(0.2), not watched.woken.is_set())[2])
    monkeypatch.setattr(listener.TickListener, "_newest", late)
    mq.execute("select pg_notify('mqpg', (max(tick_id) + 1)::text) from mqpg.tick")
    assert forged.wait(45)
    watched.woken.clear()  # The waiter receives nothing.
    mq.sent("t")
    committed.set()
    assert watched.woken.wait(45), "the notification of the tick woke nobody"
