"""The proxy: a COMMIT whose answer is lost has happened, and half-open stays silent."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lab.proxy import Proxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.chaos


def answered(conn: psycopg.Connection) -> bool:
    """Whether the answer is there. `get_result` would wait for it and stop the proxy, which is a thread."""
    conn.pgconn.consume_input()
    return not conn.pgconn.is_busy()


@pytest.fixture
def through(empty_dsn: str) -> Iterator[tuple[Proxy, str]]:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute("create table seen (id int)")
        made = Proxy("127.0.0.1", conn.info.port)
    yield made, make_conninfo(empty_dsn, host="127.0.0.1", port=made.port)
    made.close()


def test_a_commit_without_an_answer_has_happened(through: tuple[Proxy, str], empty_dsn: str) -> None:
    proxy, dsn = through
    with psycopg.connect(dsn) as conn:
        conn.execute("insert into seen values (1)")
        cutting = threading.Thread(target=proxy.cut, args=(5.0,), daemon=True)
        cutting.start()
        eventually(lambda: proxy._cut_until)
        with pytest.raises(psycopg.OperationalError):
            conn.commit()
    with psycopg.connect(empty_dsn) as conn:
        assert conn.execute("select id from seen").fetchall() == [(1,)]
    cutting.join()
    with psycopg.connect(dsn) as conn:  # the fault is over
        conn.execute("insert into seen values (2)")


def test_half_open_connections_are_silent_and_new_ones_work(through: tuple[Proxy, str]) -> None:
    proxy, dsn = through
    with closing(psycopg.connect(dsn, autocommit=True)) as old:
        proxy.half_open()
        time.sleep(0.5)
        old.pgconn.send_query(b"select 1")
        old.pgconn.flush()
        with psycopg.connect(dsn) as new:
            assert new.execute("select 1").fetchone() == (1,)
        assert not answered(old)


@pytest.fixture
def two_sides(empty_dsn: str) -> Iterator[tuple[Proxy, str, str]]:
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute("create table seen (id int)")
        made = Proxy("127.0.0.1", conn.info.port, ("near", "far"))
    near, far = (make_conninfo(empty_dsn, host="127.0.0.1", port=made.ports[name]) for name in ("near", "far"))
    yield made, near, far
    made.close()


def test_a_partition_holds_up_one_side_and_not_the_other(two_sides: tuple[Proxy, str, str]) -> None:
    proxy, near, far = two_sides
    with closing(psycopg.connect(far, autocommit=True)) as old:
        proxy.part(12.0, ["far"])
        time.sleep(0.5)
        old.pgconn.send_query(b"insert into seen values (1)")
        old.pgconn.flush()
        with pytest.raises(psycopg.OperationalError, match="timeout"):
            psycopg.connect(far, connect_timeout=2)
        with psycopg.connect(near) as other:
            assert other.execute("select count(*) from seen").fetchone() == (0,)
        assert not answered(old)
        eventually(lambda: answered(old))  # when the partition is over
    with psycopg.connect(far) as again:
        assert again.execute("select id from seen").fetchall() == [(1,)]
