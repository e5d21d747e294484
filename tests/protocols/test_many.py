# ruff: noqa: PT012  (what raises is the end of the block)
"""What users of RocketMQ's transactional messages ask for: several messages in one transaction, batches, order, delay."""

import threading
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine

import mqpg
from mqpg import errors
from tests.support.business import INSERT, business, delivered
from tests.support.killing import die_at, killed
from tests.support.waiting import eventually

AT_ONCE = timedelta(0)


@pytest.fixture
def topics(mq: mqpg.Client) -> list[str]:
    """Three topics, a producer group and a reader."""
    names = ["orders", "invoices", "mails"]
    for name in names:
        mq.create_topic(name, queues=4)
        mq.subscribe("readers", name)
    mq.create_producer_group("shop")
    return names


@pytest.fixture
def producer(mq: mqpg.Client, topics: list[str], sqlite: Engine) -> mqpg.TransactionalProducer:
    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=sqlite)
    producer.create_ledger()
    return producer


def everything(mq: mqpg.Client, topics: list[str]) -> list[list[Any]]:
    return [delivered(mq, topic) for topic in topics]


def test_several_topics_in_one_transaction(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, topics: list[str], sqlite: Engine
) -> None:
    with producer.transaction("orders", 1) as tx:
        tx.execute(INSERT, {"id": 1})
        invoice = tx.add("invoices", "draft")
        tx.add("mails", {"to": "you"}, key="k", headers={"a": 1})
        tx.commit_payload("final", invoice)
        assert everything(mq, topics) == [[], [], []]
    assert tx.outcome is mqpg.Outcome.COMMITTED
    assert everything(mq, topics) == [[1], ["final"], [{"to": "you"}]]
    producer.close()
    assert producer.ledger._open_rows() == []


def test_they_become_visible_together(producer: mqpg.TransactionalProducer, mq: mqpg.Client, dsn: str) -> None:
    """One decision transaction: every pass of the appender sees all of them or none."""
    stop = threading.Event()
    seen: list[tuple[int, ...]] = []

    def watch() -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            while not stop.is_set():
                found = conn.execute("select mqpg.append()").fetchall()[0][0]
                if found:
                    seen.append(found)

    thread = threading.Thread(target=watch)
    thread.start()
    for number in range(30):
        with producer.transaction("orders", number) as tx:
            tx.add("invoices", number)
            tx.add("mails", number)
    eventually(lambda: sum(map(int, seen)) == 90)  # type: ignore[arg-type]
    stop.set()
    thread.join()
    assert all(found % 3 == 0 for found in seen)  # type: ignore[operator]


def test_a_batch_of_halves_under_one_commit(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, sqlite: Engine, topics: list[str]
) -> None:
    with producer.transaction("orders", -1, key="k") as tx:
        handles = tx.add_batch("orders", list(range(500)), keys=["k"] * 500)
        tx.commit_payload("replaced", handles[7])
    wanted = [-1, *range(7), "replaced", *range(8, 500)]
    assert delivered(mq, "orders") == wanted  # in the order of their key
    with pytest.raises(ZeroDivisionError), producer.transaction("orders", 1) as tx:
        tx.add_batch("orders", [2, 3])
        raise ZeroDivisionError
    assert everything(mq, topics) == [[], [], []]


def test_undone_together(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, dsn: str, topics: list[str], sqlite: Engine
) -> None:
    with pytest.raises(ZeroDivisionError), producer.transaction("orders", 1) as tx:
        tx.execute(INSERT, {"id": 1})
        tx.add("invoices", 2)
        raise ZeroDivisionError
    with producer.transaction("orders", 1) as tx:
        tx.add("invoices", 2)
        tx.rollback()
    assert tx.outcome is mqpg.Outcome.ROLLED_BACK
    assert (business(sqlite), everything(mq, topics)) == ([], [[], [], []])
    with psycopg.connect(dsn) as conn:
        assert conn.execute("select count(*) from mqpg.half_pending").fetchone() == (0,)


def test_one_that_cannot_be_added_stops_all(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, topics: list[str], sqlite: Engine
) -> None:
    with pytest.raises(errors.UnknownTopic), producer.transaction("orders", 1) as tx:
        tx.execute(INSERT, {"id": 1})
        tx.add("nowhere", 2)
    assert (business(sqlite), everything(mq, topics)) == ([], [[], [], []])
    with producer.transaction("orders", 1) as tx, pytest.raises(errors.UnknownHandle):
        tx.commit_payload(2, "somebody else's")


def test_a_fence_on_any_of_them_stops_all(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, topics: list[str], engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A check-back comes between the second half message and its ledger row."""
    from mqpg._sync.producer import local_transaction as localtx

    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=engine)
    producer.create_ledger()
    prepare = localtx.prepare_half  # type: ignore[attr-defined]

    def slow(*arguments: Any, **options: Any) -> str:
        handle = prepare(*arguments, **options)
        if engine.dialect.name == "postgresql":  # SQLite's open transaction keeps every other writer out
            assert producer.ledger.verdict(handle) is mqpg.Verdict.ROLLBACK
        else:
            assert producer.ledger.verdict(handle, lock_timeout=0.01) is mqpg.Verdict.WAIT
            raise errors.Fenced("as if")
        return handle

    monkeypatch.setattr(localtx, "prepare_half", slow)
    with pytest.raises(errors.Fenced), producer.transaction("orders", 1) as tx:
        tx.execute(INSERT, {"id": 1})
        tx.add("invoices", 2)
    assert (business(engine), everything(mq, topics)) == ([], [[], [], []])


@pytest.mark.chaos
@pytest.mark.parametrize(("when", "step", "done"), [
    ("after", "local_transaction:prepare_half", False),
    ("before", "transactional:commit_local", False),
    ("before", "transactional:decide_all", True),
    ("after", "transactional:decide_all", True),
])  # fmt: skip
def test_killed_producer(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, dsn: str, topics: list[str], sqlite: Engine, when: str,
    step: str, done: bool,
) -> None:  # fmt: skip
    mq.alter_producer_group("shop", check_after="10 ms")
    killed("tests.protocols.test_many", dsn, str(sqlite.url), when, step)
    producer.recover(older_than=AT_ONCE)
    with psycopg.connect(dsn, autocommit=True) as conn:

        def nothing_left() -> bool:
            for due in mq.due_checks("shop", lease=1):
                assert producer.ledger.verdict(due.handle) is mqpg.Verdict.ROLLBACK
                mq.rollback(due.handle)
            return conn.execute("select from mqpg.half_pending").fetchone() is None

        eventually(nothing_left)
    assert business(sqlite) == ([1] if done else [])
    assert everything(mq, topics) == ([[1], [2], []] if done else [[], [], []])


def main(dsn: str, local_url: str, when: str, step: str) -> None:
    die_at(f"mqpg._sync.producer.{step}", when)
    with mqpg.connect(dsn) as mq:
        producer = mqpg.TransactionalProducer(mq, group="shop", ledger=create_engine(local_url))
        with producer.transaction("orders", 1) as tx:
            tx.execute(INSERT, {"id": 1})
            tx.add("invoices", 2)
