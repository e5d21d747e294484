"""T6: the set difference of committed ledger entries and committed messages, in SQL and in Python."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine

import mqpg
from mqpg import errors, protocols
from tests.support.business import INSERT, delivered
from tests.support.waiting import eventually

AT_ONCE = timedelta(0)


@pytest.fixture
def orders(mq: mqpg.Client) -> str:
    """A topic; nobody is asked about its group's halves, as with brokers that have no check-back."""
    mq.create_topic("orders", queues=2)
    mq.create_producer_group("shop")
    mq.subscribe("readers", "orders")
    return "orders"


def local(mq: mqpg.Client, dsn: str, payload: Any, key: str | None = None) -> str:
    """A half whose local transaction, in the broker's database, has committed; its decision was lost."""
    handle = mq.prepare("orders", payload, "shop", key=key)
    with psycopg.connect(dsn) as conn:
        mq.local_begin(handle, conn=conn)
    return handle


def test_no_false_positives(mq: mqpg.Client, dsn: str, orders: str) -> None:
    """Open, young, rolled back, never begun, decided: none of them is a lost commit."""
    with psycopg.connect(dsn) as conn:
        opened = mq.prepare(orders, "open", "shop")
        mq.local_begin(opened, conn=conn)
        mq.prepare(orders, "never begun", "shop")
        mq.commit(local(mq, dsn, "decided"))
        assert mq.reconcile(0) == []
        conn.rollback()
    assert mq.reconcile(0) == []
    local(mq, dsn, "young")
    assert mq.reconcile() == []
    assert delivered(mq, orders) == ["decided"]


def test_contradictions_are_told_not_settled(mq: mqpg.Client, dsn: str, orders: str) -> None:
    contradicted = local(mq, dsn, 1)
    mq.settle(contradicted, "rollback", "by mistake")
    broker = mq.info().broker_id
    absent = f"{broker}.1.{1 << 40}.{'0' * 32}"
    with psycopg.connect(dsn) as conn:
        for handle in (absent, f"{'0' * 12}.1.1024.{'0' * 32}", "nonsense", f"{broker}.x.y.z"):
            conn.execute("insert into mqpg.ledger (handle) values (%s)", (handle,))
    hits = {hit.handle: (hit.state, hit.outcome) for hit in mq.reconcile(0)}
    assert hits == {contradicted: ("rolled_back", None), absent: ("absent", None)}
    undecided = local(mq, dsn, 2)  # is not hidden behind them
    assert [(hit.handle, hit.state) for hit in mq.reconcile(0, 1)] == [(undecided, "undecided")]


def test_parked_halves_are_settled_too(mq: mqpg.Client, dsn: str, db: psycopg.Connection, orders: str) -> None:
    mq.create_producer_group("hasty", check_after="10 ms", max_checks=1)
    handle = mq.prepare(orders, 1, "hasty", key="k")
    with psycopg.connect(dsn) as conn:
        mq.local_begin(handle, conn=conn)

    def parked() -> bool:
        mq.due_checks("hasty", lease="10 ms")
        return bool(mq.half_states([handle])[0].parked)

    eventually(parked)
    assert [(hit.key, hit.outcome) for hit in mq.reconcile(0)] == [("k", mqpg.Outcome.COMMITTED)]
    assert delivered(mq, orders) == [1]


def test_two_at_once_in_sql(mq: mqpg.Client, dsn: str, orders: str) -> None:
    """Both list the same hits; each is committed by one of them."""
    for number in range(40):
        local(mq, dsn, number)

    def reconcile(_: int) -> list[str]:
        with psycopg.connect(dsn) as conn:
            return [outcome for (outcome,) in conn.execute("select outcome::text from mqpg.reconcile('0')")]

    with ThreadPoolExecutor(3) as pool:
        outcomes = [outcome for found in pool.map(reconcile, range(3)) for outcome in found]
    assert outcomes.count("committed") == 40
    assert set(outcomes) <= {"committed", "already_committed"}
    assert sorted(delivered(mq, orders)) == list(range(40))


@pytest.fixture
def producer(mq: mqpg.Client, orders: str, engine: Engine) -> mqpg.TransactionalProducer:
    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=engine)
    producer.create_ledger()
    return producer


def lose(producer: mqpg.TransactionalProducer, payload: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A transaction that commits locally and whose COMMIT never leaves; its row is even marked done."""
    with monkeypatch.context() as patch:
        patch.setattr("mqpg._sync.producer.transactional.decide", lambda *_: None)
        with producer.transaction("orders", payload) as tx:
            tx.execute(INSERT, {"id": payload})
            tx.commit_payload({"final": payload})
    producer.ledger.mark_done([tx.handle])
    return str(tx.handle)


def test_a_ledger_elsewhere(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows marked done count too: the mark is no proof."""
    for number in range(5):
        with producer.transaction("orders", number) as tx:
            tx.execute(INSERT, {"id": number})
    lost = [lose(producer, number, monkeypatch) for number in range(10, 13)]
    mq.rollback(lost[2])
    reconciler = protocols.Reconciler(mq, engine, older_than=AT_ONCE, page=3)
    hits = reconciler.step(settle=False)
    assert {hit.handle: hit.state for hit in hits} == {
        lost[0]: "undecided", lost[1]: "undecided", lost[2]: "rolled_back",
    }  # fmt: skip
    assert {hit.handle: hit.outcome for hit in reconciler.step()} == {
        lost[0]: mqpg.Outcome.COMMITTED, lost[1]: mqpg.Outcome.COMMITTED, lost[2]: None,
    }  # fmt: skip
    assert sorted(map(str, delivered(mq, "orders"))) == [*map(str, range(5)), "{'final': 10}", "{'final': 11}"]
    assert [hit.handle for hit in reconciler.step()] == [lost[2]]
    assert protocols.Reconciler(mq, engine).step() == []  # all of it is young


def test_open_local_transactions_are_no_hits(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine
) -> None:
    reconciler = protocols.Reconciler(mq, engine, older_than=AT_ONCE)
    with producer.transaction("orders", 1) as tx:
        tx.execute(INSERT, {"id": 1})
        assert reconciler.step() == []
    with suppress(ZeroDivisionError), producer.transaction("orders", 2):
        raise ZeroDivisionError
    producer.ledger.verdict(mq.prepare("orders", 3, "shop"))  # a fence
    assert reconciler.step() == []
    assert delivered(mq, "orders") == [1]


def test_arguments(mq: mqpg.Client) -> None:
    for arguments in ({"older_than": -1}, {"max_messages": 0}, {"settle": None}):
        with pytest.raises(errors.InvalidArgument):
            mq.reconcile(**arguments)
    with pytest.raises(errors.InvalidArgument, match="handles"):
        mq.half_states([None])  # type: ignore[list-item]


def test_what_the_broker_refuses_does_not_stop_the_others(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    lost = [lose(producer, number, monkeypatch) for number in (10, 10**9, 11)]
    mq.alter_topic("orders", max_payload=15)
    reconciler = protocols.Reconciler(mq, engine, older_than=AT_ONCE)
    committed = mqpg.Outcome.COMMITTED
    assert {hit.handle: hit.outcome for hit in reconciler.step()} == {
        lost[0]: committed, lost[1]: None, lost[2]: committed,
    }  # fmt: skip
    assert f"{lost[1]} stays" in caplog.text
    assert [(hit.handle, hit.outcome) for hit in reconciler.step()] == [(lost[1], None)]
