"""No call waits for ever, and none says "not done" of what may be done.

A commit whose answer is lost has an unknown outcome. A server that says nothing, because it is
stopped or because the connection is half open, ends a call after `call_timeout`.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import mqpg
from lab.proxy import Proxy, proxy
from mqpg import errors
from mqpg.workers.appender import Appender
from mqpg.workers.worker import Options
from tests.fixtures.databases import OwnServer
from tests.support.waiting import eventually
from tests.support.working import at_work

LIMIT = 2.0
# A call that is ended ends long before this. The machine may be slow.
SOON = 30.0


@pytest.fixture
def cut(dsn: str) -> Iterator[Proxy]:
    where = conninfo_to_dict(dsn)
    with proxy(str(where["host"]), int(str(where["port"]))) as running:
        yield running


@pytest.fixture
def through(cut: Proxy, dsn: str) -> str:
    return make_conninfo(dsn, host="127.0.0.1", port=cut.port, sslmode="disable", gssencmode="disable")


@pytest.fixture
def business(db: psycopg.Connection[Any]) -> Callable[[], list[int]]:
    """The table of the caller, and what is in it."""
    db.execute("create table business (id int)")
    return lambda: [row[0] for row in db.execute("select id from business")]


# a transaction whose commit has no answer


@pytest.mark.parametrize("forward", [True, False])
def test_a_transaction_whose_commit_has_no_answer(
    mq: mqpg.Client, cut: Proxy, through: str, orders: str, business: Callable[[], list[int]], forward: bool
) -> None:
    with mqpg.connect(through) as client:

        def commit() -> None:
            with client.transaction() as conn:
                conn.execute("insert into business values (1)")
                client.send(orders, 1, conn=conn)
                cut.cut_at(b"COMMIT", forward=forward)

        with pytest.raises(errors.OutcomeUnknown, match="lost during the commit"):
            commit()
        if forward:
            eventually(lambda: business() == [1])
        with client.transaction() as conn:  # the next one has a new connection
            conn.execute("insert into business values (2)")
    assert business() == ([1, 2] if forward else [2])
    assert cut.cuts == 1


async def test_an_asynchronous_transaction_whose_commit_has_no_answer(
    amq: mqpg.AsyncClient, cut: Proxy, through: str, business: Callable[[], list[int]]
) -> None:
    async with await mqpg.connect_async(through) as client:

        async def commit() -> None:
            async with client.transaction() as conn:
                await conn.execute("insert into business values (1)")
                cut.cut_at(b"COMMIT", forward=True)

        with pytest.raises(errors.OutcomeUnknown, match="lost during the commit"):
            await commit()
    eventually(lambda: business() == [1])


def test_a_backend_that_is_killed_while_it_commits(
    mq: mqpg.Client, db: psycopg.Connection[Any], business: Callable[[], list[int]]
) -> None:
    """A constraint that is checked at COMMIT ends its own backend."""
    db.execute("""
        create function die() returns trigger language plpgsql as
        $$ begin perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(10); return null; end $$;
        create constraint trigger die after insert on business deferrable initially deferred
        for each row execute function die()
    """)
    with pytest.raises(errors.OutcomeUnknown, match="lost during the commit"), mq.transaction() as conn:
        conn.execute("insert into business values (1)")
    assert business() == []


@pytest.mark.parametrize("caught", [False, True], ids=["raised", "caught"])
def test_a_backend_that_is_killed_before_the_commit(
    mq: mqpg.Client, business: Callable[[], list[int]], caught: bool
) -> None:
    """If the block catches the loss, the caller would otherwise believe in a commit that never was."""

    def die() -> None:
        with mq.transaction() as conn:
            conn.execute("insert into business values (1)")
            with suppress(*[psycopg.OperationalError] * caught):
                conn.execute("select pg_terminate_backend(pg_backend_pid()), pg_sleep(10)")

    with pytest.raises(errors.ConnectionFailed, match="lost before the commit" if caught else None) as raised:
        die()
    assert not isinstance(raised.value, errors.OutcomeUnknown)
    assert business() == []


def test_a_refused_commit_is_no_unknown_outcome(mq: mqpg.Client, db: psycopg.Connection[Any]) -> None:
    db.execute("create table once (id int unique deferrable initially deferred)")
    with pytest.raises(psycopg.errors.UniqueViolation), mq.transaction() as conn:
        conn.execute("insert into once values (1), (1)")


# single calls


def test_a_read_without_an_answer_has_no_unknown_outcome(cut: Proxy, through: str, orders: str) -> None:
    with mqpg.connect(through, retry_timeout=0, pool_timeout=5) as client:
        client.find_by_key(orders, "k")
        cut.cut_at(b"find_by_key", forward=True, stay_down=True)
        with pytest.raises(errors.ConnectionFailed) as caught:
            client.find_by_key(orders, "k")
    assert not isinstance(caught.value, errors.OutcomeUnknown)


# a server that says nothing


def ends(call: Callable[[], object]) -> errors.ConnectionFailed:
    """The error of a call that has to end. In a thread, because it would otherwise never fail the test."""
    caught: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SOON)
    assert not thread.is_alive(), "the call still waits"
    assert isinstance(caught[0], errors.ConnectionFailed), caught
    return caught[0]


def test_calls_on_a_half_open_connection_end(cut: Proxy, through: str, orders: str) -> None:
    with mqpg.connect(through, call_timeout=LIMIT, retry_timeout=0, pool_timeout=5, connect_timeout=5) as client:
        client.append()
        cut.silent = True
        error = ends(lambda: client.send(orders, 1))
        assert isinstance(error, errors.OutcomeUnknown)
        assert "did not answer within 2 s" in str(error)
        cut.silent = False
        assert client.send(orders, 2) > 0  # the pool has replaced the connection
        cut.silent = True
        assert not isinstance(ends(lambda: client.find_by_key(orders, "k")), errors.OutcomeUnknown)


def test_a_commit_on_a_half_open_connection_ends(cut: Proxy, through: str, business: Callable[[], list[int]]) -> None:
    with mqpg.connect(through, call_timeout=LIMIT, pool_timeout=5, connect_timeout=5) as client:

        def commit() -> None:
            with client.transaction() as conn:
                conn.execute("insert into business values (1)")
                cut.silent = True

        assert isinstance(ends(commit), errors.OutcomeUnknown)
    assert business() == []


async def test_an_asynchronous_call_on_a_half_open_connection_ends(cut: Proxy, through: str, orders: str) -> None:
    settings = {"call_timeout": LIMIT, "retry_timeout": 0, "pool_timeout": 5, "connect_timeout": 5}
    async with await mqpg.connect_async(through, **settings) as client:
        await client.append()
        cut.silent = True
        with pytest.raises(errors.OutcomeUnknown, match=r"did not answer within 2 s"):
            await client.send(orders, 1)
        cut.silent = False
        assert await client.send(orders, 2) > 0


def test_connecting_to_a_server_that_says_nothing_ends(cut: Proxy, through: str) -> None:
    cut.silent = True
    ends(lambda: mqpg.connect(through, connect_timeout=2))


def test_a_statement_of_the_caller_may_take_longer(dsn: str, orders: str) -> None:
    """Neither a slow handler nor its slow statement is ended."""
    with mqpg.connect(dsn, call_timeout=LIMIT) as client, client.transaction() as conn:
        client.send(orders, 1, conn=conn)
        conn.execute("select pg_sleep(%s)", [2 * LIMIT])
        client.send(orders, 2, conn=conn)


def test_a_call_in_a_transaction_ends(cut: Proxy, through: str, orders: str) -> None:
    with mqpg.connect(through, call_timeout=LIMIT, pool_timeout=5, connect_timeout=5) as client:

        def send() -> None:
            with client.transaction() as conn:
                client.send(orders, 1, conn=conn)
                cut.silent = True
                client.send(orders, 2, conn=conn)

        assert not isinstance(ends(send), errors.OutcomeUnknown)  # COMMIT was never sent


def test_waiting_for_messages_is_not_ended(dsn: str, orders: str) -> None:
    with mqpg.connect(dsn, call_timeout=LIMIT) as client:
        client.subscribe("g", orders)
        began = time.monotonic()
        assert not client.receive("g", orders, wait=2 * LIMIT)
        assert time.monotonic() - began >= 2 * LIMIT


def test_a_call_that_works_through_everything_may_take_ten_times_as_long(
    dsn: str, orders: str, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """`append` waits for the one that appends now, and `send` does not."""
    other = connect(autocommit=False)
    other.execute("lock table mqpg.tick in access exclusive mode")
    timer = threading.Timer(2 * LIMIT, other.rollback)
    with mqpg.connect(dsn, call_timeout=LIMIT) as client:
        client.send(orders, 1)
        timer.start()
        assert client.append() == 1
    timer.join()


# a server that is stopped


def test_calls_on_a_stopped_server_end(own_server: OwnServer) -> None:
    """The kernel still acknowledges what the stopped processes never read."""
    settings = {"call_timeout": LIMIT, "retry_timeout": 0, "pool_timeout": 5, "connect_timeout": 5}
    with mqpg.connect(own_server.dsn, **settings) as client:
        client.create_topic("orders")
        with client.transaction() as conn:
            backend = conn.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        try:
            assert isinstance(ends(lambda: client.send("orders", 1)), errors.OutcomeUnknown)
        finally:
            os.kill(backend, signal.SIGCONT)
        assert client.send("orders", 2) > 0


def test_a_worker_whose_backend_is_stopped_reconnects(own_server: OwnServer) -> None:
    options = Options(own_server.dsn, heartbeat=0.2, standby_poll=0.1, call_timeout=LIMIT)
    with at_work(Appender, options) as worker, mqpg.connect(own_server.dsn) as client:
        client.create_topic("orders")
        client.subscribe("g", "orders")
        first = eventually(lambda: _leader(client))
        os.kill(first, signal.SIGSTOP)
        try:
            eventually(lambda: worker.detail["failures"] >= 1)
            assert "did not answer within 2 s" in worker.detail["last_error"]
        finally:
            os.kill(first, signal.SIGCONT)
        eventually(lambda: _leader(client) not in (None, first))
        client.send("orders", 1)
        eventually(lambda: len(client.receive("g", "orders")) == 1)


def _leader(client: mqpg.Client) -> int | None:
    with client.transaction() as conn:
        row = conn.execute(
            "select l.pid from pg_locks l join pg_stat_activity a using (pid)"
            " where l.locktype = 'advisory' and l.granted and a.application_name = 'mqpg appender'"
        ).fetchone()
    return row[0] if row else None
