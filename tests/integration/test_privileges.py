"""The library and the workers do with grants alone what they need; without them a role reaches nothing."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import Engine, create_engine

import mqpg
from mqpg.schema.compatibility import read, require_compatible
from mqpg.schema.source import packaged
from mqpg.workers.heartbeat import Heartbeat
from tests.support.consuming import sent, sent_batch
from tests.support.roles import LoginRole, Roles
from tests.support.waiting import eventually


@pytest.fixture
def role(roles: Roles) -> LoginRole:
    """A role that may log in, and nothing more."""
    return roles("app")


@pytest.fixture
def app(mq: mqpg.Client, role: LoginRole) -> Iterator[mqpg.Client]:
    mq.create_topic("orders", queues=1)
    mq.create_producer_group("shop")
    mq.grant_send("orders", role.name)
    mq.grant_produce("shop", role.name)
    mq.grant_receive("*", "orders", role.name)
    with mqpg.connect(role.dsn) as client:
        yield client


@pytest.mark.parametrize("mode", ["exclusive", "shared", "pinned", "broadcast"])
def test_consumers_of_each_mode(app: mqpg.Client, mq: mqpg.Client, mode: Any) -> None:
    mq.subscribe("g", "orders", mode=mode, retry_delay=timedelta(0), max_attempts=2)
    app.receive("g", "orders", consumer="one")
    app.send("orders", {"id": 1})
    app.send_batch("orders", [{"id": 2}, {"id": 3}])
    mq.append()
    delivery = app.receive("g", "orders", consumer="one")
    (first, second, third) = delivery
    delivery.extend("1 min")
    app.nack(second, "why not")
    app.nack(third, "never", final=True)
    app.ack(first)
    mq.append()
    (again,) = app.receive("g", "orders", consumer="one")
    app.nack(again, "no more")
    assert len(app.dead_letters("g", "orders")) == 2
    assert app.find_by_key("orders", "k") == []
    assert app.trace(first.message_id)


def test_producers_with_a_ledger_of_their_own(app: mqpg.Client, tmp_path: Path) -> None:
    engine: Engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    producer = mqpg.TransactionalProducer(app, group="shop", ledger=engine)
    producer.create_ledger()
    with producer.transaction("orders", {"id": 1}):
        pass
    assert producer.recover(older_than=timedelta(0)) == 0
    assert app.send("orders", 1, dedup_id="x") == app.send("orders", 1, dedup_id="x")


def test_heartbeats_of_consumers(app: mqpg.Client, mq: mqpg.Client, role: LoginRole) -> None:
    mq.subscribe("g", "orders")
    heartbeat = Heartbeat("consumer", 0.0, {"consumer_group": "g", "topic": "orders"})
    with psycopg.connect(role.dsn, autocommit=True) as conn:
        for state in ("running", "running", "stopped"):
            heartbeat.beat(conn, state)


def test_checks_and_states_of_halves(app: mqpg.Client) -> None:
    handle = app.prepare("orders", 1, "shop", check_after="10 ms")
    due = eventually(lambda: app.due_checks("shop"))
    assert [check.handle for check in due] == [handle]
    app.check_wait(handle)
    assert [state.state for state in app.half_states([handle])] == ["undecided"]
    assert app.commit(handle) is mqpg.Outcome.COMMITTED


def test_workers_need_no_table(mq: mqpg.Client, role: LoginRole) -> None:
    mq.grant_worker(role.name)
    with psycopg.connect(role.dsn, autocommit=True) as conn:
        conn.execute("select mqpg.append()")
        conn.execute("select mqpg.compensate()")
        conn.execute("select * from mqpg.keep()")
        conn.execute("select * from mqpg._keep(false)")
        conn.execute("select * from mqpg._tables_to_drop()")
        conn.execute("select * from mqpg.blocked_segments")
        conn.execute("select * from mqpg.foreign_locks")
        require_compatible(read(conn), packaged())


def test_only_auditors_read_the_views_of_auditors(
    mq: mqpg.Client, db: psycopg.Connection[Any], role: LoginRole
) -> None:
    """Each of them, with nothing but the grant, and nobody else has even the schema."""
    mq.create_topic("orders")
    mq.subscribe("billing", "orders")
    sent(mq, "orders", 1)
    query = "select relname from pg_class where relnamespace = 'mqpg_audit'::regnamespace and relkind = 'v'"
    views = [sql.Identifier("mqpg_audit", name) for (name,) in db.execute(query)]
    assert len(views) > 10
    grants = {
        "operator": mq.grant_operator,
        "worker": mq.grant_worker,
        "receive": lambda name: mq.grant_receive("*", "*", name),
    }
    with psycopg.connect(role.dsn, autocommit=True) as conn:
        for grant in grants.values():
            grant(role.name)
            for view in views:
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="schema mqpg_audit"):
                    conn.execute(sql.SQL("select from {}").format(view))
        mq.grant_auditor(role.name)
        for view in views:
            conn.execute(sql.SQL("select * from {}").format(view)).fetchall()
        assert conn.execute("select topic, state from mqpg_audit.message").fetchall() == [("orders", "committed")]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("create view mqpg_audit.mine as select 1 as one")
        mq.revoke_auditor(role.name)
        for view in views:
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="schema mqpg_audit"):
                conn.execute(sql.SQL("select from {}").format(view))


def test_auditors_learn_no_key_and_no_tag_from_why(mq: mqpg.Client, role: LoginRole) -> None:
    mq.create_topic("orders", queues=1)
    mq.subscribe("billing", "orders", on_failure="block_key", retry_delay="1 min")
    mq.subscribe("tagged", "orders", tags=["else"])
    sent_batch(mq, "orders", [1, 2], keys=["loot", "loot"], tags=["loot", "loot"])
    failed = mq.receive("billing", "orders")[0]
    mq.nack(failed)
    mq.receive("tagged", "orders")
    mq.grant_auditor(role.name)
    questions = [
        ("select * from mqpg.why('billing', 'orders')", 1),
        (f"select * from mqpg.why({failed.message_id})", 2),
    ]
    with psycopg.connect(role.dsn, autocommit=True) as conn:
        for query, count in questions:
            found = conn.execute(query.encode()).fetchall()
            assert len(found) == count
            assert "loot" not in str(found)
        mq.grant_receive("tagged", "orders", role.name)
        for query, count in questions:
            assert str(conn.execute(query.encode()).fetchall()).count("loot") == count


def test_a_consumer_beside_the_queue_takes_the_tables_that_others_made(
    mq: mqpg.Client, db: psycopg.Connection[Any], role: LoginRole
) -> None:
    """A role without CREATE in the schema, which PostgreSQL asks for even if there is nothing to create."""
    mq.create_topic("relayed", queues=1, kind="relay")
    mq.create_producer_group("shop")
    mq.subscribe("g", "relayed")
    mq.grant_receive("g", "relayed", role.name)
    seen: list[Any] = []
    consumer = mqpg.consumer("relayed", group="g", journal=True)(lambda message: seen.append(message.payload))
    with mqpg.connect(role.dsn) as app:
        with pytest.raises(mqpg.errors.LedgerError, match=r"no table mqpg_prepared .*permission denied for schema"):
            consumer.step(app)
        consumer.step(mq)
        tables = sql.SQL("grant select, insert, update, delete on mqpg_prepared, mqpg_applied to {}")
        db.execute(tables.format(sql.Identifier(role.name)))
        assert mq.commit(mq.prepare("relayed", 1, "shop")) == "committed"
        mq.append()
        mqpg.consumer("relayed", group="g", journal=True)(lambda message: seen.append(message.payload)).step(app)
    assert seen == [1]
