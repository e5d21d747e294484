"""The consumers of a node: a handler whose connection is half-open ends, and its message is applied once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy import create_engine

import mqpg
from lab.chaos import consumer as node
from lab.chaos.names import C1, EFFECT, EVENTS, QUEUES
from lab.proxy import Proxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.chaos

EFFECTS = "select id from public.effect"


@pytest.fixture
def proxy(db: psycopg.Connection[Any]) -> Iterator[Proxy]:
    with closing(Proxy("127.0.0.1", db.info.port)) as made:
        yield made


def _applied(conn: psycopg.Connection[Any]) -> bool:
    conn.execute("select mqpg.append()")  # a retry is due only then
    return conn.execute(EFFECTS).fetchall() == [(7,)]


def test_every_consumer_has_a_time_out() -> None:
    assert {one.options.timeout for one in node.consumers(1, 1, create_engine("postgresql+psycopg://"))} == {20.0}


@pytest.mark.parametrize(("seconds", "before"), [(1.0, True), (None, False)], ids=["handler", "savepoint"])
def test_a_consumer_on_a_half_open_connection_continues_and_its_message_is_applied_once(
    dsn: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, seconds: float | None, before: bool
) -> None:
    with mqpg.connect(dsn) as mq, psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(EFFECT.encode())
        mq.create_topic(EVENTS[0], queues=QUEUES)
        mq.send(EVENTS[0], {"id": 7})
        mq.append()
    calls = 0
    apply = node.apply_here(1, C1, EVENTS[0])

    def handle(messages: Any, conn: Any) -> None:
        nonlocal calls
        calls += 1
        if not before:
            apply(messages, conn)
        if calls == 1:
            proxy.half_open()
        if before:
            apply(messages, conn)

    monkeypatch.setitem(node._SETTINGS, "timeout", seconds)
    c1 = mqpg.consumer(EVENTS[0], group=C1, journal=True, **node._SETTINGS)(handle)
    stop = threading.Event()
    with (
        mqpg.connect(make_conninfo(dsn, host="127.0.0.1", port=proxy.port), call_timeout=3.0) as mq,
        psycopg.connect(dsn, autocommit=True) as conn,
    ):
        running = threading.Thread(target=node._run, args=(c1, mq, stop))
        running.start()
        try:
            eventually(lambda: _applied(conn), timeout=60)
        finally:
            stop.set()
            running.join()
        assert calls > 1
        assert conn.execute(EFFECTS).fetchall() == [(7,)]
