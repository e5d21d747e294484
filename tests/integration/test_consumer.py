"""Consumers with effects in the broker's database (C1) and in their own database (C2)."""

import threading
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, event, text

import mqpg
from mqpg import errors
from tests.fixtures.databases import Databases
from tests.support.business import INSERT
from tests.support.consuming import drain, running, send
from tests.support.proven import prove
from tests.support.waiting import eventually

pytestmark = pytest.mark.shared_database


@pytest.fixture
def here(db: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """The broker's database with a business table."""
    db.execute("create table business (id int)")
    return db


def ids(engine: Engine) -> list[int]:
    with engine.connect() as conn:
        return list(conn.execute(text("select id from business")).scalars())


def test_c1_applies_in_order_and_once(mq: mqpg.Client, topic: str, here: psycopg.Connection[Any]) -> None:
    @mqpg.consumer(topic, group="g", max_messages=3, journal=True)
    def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        conn.execute("insert into business values (%s)", [message.payload["id"]])

    assert handle.step(mq) == 0
    send(mq, range(7))
    assert [handle.step(mq) for _ in range(4)] == [3, 3, 1, 0]
    assert [row[0] for row in here.execute("select id from business")] == list(range(7))
    (subscription_id,) = here.execute("select subscription_id from mqpg.subscription").fetchone() or (None,)
    origin = here.execute("select distinct broker, subscription_id from mqpg_applied").fetchall()
    assert origin == [(mq.info().broker_id, subscription_id)]
    assert here.execute("select array_agg(queue_offset order by queue_offset) from mqpg_applied").fetchone() == (
        list(range(7)),
    )


def test_c1_sends_a_failed_message_to_retry_and_applies_the_others(
    mq: mqpg.Client, topic: str, here: psycopg.Connection[Any]
) -> None:
    seen: list[tuple[int, int]] = []

    @mqpg.consumer(topic, group="g", retry_delay="10 ms")
    def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        seen.append((message.payload["id"], message.attempt))
        conn.execute("insert into business values (%s)", [message.payload["id"]])
        if message.payload["id"] == 2 and message.attempt < 3:
            conn.execute("select 1 / 0")

    prove(handle)
    send(mq, range(4))
    drain(handle, mq)
    assert sorted(row[0] for row in here.execute("select id from business")) == [0, 1, 2, 3]
    assert [attempt for number, attempt in seen if number == 2] == [1, 1, 2, 3]


def test_c2_applies_in_order_and_once(mq: mqpg.Client, topic: str, engine: Engine) -> None:
    @mqpg.consumer(topic, group="g", database=engine, consumer="one", batch=True, max_messages=3, journal=True)
    def handle(messages: Sequence[mqpg.Message], conn: Any) -> None:
        conn.execute(INSERT, [{"id": message.payload["id"]} for message in messages])

    assert handle.step(mq) == 0
    send(mq, range(7))
    assert [handle.step(mq) for _ in range(4)] == [3, 3, 1, 0]
    assert ids(engine) == list(range(7))
    with engine.connect() as conn:
        assert conn.execute(text("select next_offset, broker from mqpg_offsets")).all() == [(7, mq.info().broker_id)]
        assert list(conn.execute(text("select queue_offset from mqpg_applied")).scalars()) == list(range(7))


def test_c2_applies_a_failed_message_once_later(mq: mqpg.Client, topic: str, engine: Engine) -> None:
    @mqpg.consumer(topic, group="g", database=engine, consumer="one", retry_delay="10 ms", journal=True)
    def handle(message: mqpg.Message, conn: Any) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})
        if message.payload["id"] == 2 and message.attempt < 3:
            raise ValueError("later")

    send(mq, range(4))
    drain(handle, mq)
    assert ids(engine) == [0, 1, 3, 2]
    with engine.connect() as conn:
        assert conn.execute(text("select state from mqpg_inbox")).all() == [("applied",)]
        assert len(conn.execute(text("select * from mqpg_applied")).all()) == 4


