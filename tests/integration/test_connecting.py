"""Connecting and staying connected with servers that do not answer, other schemas, restarts and
lost answers.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import mqpg
from mqpg import errors
from tests.fixtures.databases import OwnServer
from tests.support.consuming import is_acknowledged, running
from tests.support.proxied import proxied
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("dsn", "complaint"),
    [
        ("postgresql://u:secret@127.0.0.1:1/db", r"^cannot connect to host=127\.0\.0\.1 port=1 dbname=db: .*refused"),
        ("postgresql+psycopg://u:secret@no.such.host.invalid/db", r"^cannot connect to host=no\.such\.host\.invalid"),
    ],
)
def test_a_dsn_that_does_not_answer(dsn: str, complaint: str) -> None:
    with pytest.raises(errors.ConnectionFailed, match=complaint) as caught:
        mqpg.connect(dsn, connect_timeout=2)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_database_that_is_not_there(dsn: str) -> None:
    with pytest.raises(errors.ConnectionFailed, match='database "nowhere" does not exist'):
        mqpg.connect(make_conninfo(dsn, dbname="nowhere"))


def test_schema_missing_too_new_too_old(empty_dsn: str, dsn: str, db: psycopg.Connection[Any]) -> None:
    with pytest.raises(errors.SchemaMissing, match="run mqpg migrate"):
        mqpg.connect(empty_dsn)
    db.execute(
        "update mqpg.alembic_version set version_num = '9999_mqpg'; update mqpg.installation set breaking = 9999"
    )
    with pytest.raises(errors.SchemaTooNew, match="upgrade mqpg"):
        mqpg.connect(dsn)


def test_another_major_release(dsn: str, db: psycopg.Connection[Any]) -> None:
    db.execute("update mqpg.installation set release = '1.0.0'")
    with pytest.raises(errors.SchemaTooNew, match="more than one minor release apart"):
        mqpg.connect(dsn)


def test_a_closed_client_says_so(dsn: str) -> None:
    mq = mqpg.connect(dsn)
    mq.close()
    with pytest.raises(errors.ConnectionFailed, match="this client is closed"):
        mq.send("orders", 1)


def test_what_keeps_the_pool_from_connecting_again_is_said(dsn: str, orders: str, connect: Callable[..., Any]) -> None:
    admin = connect(dbname="postgres")
    name = conninfo_to_dict(dsn)["dbname"]
    with mqpg.connect(dsn, pool_timeout=1) as mq:
        mq.send(orders, 1)
        admin.execute(f"alter database {name} allow_connections false")
        try:
            admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
            with suppress(errors.OutcomeUnknown, errors.ConnectionFailed):  # where the pool has noticed the end already
                mq.send(orders, 2)
            with pytest.raises(errors.ConnectionFailed, match="is not currently accepting connections"):
                mq.send(orders, 3)
        finally:
            admin.execute(f"alter database {name} allow_connections true")


def test_a_broker_without_a_keeper_for_so_long_that_no_partition_is_left(
    mq: mqpg.Client, db: psycopg.Connection[Any], orders: str
) -> None:
    db.execute("select setval('mqpg.batch_id', max(upper_bound::bigint)) from mqpg.segment where family = 'log'")
    with pytest.raises(errors.DatabaseError, match=r"no partition.*start mqpg worker"):
        mq.send(orders, 1)
    mq.keep()
    assert mq.send(orders, 1) > 0


def test_an_exhausted_pool_says_so(dsn: str) -> None:
    with (
        mqpg.connect(dsn, pool_max_size=1, pool_timeout=2) as mq,
        mq.transaction(),
        mq.transaction(),  # has the one that is spare
        pytest.raises(errors.ConnectionFailed, match="within 2 s: all connections of this client are in use"),
    ):
        mq.append()


@pytest.mark.parametrize("forward", [True, False])
def test_a_send_whose_answer_is_lost_is_not_repeated(mq: mqpg.Client, dsn: str, orders: str, forward: bool) -> None:
    with proxied(dsn) as (cut, through), mqpg.connect(through) as client:
        client.append()
        cut.cut_at(b"mqpg.send", forward=forward)
        with pytest.raises(errors.OutcomeUnknown, match=r"outcome unknown, connection to .* lost"):
            client.send(orders, 1)
        assert client.send(orders, 2) > 0  # the next call has a new connection
    assert cut.cuts == 1
    _append_until(mq, 2 if forward else 1)


@pytest.mark.parametrize("forward", [True, False])
def test_calls_that_may_be_repeated_are(mq: mqpg.Client, dsn: str, orders: str, forward: bool) -> None:
    mq.subscribe("g", orders)
    with proxied(dsn) as (cut, through), mqpg.connect(through) as client:
        cut.cut_at(b"mqpg.send", forward=forward)
        client.send(orders, 1, dedup_id="once")
        cut.cut_at(b"mqpg.prepare", forward=forward)
        handle = client.prepare(orders, 2, "shop")
        cut.cut_at(b"mqpg.commit", forward=forward)
        # Where the first one arrived, it and the repetition may overtake each other.
        assert client.commit(handle) in (mqpg.Outcome.COMMITTED, mqpg.Outcome.ALREADY_COMMITTED)
        _append_until(mq, 2)
        while messages := client.receive("g", orders):
            cut.cut_at(b"mqpg.ack", forward=forward)
            messages.ack()
    assert cut.cuts >= 4


def _append_until(mq: mqpg.Client, wanted: int) -> None:
    """The statement that was forwarded may still be running."""
    found = 0
    while found < wanted:
        found += mq.append()
    assert found == wanted


@pytest.mark.chaos
def test_client_producer_and_consumers_survive_a_restart(own_server: OwnServer, tmp_path: Any) -> None:
    """The server shuts down immediately while messages flow.

    Each message is applied once, and idle connections cause no error.
    """
    url = f"sqlite:///{tmp_path / 'reader.db'}"
    with mqpg.connect(own_server.dsn) as mq:
        mq.create_topic("orders", queues=2)
        for number in range(20):
            mq.send("orders", number)

        @mqpg.consumer("orders", group="here")
        def here(message: mqpg.Message, conn: Any) -> None:
            conn.execute("insert into seen values (%s)", [message.payload])

        @mqpg.consumer("orders", group="there", database=url, consumer="one")
        def there(message: mqpg.Message, conn: Any) -> None:
            conn.exec_driver_sql("create table if not exists seen (id int)")
            conn.exec_driver_sql("insert into seen values (?)", (message.payload,))

        with mq.transaction() as conn:
            conn.execute("create table seen (id int)")

        def applied() -> list[int]:
            mq.append()  # a message whose session ended has failed, and comes again
            with mq.transaction() as conn:
                return [row[0] for row in conn.execute("select id from seen order by id")]

        with running(here, mq), running(there, mq):
            mq.append()
            for round_ in (1, 2):
                own_server.crash()
                mq.append()
                for number in range(20 * round_, 20 * round_ + 20):
                    mq.send("orders", number)
                mq.append()
            eventually(lambda: applied() == list(range(60)), interval=0.2)
            eventually(lambda: is_acknowledged(mq, "here") and is_acknowledged(mq, "there"), interval=0.2)
        with there._site._database.engine.connect() as local:  # type: ignore[union-attr]
            seen = [row[0] for row in local.exec_driver_sql("select id from seen")]
        there.close()
    assert sorted(seen) == list(range(60))
