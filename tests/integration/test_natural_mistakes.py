"""Mistakes that everybody makes once are refused in words that say what to do."""

import asyncio
import re
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

import mqpg
from mqpg import errors, protocols
from mqpg.connection.dsn import to_sqlalchemy
from mqpg.handlers.options import ConsumerOptions
from tests.support.proxied import proxied

pytestmark = pytest.mark.shared_database

# What is no time, or has no zone, so that the server would choose one.
NO_TIMES: list[Any] = [datetime(2999, 1, 1), date(2999, 1, 1), "2999-01-01 10:00", "2999-01-01", "tomorrow", 5.0, True]


def test_a_time_without_a_zone(mq: mqpg.Client, orders: str) -> None:
    mq.subscribe("billing", orders)
    example = r"a time with its offset from UTC, such as datetime\(2026, 12, 1, 10, tzinfo=UTC\) or '2026-12-01 10:00\+01:00', not "
    for time in (*NO_TIMES, 5):
        with pytest.raises(errors.InvalidArgument, match=f"deliver_at must be {example}"):
            mq.send(orders, 1, deliver_at=time)
        with pytest.raises(errors.InvalidArgument, match=f"start must be 'earliest', 'latest' or {example}"):
            mq.subscribe("late", orders, start=time)
    for time in NO_TIMES:
        with pytest.raises(
            errors.InvalidArgument, match=f"target must be 'earliest', 'latest', an offset or {example}"
        ):
            mq.seek("billing", orders, time)


def test_a_time_with_its_zone(mq: mqpg.Client, orders: str) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    sent = [mq.send(orders, 1, deliver_at=time) for time in (later, str(later), later.isoformat())]
    mq.subscribe("billing", orders, start=str(later))
    for place in (later, f"{later:%Y-%m-%d %H:%M}+00", "2020-01-01T00:00:00Z", "earliest"):
        mq.seek("billing", orders, place)
    mq.seek("billing", orders, 0, 1)
    mq.seek("billing", orders, "0", 1)
    for one in sent:
        (cause,) = mq.why(one)
        assert (cause.cause, datetime.fromisoformat(cause.detail["until"])) == ("delayed", later)


def test_a_transaction_of_another_database(mq: mqpg.Client, orders: str) -> None:
    engine = create_engine("sqlite://")
    with (
        engine.begin() as conn,
        pytest.raises(errors.InvalidArgument, match=r"connection to sqlite, not to the broker: mqpg\.Transactional"),
    ):
        mq.send(orders, 1, conn=conn)
    with Session(engine) as session, pytest.raises(errors.InvalidArgument, match="TransactionalProducer"):
        mq.send(orders, 1, conn=session)
    engine.dispose()


def test_a_transaction_of_a_database_without_mqpg(mq: mqpg.Client, orders: str, dsn: str) -> None:
    with (
        psycopg.connect(dsn, dbname="postgres") as conn,
        pytest.raises(errors.SchemaMissing, match=r"another database than the broker's: mqpg\.Transactional"),
    ):
        mq.send(orders, 1, conn=conn)


@pytest.fixture
def other_dsn(new_database: Callable[..., str]) -> str:
    """The DSN of another broker, which has a topic of the same name."""
    other = new_database()
    with mqpg.connect(other) as mq:
        mq.create_topic("orders")
        mq.create_producer_group("shop")
    return other


OF_ANOTHER_BROKER = r"conn is a connection to broker \w{12}, not to broker \w{12} of this client \(.*mqpg\.connect"


def test_a_connection_of_another_broker(mq: mqpg.Client, orders: str, other_dsn: str) -> None:
    engine = create_engine(to_sqlalchemy(other_dsn))
    with (
        psycopg.connect(other_dsn) as conn,
        engine.connect() as connection,
        Session(engine) as session,
        mqpg.connect(other_dsn) as other,
        other.transaction() as of_the_pool,
    ):
        for given in (conn, connection, session, of_the_pool):
            with pytest.raises(errors.InvalidArgument, match=OF_ANOTHER_BROKER):
                mq.send(orders, 1, conn=given)
            with pytest.raises(errors.InvalidArgument, match=OF_ANOTHER_BROKER):
                mq.prepare(orders, 1, "shop", conn=given)
            assert other.send(orders, 2, conn=given) > 0  # nothing has happened to the transaction
    engine.dispose()


def test_the_broker_of_a_connection_has_got_another_id(
    mq: mqpg.Client, orders: str, dsn: str, db: psycopg.Connection[Any]
) -> None:
    """As a copy does that is adopted. Connections from before and after that lead to it."""
    engine = create_engine(to_sqlalchemy(dsn))
    with engine.connect() as before:
        mq.send(orders, 1, conn=before)
        db.execute("update mqpg.broker set broker_id = default")
        with engine.connect() as after:
            assert mq.send(orders, 2, conn=after) > 0
            assert mq.send(orders, 3, conn=before) > 0
    engine.dispose()


