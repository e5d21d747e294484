# ruff: noqa: PT012  (what raises is the end of the block)
"""FastMiniMQ's producer: QoS 2 (P1-P7, also with P1 merged into P4), QoS 1 (P1-P4), QoS 0, recovered by itself."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, NullPool, create_engine, text
from sqlalchemy.orm import Session

import mqpg
from mqpg import errors, protocols, tables
from mqpg.connection.dsn import to_sqlalchemy
from tests.support.business import INSERT, business, delivered, rows
from tests.support.killing import die_at, killed
from tests.support.losing import losing_the_unflushed
from tests.support.proxied import proxied
from tests.support.waiting import eventually

AT_ONCE = timedelta(0)


@pytest.fixture
def orders(mq: mqpg.Client) -> str:
    """A topic with a producer group that nobody asks."""
    mq.create_topic("orders", queues=1)
    mq.create_producer_group("shop")
    mq.subscribe("readers", "orders")
    return "orders"


def outbox(mq: mqpg.Client | protocols.Brokers, engine: Engine) -> protocols.OutboxProducer:
    producer = protocols.OutboxProducer(mq, group="shop", database=engine)
    producer.create_outbox()
    return producer


def undecided(dsn: str) -> int:
    with psycopg.connect(dsn) as conn:
        return int(conn.execute("select count(*) from mqpg.half_pending").fetchall()[0][0])


def state(engine: Engine) -> list[str]:
    with engine.connect() as conn:
        return list(conn.execute(text("select state from mqpg_outbox order by created_at")).scalars())


@pytest.mark.parametrize("merged", [False, True])
def test_qos_2(mq: mqpg.Client, dsn: str, orders: str, engine: Engine, merged: bool) -> None:
    producer = outbox(mq, engine)
    with producer.transaction(orders, {"id": 1}, key="1", headers={"a": 1}, merged=merged) as tx:
        tx.execute(INSERT, {"id": 1})
        assert delivered(mq, orders) == []
    assert tx.outcome is mqpg.Outcome.COMMITTED
    with pytest.raises(ZeroDivisionError), producer.transaction(orders, {"id": 2}, merged=merged) as tx:
        tx.execute(INSERT, {"id": 2})
        raise ZeroDivisionError
    assert tx.outcome is mqpg.Outcome.ROLLED_BACK
    with producer.transaction(orders, {"id": 3}, merged=merged) as tx:
        tx.execute(INSERT, {"id": 3})
        tx.rollback()
    with producer.transaction(orders, "draft", merged=merged) as tx:
        tx.commit_payload("final")
        with pytest.raises(errors.WrongState, match="one message"):
            tx.add(orders, 5)
    assert (business(engine), delivered(mq, orders)) == ([1], [{"id": 1}, "final"])
    assert (rows(engine, "mqpg_outbox"), undecided(dsn)) == (0, 0)


@pytest.mark.parametrize("merged", [False, True])
def test_a_savepoint_takes_the_final_payload_back(mq: mqpg.Client, orders: str, engine: Engine, merged: bool) -> None:
    producer = outbox(mq, engine)
    with producer.transaction(orders, "draft", merged=merged) as tx:
        tx.execute(INSERT, {"id": 1})
        with suppress(ZeroDivisionError), tx.connection.begin_nested():
            tx.commit_payload("of the savepoint")
            raise ZeroDivisionError
    assert (business(engine), delivered(mq, orders)) == ([1], ["draft"])


@pytest.mark.parametrize("merged", [False, True])
def test_an_exception_after_a_commit_by_sql_leaves_the_message_to_recovery(
    mq: mqpg.Client, orders: str, engine: Engine, merged: bool
) -> None:
    producer = outbox(mq, engine)
    with pytest.raises(ZeroDivisionError), producer.transaction(orders, 1, merged=merged) as tx:
        tx.execute(INSERT, {"id": 1})
        tx.execute(text("commit"))
        raise ZeroDivisionError
    assert producer.recover(older_than=AT_ONCE) == 1
    assert (business(engine), delivered(mq, orders)) == ([1], [1])


# The step, and whether the business is done; merged: whether a half message is left that nobody decides.
STEPS = [
    ("before", "store_message", False),  # case 1
    ("after", "store_message", False),  # case 2
    ("after", "prepare_message", False),  # cases 3 and 4
    ("after", "begin_local", False),
    ("before", "commit_local", False),
    ("after", "commit_local", True),
    ("before", "decide", True),  # case 5
    ("after", "decide", True),  # case 6
    ("before", "delete_message", True),  # case 7
    ("after", "delete_message", True),
]


@pytest.mark.chaos
@pytest.mark.parametrize(("when", "step", "done"), STEPS)
def test_killed_producer(
    mq: mqpg.Client, dsn: str, orders: str, sqlite: Engine, when: str, step: str, done: bool
) -> None:
    """Recovery alone, no check-back: the message follows the business, and nothing is left anywhere."""
    producer = outbox(mq, sqlite)
    killed("tests.protocols.test_outbox", dsn, str(sqlite.url), when, step)
    producer.recover(older_than=AT_ONCE)
    assert business(sqlite) == ([1] if done else [])
    assert delivered(mq, orders) == ([1] if done else [])
    assert (rows(sqlite, "mqpg_outbox"), undecided(dsn)) == (0, 0)
    assert producer.recover(older_than=AT_ONCE) == 0


def test_a_slow_transaction_is_not_rolled_back_under_its_feet(
    mq: mqpg.Client, dsn: str, orders: str, engine: Engine
) -> None:
    """Recovery meets a message whose local transaction is open: one of the two gets the row."""
    producer, other = outbox(mq, engine), outbox(mq, engine)
    with producer.transaction(orders, 1) as tx:
        tx.execute(INSERT, {"id": 1})
        assert other.recover(older_than=AT_ONCE) == 0
    assert (business(engine), delivered(mq, orders)) == ([1], [1])


def test_a_transaction_that_recovery_gave_up_cannot_begin(
    mq: mqpg.Client, orders: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mqpg._sync.producer import outbox as outboxing

    producer = outbox(mq, engine)
    prepare = outboxing.prepare_message

    def slow(*arguments: Any) -> str:
        handle = prepare(*arguments)
        monkeypatch.setattr(outboxing, "prepare_message", prepare)
        assert producer.recover(older_than=AT_ONCE) == 1
        return handle

    monkeypatch.setattr(outboxing, "prepare_message", slow)
    with pytest.raises(errors.Fenced), producer.transaction(orders, 1) as tx:
        tx.execute(INSERT, {"id": 1})
    assert (business(engine), delivered(mq, orders), rows(engine, "mqpg_outbox")) == ([], [], 0)


def test_qos_1_sends_at_once_or_with_the_business(mq: mqpg.Client, orders: str, engine: Engine) -> None:
    producer = outbox(mq, engine)
    first = producer.send(orders, 1, key="1", delay=None)
    assert isinstance(first, int)
    with Session(engine) as session, session.begin():
        session.execute(INSERT, {"id": 2})
        assert producer.send(orders, 2, conn=session) is None
    with pytest.raises(ZeroDivisionError), engine.begin() as conn:
        producer.send(orders, 3, conn=conn)
        raise ZeroDivisionError
    assert delivered(mq, orders) == [1]
    assert producer.recover(older_than=AT_ONCE) == 1
    assert (delivered(mq, orders), business(engine), rows(engine, "mqpg_outbox")) == ([2], [2], 0)


def test_qos_0_is_sent_once_and_stored_nowhere(mq: mqpg.Client, dsn: str, orders: str, sqlite: Engine) -> None:
    producer = outbox(mq, sqlite)
    assert isinstance(producer.send(orders, 1, qos=0), int)
    assert delivered(mq, orders) == [1]
    with proxied(dsn) as (between, behind), mqpg.connect(behind) as cut:
        between.cut_at(b"mqpg.send", forward=False)
        with pytest.raises(errors.OutcomeUnknown):
            outbox(cut, sqlite).send(orders, 2, qos=0)
    assert (delivered(mq, orders), rows(sqlite, "mqpg_outbox")) == ([], 0)


def test_arguments(mq: mqpg.Client, orders: str, sqlite: Engine) -> None:
    producer = outbox(mq, sqlite)
    for qos in (2, -1):
        with pytest.raises(errors.InvalidArgument, match="qos"):
            producer.send(orders, 1, qos=qos)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgument, match="payload"):
        producer.send(orders, None)
    with pytest.raises(errors.ConfigurationError, match="group"):
        protocols.OutboxProducer(mq, database=sqlite).transaction(orders, 1).__enter__()
    with sqlite.begin() as conn:
        conn.execute(text("drop table mqpg_outbox"))
    with pytest.raises(errors.LedgerError, match="mqpg_outbox"):
        protocols.OutboxProducer(mq, database=sqlite).send(orders, 1)


def test_a_restored_broker_is_told_again(mq: mqpg.Client, dsn: str, orders: str, sqlite: Engine) -> None:
    """What the broker lost by a restore to an earlier time is still in the outbox."""
    producer = outbox(mq, sqlite)
    with producer.transaction(orders, 1) as tx, psycopg.connect(dsn) as conn:
        tx.execute(INSERT, {"id": 1})
        # The broker comes back as it was before PREPARE, in its next life.
        conn.execute("truncate mqpg.commit_log, mqpg.op_log, mqpg.dedup")
        conn.execute("update mqpg.broker set incarnation = incarnation + 1")
        conn.commit()
        tx.commit_payload("again")
        tx.connection.commit()
        tx.mq.close()
    assert state(sqlite) == ["commit"]
    with mqpg.connect(dsn) as later:
        assert outbox(later, sqlite).recover(older_than=AT_ONCE) == 1
        assert delivered(later, orders) == ["again"]
        assert rows(sqlite, "mqpg_outbox") == 0


def test_a_connected_producer_notices_a_restored_broker(
    mq: mqpg.Client, dsn: str, orders: str, sqlite: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adoption closes no connection, so what the client knows of the broker may be from before it."""
    from mqpg._sync.producer import outbox as outboxing

    producer = outbox(mq, sqlite)
    with monkeypatch.context() as patched:
        patched.setattr(outboxing, "decide", lambda *arguments: None)
        with producer.transaction(orders, 1) as tx:
            tx.execute(INSERT, {"id": 1})
    with psycopg.connect(dsn) as conn:
        conn.execute("truncate mqpg.commit_log, mqpg.op_log, mqpg.dedup")
        conn.execute("update mqpg.broker set incarnation = incarnation + 1")
    assert producer.recover(older_than=AT_ONCE) == 1
    assert (delivered(mq, orders), rows(sqlite, "mqpg_outbox")) == ([1], 0)


