"""Through PgBouncer in transaction mode: what works there, and what says that it needs a session."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import mqpg
from mqpg import errors
from tests.fixtures.pgbouncer import Pooler

pytestmark = pytest.mark.pgbouncer


@pytest.fixture
def through(pooler: Pooler, db: psycopg.Connection[Any]) -> Iterator[mqpg.Client]:
    """A client behind the pooler, with the setting that the documentation names."""
    with mqpg.connect(pooler.dsn(), prepare_threshold=None, poll_interval=0.1) as mq:
        mq.create_topic("t", queues=2)
        mq.subscribe("g", "t")
        mq.create_producer_group("shop", checker="ledger")
        yield mq


def test_send_and_receive(through: mqpg.Client) -> None:
    for n in range(20):
        through.send("t", n, key="k")
    through.append()
    messages = through.receive("g", "t")
    assert [message.payload for message in messages] == list(range(20))
    through.ack(messages)
    assert through.receive("g", "t") == []


def test_half_messages_and_a_local_transaction(through: mqpg.Client) -> None:
    kept = through.prepare("t", "kept", producer_group="shop")
    gone = through.prepare("t", "gone", producer_group="shop")
    assert through.commit(kept) == "committed"
    assert through.rollback(gone) == "rolled_back"
    with through.transaction() as conn:
        through.send("t", "sent", conn=conn)
    with contextlib.suppress(ZeroDivisionError), through.transaction() as conn:
        through.send("t", "never", conn=conn)
        raise ZeroDivisionError
    through.append()
    assert sorted(message.payload for message in through.receive("g", "t")) == ["kept", "sent"]


def test_receive_effect_and_acknowledgement_in_one_transaction(
    through: mqpg.Client, db: psycopg.Connection[Any]
) -> None:
    """The handler's effect and its acknowledgement are one commit, and a rollback gives the messages back."""
    db.execute("create table effect (n int)")
    through.send("t", 1)
    through.append()
    with contextlib.suppress(ZeroDivisionError), through.transaction() as conn:
        messages = through.receive("g", "t", conn=conn)
        conn.execute("insert into effect values (1)")
        through.ack(messages, conn=conn)
        raise ZeroDivisionError
    assert db.execute("select count(*) from effect").fetchone() == (0,)
    with through.transaction() as conn:
        (message,) = through.receive("g", "t", conn=conn)
        conn.execute("insert into effect values (%s)", [message.payload])
        through.ack(message, conn=conn)
    assert db.execute("select n from effect").fetchall() == [(1,)]
    assert through.receive("g", "t") == []


def test_a_waiting_consumer_gets_its_message_without_notifications(through: mqpg.Client) -> None:
    sender = threading.Timer(0.5, lambda: (through.send("t", 1), through.append()))
    sender.start()
    (message,) = through.receive("g", "t", wait=60)
    sender.join()
    assert message.payload == 1


def test_the_role_is_the_callers(start_pooler: Callable[..., Pooler], db: psycopg.Connection[Any]) -> None:
    """Each user of the pooler has connections of its own, and SET LOCAL ROLE ends with its transaction."""
    row = db.execute("select current_setting('server_version_num')::int, pg_backend_pid()").fetchone()
    assert row is not None
    name = f"pooled_{row[1]}"
    db.execute(f"create role {name} login password 'pooled'")
    try:
        pooler = start_pooler({name: "pooled"})
        with psycopg.connect(pooler.dsn(name), prepare_threshold=None) as conn:
            assert conn.execute("select current_user, session_user").fetchone() == (name, name)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute("select mqpg.send('t', '1')")
        with psycopg.connect(pooler.dsn(), prepare_threshold=None) as conn:
            conn.execute(f"set local role {name}")
            assert conn.execute("select current_user").fetchone() == (name,)
            conn.commit()
            assert conn.execute("select current_user").fetchone() == ("postgres",)
    finally:
        db.execute("select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = %s", [name])
        db.execute(f"drop role {name}")


def test_prepared_statements_name_the_setting(pooler: Pooler, db: psycopg.Connection[Any]) -> None:
    """PgBouncer before 1.21 has none; the error says which setting turns them off."""
    with psycopg.connect(pooler.dsn()) as one:
        one.execute("select 1", prepare=True)
        one.commit()
        with psycopg.connect(pooler.dsn()) as other:
            other.execute("select 2")  # holds the connection on which it was prepared
            with pytest.raises(
                (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement)
            ) as e:
                one.execute("select 1", prepare=True)
    assert "MQPG_PREPARE_THRESHOLD=none" in str(errors.translate(e.value))


@pytest.mark.parametrize("role", ["appender", "compensator", "keeper"])
def test_a_worker_says_that_it_needs_a_session(pooler: Pooler, role: str) -> None:
    """Its lock would stay with a connection of the pooler, so that nobody could lead after its end."""
    done = subprocess.run(
        [sys.executable, "-m", "mqpg", "worker", role, "--wait", "0", "--dsn", pooler.dsn()],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "pooler in transaction mode" in done.stderr.splitlines()[-1]


def test_a_worker_works_in_session_mode(start_pooler: Callable[..., Pooler]) -> None:
    from mqpg.workers import session

    pooler = start_pooler(pool_mode="session", ignore_startup_parameters="options", default_pool_size=4)
    session.connect(pooler.dsn(), "appender").close()
