"""How many round trips a call costs, counted by a proxy: a number is the same on every machine, while a time is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url, text

import mqpg
from lab.proxy import Proxy
from tests.support.proven import prove
from tests.support.proxied import proxied

_TIMES = 12  # what happens now and then, such as the marking of ledger rows, is in few of so many


@pytest.fixture
def between(dsn: str) -> Iterator[Proxy]:
    """A proxy before the server."""
    with proxied(dsn) as (found, _):
        yield found


@pytest.fixture
def shop(new_database: Callable[..., str]) -> str:
    """A database of the user's."""
    dsn = new_database(empty=True)
    with psycopg.connect(dsn) as conn:
        conn.execute("create table business (id int)")
    return dsn.replace("postgresql://", "postgresql+psycopg://", 1)


def through(between: Proxy, dsn: str) -> str:
    """The same database, reached through the proxy."""
    return make_url(dsn).set(port=between.port).render_as_string(hide_password=False)


def fewest(between: Proxy, work: Callable[[], Any]) -> int:
    """How many times a client sends something until the work is done. The first times it also prepares statements."""
    counts = []
    for _ in range(_TIMES):
        before = between.requests
        work()
        counts.append(between.requests - before)
    return min(counts)


def test_a_local_transaction_costs_a_round_trip_for_each_of_its_steps(
    dsn: str, orders: str, between: Proxy, shop: str
) -> None:
    with mqpg.connect(through(between, dsn)) as mq:
        producer = mqpg.TransactionalProducer(mq, group="shop", ledger=through(between, shop))
        producer.create_ledger()

        def work() -> None:
            with producer.transaction(orders, {"id": 7}) as tx:
                tx.execute(text("insert into business values (7)"))

        # prepare, BEGIN, ledger row, business row, COMMIT, commit
        assert fewest(between, work) == 6
        producer.close()


@pytest.mark.parametrize("uses_conn", [True, False])
def test_a_delivery_of_many_costs_as_much_as_one_of_one(
    dsn: str, mq: mqpg.Client, orders: str, between: Proxy, uses_conn: bool
) -> None:
    """BEGIN, receive, SAVEPOINT, RELEASE, ack, COMMIT; a session that a handler has used is reset, too."""

    @mqpg.consumer(orders, group="g", batch=True)
    def with_conn(messages: list[mqpg.Message], conn: psycopg.Connection[Any]) -> None:
        conn.execute("select 1")

    @mqpg.consumer(orders, group="g", batch=True)
    def without(messages: list[mqpg.Message]) -> None:
        pass

    handler = with_conn if uses_conn else without
    handled = []
    with mqpg.connect(through(between, dsn)) as client:
        handler.step(client)  # subscribes
        prove(handler)

        counts = []
        for _ in range(_TIMES):
            mq.send_batch(orders, [1] * 10)
            mq.append()
            before = between.requests
            handled.append(handler.step(client))
            counts.append(between.requests - before)
    assert handled == [10] * _TIMES
    assert min(counts) == (8 if uses_conn else 6)


def end_sessions(db: psycopg.Connection[Any], url: str) -> None:
    """End all sessions of a database, as a restart does, and return when they are gone."""
    db.execute(
        "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s", [make_url(url).database]
    )


def test_a_session_that_has_ended_meanwhile_is_not_used(
    mq: mqpg.Client, orders: str, db: psycopg.Connection[Any], shop: str
) -> None:
    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=shop)
    producer.create_ledger()
    for _ in range(3):
        with producer.transaction(orders, 1) as tx:
            tx.execute(text("insert into business values (7)"))
        end_sessions(db, shop)
    producer.close()