@pytest.mark.parametrize("full", ["group", "topic"])
def test_a_full_group_or_topic_is_emptied_by_recovery(
    mq: mqpg.Client,
    dsn: str,
    orders: str,
    sqlite: Engine,
    full: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It learns the handles of prepares whose answers were lost from their dedup ids, which needs no room."""
    from mqpg._sync.producer import outbox as outboxing

    producer = outbox(mq, sqlite)
    prepare = outboxing.prepare_message

    def lost(*arguments: Any) -> str:
        prepare(*arguments)
        raise errors.ConnectionFailed("the answer is lost")

    mq.alter_producer_group("shop", max_undecided=2)
    with monkeypatch.context() as patched:
        patched.setattr(outboxing, "prepare_message", lost)
        for number in range(3):
            with pytest.raises(errors.ConnectionFailed), producer.transaction(orders, number):
                pass
    with psycopg.connect(dsn) as conn:
        conn.execute("select mqpg._enqueue_halves_now('test')")
        if full == "topic":
            conn.execute("update mqpg.producer_group set overfull_at = null")
            conn.execute("update mqpg.topic set full_of = 'topic'")
    refusal = errors.TooManyUndecided if full == "group" else errors.NoSpace
    with pytest.raises(refusal):
        mq.prepare(orders, 4, "shop")
    with pytest.raises(refusal):
        mq.prepare(orders, 4, "shop", dedup_id="never seen")
    assert producer.recover(older_than=AT_ONCE) == 3
    assert (rows(sqlite, "mqpg_outbox"), undecided(dsn)) == (0, 0)


def test_rows_of_a_broker_that_the_producer_does_not_have_are_said(
    mq: mqpg.Client, orders: str, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    producer = outbox(mq, engine)
    with engine.begin() as conn:
        for number in range(3):
            producer.send(orders, number, conn=conn)
        conn.execute(text("update mqpg_outbox set broker = 'elsewhere' where payload <> '2'"))
    assert producer.recover(older_than=AT_ONCE) == 1
    assert "elsewhere" not in caplog.text
    with engine.begin() as conn:
        conn.execute(text("update mqpg_outbox set created_at = '2020-01-01 00:00:00'"))
    again = outbox(mq, engine)
    for _ in range(3):
        assert again.recover(older_than=AT_ONCE) == 0
    (line,) = [one.getMessage() for one in caplog.records if "elsewhere" in one.getMessage()]
    assert line == "outbox: 2 messages wait for broker elsewhere, which is none of this producer's"


def test_an_unknown_message_of_this_life_is_evidence(
    mq: mqpg.Client, dsn: str, orders: str, sqlite: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    producer = outbox(mq, sqlite)
    with pytest.raises(errors.UnknownHandle), producer.transaction(orders, 1), psycopg.connect(dsn) as conn:
        conn.execute("truncate mqpg.commit_log, mqpg.op_log, mqpg.dedup")
    assert producer.recover(older_than=AT_ONCE) == 0
    assert "its broker says unknown" in caplog.text
    assert state(sqlite) == ["commit"]


def test_a_row_that_is_refused_does_not_hold_up_the_others(
    mq: mqpg.Client, orders: str, sqlite: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    """Its topic was dropped meanwhile: it stays as evidence, and every iteration reports it."""
    producer = outbox(mq, sqlite)
    mq.create_topic("former")
    with sqlite.begin() as conn:
        for topic in ("former", "former", orders):
            producer.send(topic, topic, conn=conn)
    mq.drop_topic("former", force=True)
    assert producer.recover(1, older_than=AT_ONCE) == 1  # how many are refused before depends on their ids
    caplog.clear()
    assert producer.recover(1, older_than=AT_ONCE) == 0
    assert delivered(mq, orders) == [orders]
    assert (rows(sqlite, "mqpg_outbox"), caplog.text.count("refuses it")) == (2, 2)


@pytest.fixture
def hasty(losing_database: str) -> Iterator[Engine]:
    """A producer's database whose sessions do not wait for the disk, on a server that loses what nobody flushed."""
    url = to_sqlalchemy(losing_database)
    patient = create_engine(url, poolclass=NullPool)
    with patient.begin() as conn:  # the tables are on disk
        conn.execute(text("create table business (id int primary key)"))
        tables.metadata(outbox=True).create_all(conn)
    engine = create_engine(url, poolclass=NullPool, connect_args={"options": "-c synchronous_commit=off"})
    yield engine
    engine.dispose()


@pytest.mark.chaos
@pytest.mark.parametrize("recovered", [True, False])
def test_qos_1_is_sent_only_with_a_business_that_is_on_disk(
    mq: mqpg.Client, orders: str, hasty: Engine, losing_database: str, recovered: bool
) -> None:
    """A crash takes message and business away together, unless recovery has sent the message.

    Mutation that this notices: Outbox.flush() writes nothing on PostgreSQL.
    """
    producer = outbox(mq, hasty)
    with losing_the_unflushed(losing_database):
        with hasty.begin() as conn:
            conn.execute(INSERT, {"id": 1})
            producer.send(orders, 1, conn=conn)
        if recovered:
            assert producer.recover(older_than=AT_ONCE) == 1
    producer.recover(older_than=AT_ONCE)
    there = [1] if recovered else []
    assert (business(hasty), delivered(mq, orders), rows(hasty, "mqpg_outbox")) == (there, there, 0)


@pytest.mark.chaos
@pytest.mark.parametrize("merged", [False, True])
def test_qos_2_is_recovered_only_with_a_business_that_is_on_disk(
    mq: mqpg.Client,
    orders: str,
    hasty: Engine,
    losing_database: str,
    merged: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P5 is lost after a commit that nobody flushed, and recovery repeats it.

    Mutation that this notices: _finish_rows() does not call Outbox.flush().
    """
    from mqpg._sync.producer import outbox as outboxing

    producer = outbox(mq, hasty)
    with losing_the_unflushed(losing_database):
        with monkeypatch.context() as patch:
            patch.setattr(outboxing, "decide", lambda *arguments: None)
            patch.setattr("mqpg._sync.stores.durability._CHECKED", "COMMIT")
            with producer.transaction(orders, 1, merged=merged) as tx:
                tx.execute(INSERT, {"id": 1})
                tx.execute(text("set local synchronous_commit = off"))
        assert producer.recover(older_than=AT_ONCE) == 1
    assert (business(hasty), delivered(mq, orders)) == ([1], [1])


@pytest.mark.chaos
@pytest.mark.parametrize("merged", [False, True])
def test_qos_2_is_sent_only_with_a_business_that_is_on_disk(
    mq: mqpg.Client, orders: str, hasty: Engine, losing_database: str, merged: bool
) -> None:
    """The block switches synchronous_commit off, and the message is sent at its end.

    Mutation that this notices: checked_commit() only commits.
    """
    producer = outbox(mq, hasty)
    with (
        losing_the_unflushed(losing_database),
        producer.transaction(orders, 1, merged=merged) as tx,
    ):
        tx.execute(INSERT, {"id": 1})
        tx.execute(text("set local synchronous_commit = off"))
    assert (business(hasty), delivered(mq, orders)) == ([1], [1])


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_recovery_flushes_sqlite_before_it_sends(
    mq: mqpg.Client, orders: str, tmp_path: Path, journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit of an application that does not sync goes to disk with a later write.

    Mutation that this notices: Outbox.flush() writes nothing on SQLite.
    """
    from mqpg._sync.producer import outbox as outboxing

    path = tmp_path / "business.db"
    send, versions = outboxing.send_message, []
    with protocols.OutboxProducer(mq, database=f"sqlite:///{path}") as producer, sqlite3.connect(path) as watcher:
        producer.create_outbox()
        watcher.execute(f"pragma journal_mode = {journal}")
        with producer.outbox.database.engine.begin() as conn:
            producer.send(orders, 1, conn=conn)
        version = "pragma data_version"
        versions += watcher.execute(version).fetchone()

        def watched(*arguments: Any) -> int:
            versions.extend(watcher.execute(version).fetchone())
            return send(*arguments)

        monkeypatch.setattr(outboxing, "send_message", watched)
        assert producer.recover(older_than=AT_ONCE) == 1
    watcher.close()
    assert versions[0] < versions[1]
    assert delivered(mq, orders) == [1]


def test_nothing_is_sent_while_the_outbox_is_locked(mq: mqpg.Client, orders: str, local_url: str) -> None:
    """Nothing can be flushed then. A migration that locks writers out, say.

    Mutation that this notices: _finish_rows() ignores what flush() returns.
    """
    on_postgresql = local_url.startswith("postgresql")
    # What waits for the lock without a limit of its own fails, and does not hang.
    engine = create_engine(local_url, connect_args={"options": "-c lock_timeout=5s"} if on_postgresql else {})
    producer = outbox(mq, engine)
    with engine.begin() as conn:
        producer.send(orders, 1, conn=conn)
    lock = "lock table mqpg_outbox in exclusive mode" if on_postgresql else "begin immediate"
    with engine.connect() as locker:
        locker.execute(text(lock))
        assert producer.recover(older_than=AT_ONCE) == 0
        locker.rollback()
    assert delivered(mq, orders) == []
    assert producer.recover(older_than=AT_ONCE) == 1
    assert delivered(mq, orders) == [1]
    engine.dispose()


def test_recoveries_at_once_double_nothing(mq: mqpg.Client, orders: str, engine: Engine) -> None:
    producer = outbox(mq, engine)
    with engine.begin() as conn:
        for number in range(30):
            producer.send(orders, number, conn=conn)
    loops = [outbox(mq, engine) for _ in range(3)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda one: one.recover(older_than=AT_ONCE), loops))
    eventually(lambda: producer.recover(older_than=AT_ONCE) == 0 and not rows(engine, "mqpg_outbox"))
    assert sorted(delivered(mq, orders)) == list(range(30))


@pytest.mark.chaos
@pytest.mark.parametrize(("when", "step", "done"), [
    ("after", "prepare_message", False), ("before", "commit_local", False), ("after", "commit_local", True),
    ("after", "decide", True),
])  # fmt: skip
def test_killed_producer_of_a_relay_topic(
    mq: mqpg.Client, dsn: str, sqlite: Engine, when: str, step: str, done: bool
) -> None:
    """P1-P7 and S1-S8: both ends with stores of their own, the broker between them no more than a log."""
    mq.create_topic("orders", queues=1, kind="relay")
    mq.create_producer_group("shop")
    producer = outbox(mq, sqlite)
    taken: list[int] = []
    reader = mqpg.consumer("orders", group="readers", database=str(sqlite.url), consumer="one")
    consumer: mqpg.Consumer = reader(lambda message, conn: taken.append(message.payload))
    killed("tests.protocols.test_outbox", dsn, str(sqlite.url), when, step)

    def drain() -> None:
        mq.append()
        while consumer.step(mq):
            pass

    drain()
    assert taken == ([1] if step == "decide" else [])  # PREPARE alone is held back
    assert rows(sqlite, "mqpg_prepared") == 1 - len(taken)
    producer.recover(older_than=AT_ONCE)
    drain()
    assert (business(sqlite), taken) == (([1], [1]) if done else ([], []))
    assert (rows(sqlite, "mqpg_prepared"), rows(sqlite, "mqpg_outbox"), undecided(dsn)) == (0, 0, 0)
    consumer.close()


async def test_async(amq: mqpg.AsyncClient, mq: mqpg.Client, orders: str, sqlite: Engine) -> None:
    url = str(sqlite.url).replace("sqlite://", "sqlite+aiosqlite://")
    async with protocols.AsyncOutboxProducer(amq, group="shop", database=url) as producer:
        await producer.create_outbox()
        async with producer.transaction(orders, 1) as tx:
            await tx.execute(INSERT, {"id": 1})
        assert tx.outcome is mqpg.Outcome.COMMITTED
        assert await producer.send(orders, 2) is not None
        assert await producer.recover(older_than=AT_ONCE) == 0
    assert (business(sqlite), delivered(mq, orders)) == ([1], [1, 2])


def main(dsn: str, local_url: str, when: str, step: str) -> None:
    die_at(f"mqpg._sync.producer.outbox:{step}", when)
    with mqpg.connect(dsn) as mq:
        producer = protocols.OutboxProducer(mq, group="shop", database=create_engine(local_url))
        with producer.transaction("orders", 1) as tx:
            tx.execute(INSERT, {"id": 1})


@pytest.mark.parametrize(("checker", "target"), [("ledger", None), ("url", "shop")])
def test_a_group_whose_checker_rolls_back_what_it_does_not_know_is_refused(
    mq: mqpg.Client, dsn: str, orders: str, sqlite: Engine, checker: Any, target: str | None
) -> None:
    producer = outbox(mq, sqlite)
    mq.alter_producer_group("shop", checker=checker, checker_target=target)
    with pytest.raises(errors.ConfigurationError, match=f"'shop' has checker {checker}.* needs due_checks or function"):
        producer.transaction(orders, 1).__enter__()
    assert (rows(sqlite, "mqpg_outbox"), undecided(dsn)) == (0, 0)
    mq.alter_producer_group("shop", checker="due_checks")
    with producer.transaction(orders, 1):
        pass
    assert delivered(mq, orders) == [1]


DELAYS: tuple[Any, ...] = (5e-05, timedelta(microseconds=10), 1e-7, 0, "10 us")


def test_short_delays_of_stored_messages(mq: mqpg.Client, orders: str, engine: Engine) -> None:
    producer = outbox(mq, engine)
    with engine.begin() as conn:
        for number, delay in enumerate(DELAYS):
            producer.send(orders, number, delay=delay, conn=conn)
    assert producer.recover(older_than=AT_ONCE) == len(DELAYS)
    assert rows(engine, "mqpg_outbox") == 0


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("delay", -1),
        ("delay", timedelta(seconds=-1)),
        ("delay", float("nan")),
        ("delay", float("inf")),
        ("delay", timedelta.max),
        ("delay", object()),
        ("key", 5),
        ("key", "x" * 513),
        ("key", "\ud800"),
        ("key", "a\0b"),
        ("tag", "x" * 513),
        ("topic", None),
        ("payload", mqpg.Json("{bad")),
        ("payload", mqpg.Json('{"a": NaN}')),
        ("payload", {"a": "\ud800"}),
        ("headers", {"a": "\0"}),
        ("headers", mqpg.Json("bad")),
    ],
)
def test_what_no_broker_would_take_is_not_stored(
    mq: mqpg.Client, orders: str, engine: Engine, argument: str, value: Any
) -> None:
    """Nobody would be told of it later, and the row would stay for ever."""
    producer = outbox(mq, engine)
    given: dict[str, Any] = {"topic": orders, "payload": 1} | {argument: value}
    with engine.begin() as conn, pytest.raises(errors.InvalidArgument, match=argument):
        producer.send(**given, conn=conn)
    assert rows(engine, "mqpg_outbox") == 0


def test_what_a_broker_takes_is_stored(mq: mqpg.Client, orders: str, engine: Engine) -> None:
    producer = outbox(mq, engine)
    taken: list[Any] = [mqpg.Json(' {"a": 1, "a": 2} '), mqpg.Json("1" * 5000), {"a": "\0"}, "\\u0000"]
    with engine.begin() as conn:
        for payload in taken:
            producer.send(orders, payload, key="x" * 512, headers={"a": "\\u0000"}, conn=conn)
    assert producer.recover(older_than=AT_ONCE) == len(taken)