def test_the_broker_of_a_connection_is_asked_for_once(
    mq: mqpg.Client, orders: str, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    execute: Callable[..., Any] = psycopg.Cursor.execute

    def noted(self: Any, query: Any, *args: Any, **kwargs: Any) -> Any:
        if "broker_id" in (query.decode() if isinstance(query, bytes) else str(query)):
            asked.append(str(query))
        return execute(self, query, *args, **kwargs)

    monkeypatch.setattr(psycopg.Cursor, "execute", noted)
    engine = create_engine(to_sqlalchemy(dsn), pool_size=1)
    with mq.transaction() as of_the_pool, psycopg.connect(dsn) as conn:
        for given in (of_the_pool, conn, conn):
            mq.send(orders, 1, conn=given)
    assert asked == []  # they lead where the client's own connections lead
    for _ in range(3):
        with Session(engine) as session:
            mq.send(orders, 1, conn=session)
            mq.send(orders, 1, conn=session.connection())
            session.commit()
    assert len(asked) == 1  # one connection to the server, whatever the sessions
    engine.dispose()
    with proxied(dsn) as (_, through):
        asked.clear()
        for _ in range(2):
            with psycopg.connect(through) as conn:
                assert mq.send(orders, 1, conn=conn) > 0
        assert len(asked) == 1  # another address, the same broker


def test_a_producer_group_that_is_missing(
    mq: mqpg.Client, orders: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says it when the block begins. It is no error, because recovery needs no group."""
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    said = r"producer_group 'shopp' does not exist: make it by mqpg group create shopp, or by create_producer_group"
    producers: list[Callable[[str], Any]] = [
        lambda group: mqpg.TransactionalProducer(mq, group=group, ledger=url),
        lambda group: mqpg.protocols.OutboxProducer(mq, database=url, group=group),
    ]
    for make in producers:
        caplog.clear()
        with make("shopp"):
            assert re.search(f"the first message will be refused: {said}", caplog.text)
        caplog.clear()
        with make("shop"):
            assert caplog.text == ""
    mq.create_producer_group("here", checker="ledger")
    with producers[0]("here"):
        assert "checker ledger" in caplog.text
    late = producers[0]("shopp")
    late.create_ledger()
    with pytest.raises(errors.UnknownProducerGroup, match=said), late.transaction(orders, 1):
        pytest.fail("the transaction began")
    late.close()
    with mqpg.protocols.OutboxProducer(mq, database=url):
        pass  # QoS 0 and 1 need no group


def test_the_topic_before_the_group(mq: mqpg.Client, orders: str) -> None:
    mq.subscribe("billing", orders)
    with pytest.raises(errors.UnknownTopic, match="the consumer group is named before it"):
        mq.receive(orders, "billing")


def test_a_filter_with_a_typing_error(mq: mqpg.Client, orders: str) -> None:
    for typo in ("$.total >>", "total > 100"):
        with pytest.raises(errors.InvalidFilter, match=r"a filter is a predicate such as \$\.total > 100"):
            mq.subscribe("billing", orders, filter=typo)


def test_an_interval_with_a_typing_error(mq: mqpg.Client, orders: str) -> None:
    with pytest.raises(errors.InvalidArgument, match="an interval is, for example, '90 seconds'"):
        mq.send(orders, 1, delay="5 sek")


def test_options_that_can_be_read_once_are_kept() -> None:
    """A list that the caller changes later does not change the consumer either."""
    tags = ["urgent"]
    once: dict[str, Any] = {"middleware": iter([print]), "queues": (queue for queue in (0, 1))}
    options = ConsumerOptions(topic="orders", group="billing", tags=tags, **once)
    tags.append("late")
    assert (options.middleware, options.tags, options.queues) == ((print,), ("urgent",), (0, 1))


async def test_an_event_of_the_other_library(mq: mqpg.Client, amq: mqpg.AsyncClient, orders: str) -> None:
    """One of threads would block the event loop, and with it whoever sets the event."""

    @mqpg.consumer(orders, group="g")
    async def bill(message: mqpg.Message) -> None: ...

    @mqpg.consumer(orders, group="h")
    def mail(message: mqpg.Message) -> None: ...

    with pytest.raises(mqpg.ConfigurationError, match=r"must be an asyncio\.Event"):
        await bill.run(amq, threading.Event())  # type: ignore[arg-type]
    with pytest.raises(mqpg.ConfigurationError, match=r"must be a threading\.Event"):
        mail.run(mq, asyncio.Event())  # type: ignore[arg-type]
    with pytest.raises(mqpg.ConfigurationError, match=r"must be an asyncio\.Event"):
        await protocols.AsyncPostProducer(amq, group="shop").run_answers(threading.Event())  # type: ignore[arg-type]
