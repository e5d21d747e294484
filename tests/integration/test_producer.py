# ruff: noqa: PT012, SIM117  (what raises is the end of the block)
"""The transactional producer (protocol T2) on real databases.

Its local one is PostgreSQL or SQLite.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, event, select, text
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.orm import Session

import mqpg
from mqpg import errors
from mqpg.connection.dsn import to_sqlalchemy
from mqpg.user_tables.tables import IDENTITY
from mqpg.user_tables.tables import ledger as ledger_table
from tests.support.business import INSERT, business, business_at, delivered
from tests.support.proxied import proxied

pytestmark = pytest.mark.shared_database


@pytest.fixture
def engine(local_url: str) -> Iterator[Engine]:
    with business_at(local_url) as engine:
        yield engine


@pytest.fixture
def producer(mq: mqpg.Client, orders: str, engine: Engine) -> mqpg.TransactionalProducer:
    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=engine)
    producer.create_ledger()
    mq.subscribe("readers", orders)
    return producer


def undone(producer: mqpg.TransactionalProducer) -> int:
    return len(producer.ledger._open_rows())


def test_it_can_be_rolled_back_on_purpose(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine
) -> None:
    with producer.transaction("orders", 1) as tx:
        tx.execute(INSERT, {"id": 1})
        tx.rollback()
        with pytest.raises(errors.WrongState, match="has ended"):
            tx.execute(INSERT, {"id": 2})
    assert tx.outcome is mqpg.Outcome.ROLLED_BACK
    assert (business(engine), delivered(mq, "orders"), undone(producer)) == ([], [], 0)


def test_a_failed_statement_that_was_swallowed_does_not_send(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine
) -> None:
    """COMMIT of a failed transaction is a silent rollback in PostgreSQL.

    Other databases continue.
    """
    try:
        with producer.transaction("orders", 1) as tx:
            tx.execute(INSERT, {"id": 1})
            with suppress(IntegrityError):
                tx.execute(INSERT, {"id": 1})
    except errors.WrongState:
        assert engine.dialect.name == "postgresql"
        assert (business(engine), delivered(mq, "orders")) == ([], [])
    else:
        assert engine.dialect.name != "postgresql"
        assert (business(engine), delivered(mq, "orders")) == ([1], [1])


@pytest.mark.parametrize("more", [False, True])
def test_a_block_that_rolls_back_by_itself_does_not_send(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine, more: bool
) -> None:
    with pytest.raises(errors.WrongState), producer.transaction("orders", 1) as tx:
        tx.execute(INSERT, {"id": 1})
        tx.connection.rollback()
        if more:
            tx.execute(INSERT, {"id": 2})
    assert (business(engine), delivered(mq, "orders")) == ([], [])
    # Not guessed: unless the transaction's id tells, the check-back decides.
    assert tx.outcome is (mqpg.Outcome.ROLLED_BACK if engine.dialect.name == "postgresql" else None)
    assert producer.ledger.verdict(tx.handle) is mqpg.Verdict.ROLLBACK


@pytest.mark.parametrize("by_sql", [False, True])
def test_a_block_that_commits_by_itself_sends(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine, by_sql: bool
) -> None:
    with producer.transaction("orders", 1) as tx:
        tx.execute(INSERT, {"id": 1})
        tx.execute(text("commit")) if by_sql else tx.connection.commit()
    assert tx.outcome is mqpg.Outcome.COMMITTED
    assert (business(engine), delivered(mq, "orders")) == ([1], [1])


def test_a_block_that_rolls_back_by_sql_does_not_send(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine
) -> None:
    with pytest.raises(errors.WrongState, match="rolled back"), producer.transaction("orders", 1) as tx:
        tx.execute(INSERT, {"id": 1})
        tx.execute(text("rollback"))
    assert (business(engine), delivered(mq, "orders")) == ([], [])


@pytest.mark.parametrize("more", [False, True])
def test_an_exception_after_a_commit_by_sql_leaves_the_half_to_the_ledger(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine, more: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """What is committed remains committed, whatever the block raises.

    Its message must not be rolled back.
    """
    with pytest.raises(ZeroDivisionError), producer.transaction("orders", 1) as tx:
        tx.execute(INSERT, {"id": 1})
        tx.execute(text("commit"))
        if more:
            tx.execute(INSERT, {"id": 2})
        raise ZeroDivisionError
    assert tx.outcome is None
    assert "the block had committed before" in caplog.text
    assert producer.recover(older_than=timedelta(0)) == 1
    assert (business(engine), delivered(mq, "orders")) == ([1], [1])


def test_a_savepoint_takes_its_messages_and_payloads_back(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine
) -> None:
    """The library sends what the ledger holds when the local transaction commits, and nothing else."""
    with producer.transaction("orders", 1) as tx:
        kept = tx.add("orders", "kept")
        tx.commit_payload("final", kept)
        tx.execute(INSERT, {"id": 1})
        with suppress(ZeroDivisionError), tx.connection.begin_nested():
            gone = tx.add("orders", 2)
            also_gone = tx.add_batch("orders", [3, 4])
            tx.execute(INSERT, {"id": 2})
            tx.commit_payload("of the savepoint")
            tx.commit_payload("of the savepoint", kept)
            raise ZeroDivisionError
    assert tx.outcome is mqpg.Outcome.COMMITTED
    assert tx.handles == [tx.handle, kept]
    assert tx.final_payload is None
    assert (business(engine), sorted(map(str, delivered(mq, "orders")))) == ([1], ["1", "final"])
    assert {mq.rollback(handle) for handle in [gone, *also_gone]} == {mqpg.Outcome.ALREADY_ROLLED_BACK}


def test_a_savepoint_takes_the_only_messages_payload_back(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client
) -> None:
    with producer.transaction("orders", "draft") as tx:
        with suppress(ZeroDivisionError), tx.connection.begin_nested():
            tx.commit_payload("of the savepoint")
            raise ZeroDivisionError
    assert delivered(mq, "orders") == ["draft"]
    with producer.transaction("orders", "draft") as tx:
        tx.commit_payload("final")
        with suppress(ZeroDivisionError), tx.connection.begin_nested():
            tx.commit_payload("of the savepoint")
            raise ZeroDivisionError
    assert delivered(mq, "orders") == ["final"]


def test_one_message_without_a_payload_is_not_looked_up_before_the_commit(
    producer: mqpg.TransactionalProducer, engine: Engine
) -> None:
    said: list[str] = []
    listening = (engine, "before_cursor_execute", lambda *args: said.append(args[2]))
    with producer.transaction("orders", 0):  # looks at the table
        pass
    event.listen(*listening)
    with producer.transaction("orders", 1) as tx:
        tx.execute(INSERT, {"id": 1})
    event.remove(*listening)
    looked = [sql for sql in said if sql.lower().startswith("select")]
    assert len(looked) == (engine.dialect.name != "postgresql")  # where the transaction's id tells


def test_the_callers_connection(producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine) -> None:
    with engine.connect() as conn:
        with producer.transaction("orders", 1, conn=conn) as tx:
            assert tx.connection is conn
            conn.execute(INSERT, {"id": 1})
        conn.execute(INSERT, {"id": 2})
        with pytest.raises(errors.InvalidArgument, match="in a transaction"):
            producer.transaction("orders", 3, conn=conn).__enter__()
    assert (business(engine), delivered(mq, "orders")) == ([1], [1])


def test_the_callers_session(producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine) -> None:
    with Session(engine) as session:
        with producer.transaction("orders", 1, conn=session):
            session.execute(INSERT, {"id": 1})
        with pytest.raises(ZeroDivisionError), producer.transaction("orders", 2, conn=session):
            session.execute(INSERT, {"id": 2})
            raise ZeroDivisionError
    assert (business(engine), delivered(mq, "orders")) == ([1], [1])


def test_a_final_payload_over_the_limit_is_refused_before_the_local_commit(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine
) -> None:
    mq.alter_topic("orders", max_payload=100)
    with pytest.raises(errors.PayloadTooLarge, match="102 bytes; topic 'orders' allows 100"):
        with producer.transaction("orders", "draft") as tx:
            tx.execute(INSERT, {"id": 1})
            tx.commit_payload("x" * 100)
    assert tx.outcome is mqpg.Outcome.ROLLED_BACK
    with producer.transaction("orders", "draft") as tx:
        tx.execute(INSERT, {"id": 2})
        tx.commit_payload("y" * 98)
    mq.alter_topic("orders", max_payload=200)
    with producer.transaction("orders", "draft") as tx:
        tx.commit_payload("z" * 198)
    assert (business(engine), sorted(delivered(mq, "orders"))) == ([2], ["y" * 98, "z" * 198])


def test_a_final_payload_needs_no_broker_before_the_local_commit(
    mq: mqpg.Client, dsn: str, orders: str, engine: Engine
) -> None:
    """A payload above the limit is refused later, because the broker is unreachable now."""
    mq.subscribe("readers", orders)
    with mqpg.connect(dsn, retry_timeout=0.1) as other:
        producer = mqpg.TransactionalProducer(other, group="shop", ledger=engine)
        producer.create_ledger()
        with producer.transaction(orders, "draft") as tx:
            other.close()
            tx.commit_payload("final")
        assert tx.outcome is None
    late = mqpg.TransactionalProducer(mq, group="shop", ledger=engine)
    assert late.recover(older_than=timedelta(0)) == 1
    assert delivered(mq, "orders") == ["final"]


def test_rows_of_a_broker_that_the_producer_does_not_have_are_said(
    producer: mqpg.TransactionalProducer, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with engine.begin() as conn:
        for number in range(2):
            producer.ledger.begin(conn, f"0a1b2c3d4e5f.1.{number}.x")
    assert producer.recover(older_than=timedelta(0)) == 0
    assert "0a1b2c3d4e5f" not in caplog.text, "another producer may be about to send them"
    with engine.begin() as conn:
        conn.execute(text("update mqpg_ledger set created_at = '2020-01-01 00:00:00'"))
    again = mqpg.TransactionalProducer(producer.mq, group="shop", ledger=engine)
    for _ in range(3):
        assert again.recover(older_than=timedelta(0)) == 0
    (line,) = [one.getMessage() for one in caplog.records if "0a1b2c3d4e5f" in one.getMessage()]
    assert line == "ledger: 2 messages wait for broker 0a1b2c3d4e5f, which is none of this producer's"


def test_recovery_goes_on_beyond_what_the_broker_refuses(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr("mqpg._sync.producer.transactional.decide", lambda *_: None)
    for number in range(7):
        with producer.transaction("orders", number) as tx:
            tx.commit_payload("x" * 100 if number == 3 else {"final": number})
    mq.alter_topic("orders", max_payload=50)
    assert producer.recover(older_than=timedelta(0)) == 6
    assert sorted(message["final"] for message in delivered(mq, "orders")) == [0, 1, 2, 4, 5, 6]
    assert "refuses it: payload" in caplog.text
    assert (producer.recover(older_than=timedelta(0)), undone(producer)) == (0, 1)
    mq.alter_topic("orders", max_payload=500)
    assert producer.recover(older_than=timedelta(0)) == 1
    assert delivered(mq, "orders") == ["x" * 100]


def test_a_fenced_transaction_cannot_begin(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check-back comes between the half message and the local transaction."""
    from mqpg._sync.producer import transactional

    prepare = transactional.prepare_half  # type: ignore[attr-defined]

    def slow(*args: Any, **kwargs: Any) -> str:
        handle = prepare(*args, **kwargs)
        assert producer.ledger.verdict(handle) is mqpg.Verdict.ROLLBACK
        return handle

    monkeypatch.setattr(transactional, "prepare_half", slow)
    with pytest.raises(errors.Fenced), producer.transaction("orders", 1) as tx:
        tx.execute(INSERT, {"id": 1})
    assert (business(engine), delivered(mq, "orders")) == ([], [])