def test_c2_passes_over_what_it_has_applied(mq: mqpg.Client, topic: str, engine: Engine) -> None:
    """The ack was lost, so the broker delivers again.

    The local offset shows that the messages are applied.
    """

    @mqpg.consumer(topic, group="g", database=engine, consumer="one")
    def handle(message: mqpg.Message, conn: Any) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})

    send(mq, range(3))
    ack, mq.ack_delivery = mq.ack_delivery, lambda *_, **__: None  # type: ignore[method-assign]
    assert handle.step(mq) == 3
    mq.ack_delivery = ack  # type: ignore[method-assign]
    assert handle.step(mq) == 3
    assert handle.step(mq) == 0
    assert ids(engine) == [0, 1, 2]


@pytest.mark.parametrize("every", [1, 2], ids=["all", "what the filter chooses"])
def test_c2_reads_from_its_own_offset_where_the_broker_is_ahead(
    mq: mqpg.Client, topic: str, engine: Engine, every: int
) -> None:
    """The local database was restored from a backup.

    What it lost is applied again, and only that.
    """

    @mqpg.consumer(topic, group="g", database=engine, consumer="one", max_messages=2, filter=f"$.id % {every} == 0")
    def handle(message: mqpg.Message, conn: Any) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})

    assert handle.step(mq) == 0
    send(mq, range(2))
    handle.step(mq)
    with engine.connect() as conn:
        backup = conn.execute(text("select next_offset, last_message_id from mqpg_offsets")).one()
    send(mq, range(2, 7))
    drain(handle, mq)
    assert ids(engine) == list(range(0, 7, every))
    with engine.begin() as conn:
        conn.execute(text("delete from business where id >= 2"))
        restore = text("update mqpg_offsets set next_offset = :next_offset, last_message_id = :last_message_id")
        conn.execute(restore, dict(backup._mapping))
    send(mq, [7, 8])
    drain(handle, mq)
    assert ids(engine) == list(range(0, 9, every))


def test_c2_stops_where_its_offset_is_beyond_the_log(mq: mqpg.Client, topic: str, engine: Engine) -> None:
    @mqpg.consumer(topic, group="g", database=engine, consumer="one")
    def handle(message: mqpg.Message, conn: Any) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})

    send(mq, range(5))
    handle.step(mq)
    mq.drop_topic(topic, force=True)
    mq.create_topic(topic, queues=1)
    mq.subscribe("g", topic, "pinned")
    send(mq, range(3))
    with pytest.raises(errors.OffsetBeyondLog, match="queue 0 of topic orders"):
        handle.step(mq)
    send(mq, range(3, 9))
    with pytest.raises(errors.OffsetBeyondLog, match="not the one"):
        handle.step(mq)
    with pytest.raises(errors.OffsetBeyondLog):
        handle.run(mq, threading.Event())
    assert ids(engine) == list(range(5))


def test_c2_keeps_the_offsets_of_several_brokers_apart(
    mq: mqpg.Client, topic: str, engine: Engine, databases: Databases, template: str
) -> None:
    """A group of one name reads a topic of one name at two brokers, whose message ids are equal."""
    with databases.lent(template) as dsn:

        @mqpg.consumer(topic, group="g", database=engine, consumer="one", retry_delay="10 ms", journal=True)
        def handle(message: mqpg.Message, conn: Any) -> None:
            conn.execute(INSERT, {"id": message.payload["id"]})
            if message.payload["id"] % 10 == 1 and message.attempt == 1:
                raise ValueError("later")

        with mqpg.connect(dsn) as other:
            other.create_topic(topic, queues=1)
            send(mq, [1, 2])
            send(other, [11, 12, 13])
            for broker in (mq, other):
                drain(mqpg.consumer(topic, group="g", database=engine, consumer="one", retry_delay="10 ms",
                                    journal=True)(handle.handler), broker)  # fmt: skip
            brokers = sorted((one.info().broker_id, offset) for one, offset in ((mq, 2), (other, 3)))
        assert ids(engine) == [2, 1, 12, 13, 11]
        with engine.connect() as own:
            offsets = own.execute(text("select broker, next_offset from mqpg_offsets order by broker")).all()
            assert [tuple(row) for row in offsets] == brokers
            journal = own.execute(text("select broker, count(*), count(distinct subscription_id) from mqpg_applied"
                                        " group by broker order by broker")).all()  # fmt: skip
            assert [tuple(row) for row in journal] == [(broker, count, 1) for broker, count in brokers]


def test_c2_skips_a_message_that_killed_every_process(mq: mqpg.Client, topic: str, engine: Engine) -> None:
    """The message lost its claims until the broker made it a dead letter.

    The consumer does not apply it from the log.
    """

    @mqpg.consumer(topic, group="g", database=engine, consumer="one", max_attempts=2)
    def handle(message: mqpg.Message, conn: Any) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})

    send(mq, [0])
    assert handle.step(mq) == 1
    send(mq, [1, 2])
    for _ in range(2):
        mq.receive("g", topic, 1, consumer="one")  # dies with it
    drain(handle, mq)
    assert ids(engine) == [0, 2]
    assert [dead.payload for dead in mq.dead_letters("g", topic)] == [{"id": 1}]


def test_c2_tables_that_another_process_makes_at_the_same_moment_are_no_error(
    mq: mqpg.Client, topic: str, engine: Engine, local_url: str
) -> None:
    """Where DDL is not part of a transaction, the other process may have made the first table and
    not the next.
    """
    other = create_engine(local_url)

    @event.listens_for(engine, "before_cursor_execute")
    def faster(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
        if "create table" in statement.lower() and not made:
            made.append(statement)
            with other.begin() as faster_one:
                faster_one.exec_driver_sql(statement)

    made: list[str] = []
    handle = mqpg.consumer(topic, group="g", database=engine)(lambda message, conn: None)
    send(mq, [0])
    assert handle.step(mq) == 1
    assert made
    other.dispose()


def test_c2_two_processes_of_one_name_apply_once(mq: mqpg.Client, topic: str, local_url: str, engine: Engine) -> None:
    def make() -> mqpg.Consumer:
        @mqpg.consumer(topic, group="g", database=local_url, consumer="one", max_messages=5)
        def handle(message: mqpg.Message, conn: Any) -> None:
            conn.execute(INSERT, {"id": message.payload["id"]})

        return handle

    send(mq, range(100))
    one, other = make(), make()
    with running(one, mq), running(other, mq):
        eventually(lambda: len(ids(engine)) >= 100)
    for consumer in (one, other):
        consumer.close()
    assert ids(engine) == list(range(100))


@pytest.mark.parametrize(("has", "said"), [(5, ""), (3, "max_attempts is 3, not 5")])
def test_other_options_than_those_of_the_subscription_are_said(
    mq: mqpg.Client, topic: str, caplog: pytest.LogCaptureFixture, has: int, said: str
) -> None:
    mq.subscribe("g", topic, max_attempts=has)

    @mqpg.consumer(topic, group="g", max_attempts=5)
    def handle(message: mqpg.Message, conn: Any) -> None: ...

    handle.step(mq)
    handle.step(mq)
    assert caplog.text.count("has other options than the decorator") == bool(said)
    assert said in caplog.text


def test_a_subscription_of_another_mode_is_refused(mq: mqpg.Client, topic: str, engine: Engine) -> None:
    mq.subscribe("g", topic, "exclusive")
    consumer = mqpg.consumer(topic, group="g", database=engine)(lambda message, conn: None)
    with pytest.raises(errors.ConfigurationError, match="in mode exclusive"):
        consumer.step(mq)
    with pytest.raises(errors.ConfigurationError, match="mode must be 'pinned'"):
        mqpg.consumer(topic, group="g", database=engine, mode="exclusive")