def test_a_group_whose_checker_looks_into_another_ledger_is_refused(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, dsn: str
) -> None:
    """The broker's own ledger does not know this one, so it would roll back what is committed here."""
    mq.alter_producer_group("shop", checker="ledger")
    with pytest.raises(
        errors.ConfigurationError, match=r"'shop' has checker ledger.* needs url, due_checks or function"
    ):
        producer.transaction("orders", 1).__enter__()
    with psycopg.connect(dsn) as conn:
        assert conn.execute("select count(*) from mqpg.commit_log").fetchone() == (0,)
    mq.alter_producer_group("shop", checker="url", checker_target="shop")
    with producer.transaction("orders", 1):
        pass
    assert delivered(mq, "orders") == [1]


def test_recovery_sends_what_the_producer_could_not(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqpg._sync.producer.transactional.decide", lambda *_: None)
    for number in range(5):
        with producer.transaction("orders", number) as tx:
            pass
        assert tx.outcome is None
    assert delivered(mq, "orders") == []
    assert producer.recover() == 0  # too young
    assert producer.recover(2, older_than=timedelta(0)) == 2
    assert producer.recover(2, older_than=timedelta(0)) == 2
    assert producer.recover(2, older_than=timedelta(0)) == 1
    assert producer.recover(2, older_than=timedelta(0)) == 0
    assert sorted(delivered(mq, "orders")) == [0, 1, 2, 3, 4]
    assert undone(producer) == 0


def test_recovery_leaves_other_brokers_and_contradictions_alone(
    producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    me = mq.info().broker_id
    with engine.begin() as conn:
        producer.ledger.begin(conn, "somebodyelse.1.1024.00", "orders")
        producer.ledger.begin(conn, f"{me}.1.1024.00", "orders")
    assert producer.recover(older_than=timedelta(0)) == 0
    assert "the broker says unknown" in caplog.text
    assert undone(producer) == 2


def test_rows_are_marked_done_in_batches(producer: mqpg.TransactionalProducer, engine: Engine) -> None:
    for number in range(120):
        with producer.transaction("orders", number):
            pass
    assert undone(producer) < 120
    producer.close()
    assert undone(producer) == 0


def test_threads_share_a_producer(producer: mqpg.TransactionalProducer, mq: mqpg.Client, engine: Engine) -> None:
    def work(start: int) -> None:
        for number in range(start, start + 10):
            while True:
                # SQLite has one writer at a time.
                with suppress(errors.DatabaseError, SQLAlchemyError):
                    with producer.transaction("orders", number) as tx:
                        tx.execute(INSERT, {"id": number})
                    break

    with ThreadPoolExecutor() as pool:
        list(pool.map(work, (0, 10, 20, 30)))
    assert business(engine) == list(range(40))
    assert sorted(delivered(mq, "orders")) == list(range(40))


def test_no_half_is_left_open_when_the_ledger_is_missing(mq: mqpg.Client, orders: str, empty_dsn: str) -> None:
    with mqpg.TransactionalProducer(mq, group="shop", ledger=empty_dsn) as producer:
        with pytest.raises(errors.LedgerError, match="no table mqpg_ledger"), producer.transaction("orders", 1):
            pass
    with mq.transaction() as conn:
        assert conn.execute("select count(*) from mqpg.half_pending").fetchone() == (0,)


@pytest.mark.parametrize("forward", [True, False])
def test_a_connection_lost_during_the_local_commit_is_not_guessed_at(
    mq: mqpg.Client, orders: str, new_database: Callable[..., str], forward: bool
) -> None:
    """The COMMIT arrives and its answer is lost, or it never arrives.

    The half follows what really happened.
    """
    mq.subscribe("readers", orders)
    local = new_database(empty=True)
    with psycopg.connect(local, autocommit=True) as direct, proxied(local) as (cut, through):
        direct.execute("create table business (id int)")
        with mqpg.TransactionalProducer(mq, group="shop", ledger=to_sqlalchemy(through)) as producer:
            producer.create_ledger()
            with pytest.raises(errors.OutcomeUnknown, match="lost during the local commit"):
                with producer.transaction(orders, 1) as tx:
                    tx.execute(INSERT, {"id": 1})
                    cut.cut_at(b"COMMIT", forward=forward)
            assert cut.cuts == 1
            assert tx.outcome is None
            verdict = producer.ledger.verdict(tx.handle, lock_timeout=10)
            rows = direct.execute("select id from business").fetchall()
            assert rows == ([(1,)] if forward else [])
            assert verdict is (mqpg.Verdict.COMMIT if forward else mqpg.Verdict.ROLLBACK)
            producer.recover(older_than=timedelta(0))
            assert delivered(mq, "orders") == ([1] if forward else [])


def test_a_sqlite_commit_that_is_refused_is_a_rollback(mq: mqpg.Client, orders: str, tmp_path: Any) -> None:
    """A long reader makes COMMIT fail with "database is locked", so it is known that nothing was
    committed.
    """
    mq.subscribe("readers", orders)
    engine = create_engine(f"sqlite:///{tmp_path / 'x.db'}", connect_args={"timeout": 0.1})
    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=engine)
    producer.create_ledger()
    with engine.begin() as conn:
        conn.execute(text("create table business (id int)"))
        conn.execute(INSERT, {"id": 0})
    with engine.connect() as reader:
        reading = reader.execution_options(stream_results=True).execute(
            text("with recursive n(i) as (select 1 union all select i + 1 from n limit 9999) select * from n, business")
        )
        reading.fetchone()
        with pytest.raises(SQLAlchemyError, match="locked"), producer.transaction(orders, 1) as tx:
            tx.execute(INSERT, {"id": 1})
        with engine.connect() as lent:
            with pytest.raises(SQLAlchemyError, match="locked"), producer.transaction(orders, 2, conn=lent) as again:
                lent.execute(INSERT, {"id": 2})
            reading.close()
            lent.execute(INSERT, {"id": 3})
            lent.commit()
    assert [tx.outcome, again.outcome] == [mqpg.Outcome.ROLLED_BACK] * 2
    assert (business(engine), delivered(mq, "orders")) == ([0, 3], [])
    with engine.connect() as conn:
        assert conn.execute(select(ledger_table.c.handle)).scalars().all() == [IDENTITY]
    engine.dispose()
