"""What is a courtesy, such as a notification or a heartbeat, cannot stop the work."""

import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.rows import dict_row

from mqpg import migrate
from mqpg.status import check_server
from mqpg.workers.appender import Appender
from mqpg.workers.keeper import Keeper
from mqpg.workers.worker import Options, Worker
from tests.support.broker import Broker, Session
from tests.support.servers import temporary_server
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def small() -> Iterator[str]:
    """DSN of a broker on a server whose queue of notifications is small."""
    with temporary_server(settings={"max_notify_queue_pages": 64, "fsync": "off"}) as server:
        migrate.upgrade(server.dsn())
        yield server.dsn()


@pytest.fixture
def full(small: str) -> Iterator[Session]:
    """A session on a broker whose server's queue of notifications is full."""
    listener = psycopg.connect(small)
    listener.execute("listen whatever")
    listener.commit()
    listener.execute("select 1")  # idle in a transaction from now on
    broker = Broker(small)
    session = broker.session()
    while session.scalar("select pg_notification_queue_usage()") < 0.95:
        session.execute("select pg_notify('whatever', repeat('x', 1000))")
    yield session
    broker.close()
    listener.close()


def test_a_full_queue_of_notifications(full: Session, small: str) -> None:
    full.subscribed("t")
    full.send("t")
    assert full.append() == 1
    assert len(full.receive("t")) == 1
    with psycopg.connect(small, row_factory=dict_row) as connection:
        found = check_server(lambda query: connection.execute(query.encode()).fetchall())
    (one,) = [one for one in found if one.check == "notifications"]
    assert not one.ok
    assert "pid" in (one.remedy or "")


@pytest.mark.parametrize(
    "broken",
    [
        "create function stop() returns event_trigger language plpgsql as 'begin raise ''no DDL''; end'",
        "alter table pgmq.q_mqpg_oplog rename to elsewhere",
    ],
    ids=["no DDL", "no queue of half messages"],
)
def test_append_does_without(broken: str, db: psycopg.Connection[tuple[object, ...]], dsn: str) -> None:
    broker = Broker(dsn)
    mq = broker.session()
    mq.call("create_topic", "t", queues=1)
    mq.call("create_producer_group", "pg")
    mq.execute("update mqpg.settings set value = '9' where name = 'segments_ahead'")
    db.execute(broken.encode())
    if "event_trigger" in broken:
        db.execute("create event trigger stop on ddl_command_start execute function stop()")
    mq.execute("select setseed(0)")
    mq.prepare("t")
    for _ in range(300):
        mq.send("t")
        assert mq.append() == 1
    broker.close()


@pytest.mark.parametrize(
    "broken",
    [
        "alter table mqpg.worker add constraint never check (false) not valid",
        "alter function mqpg._heartbeat(text, text, text, int, text, jsonb) rename to _elsewhere",
        "alter function mqpg._forget_workers() rename to _elsewhere",
    ],
    ids=["row", "function", "clean-up"],
)
@pytest.mark.parametrize("role", [Appender, Keeper])
def test_workers_do_without_heartbeats(
    role: type[Worker], broken: str, db: psycopg.Connection[tuple[object, ...]], dsn: str
) -> None:
    broker = Broker(dsn)
    mq = broker.session()
    mq.subscribed("t")
    stop = threading.Event()
    worker = role(Options(dsn, interval=0.1, heartbeat=0.1), stop)
    db.execute(broken.encode())
    mq.execute("update mqpg.settings set value = '5' where name = 'segments_ahead'")
    mq.send("t")
    running = broker.background(worker.run)
    done = (
        (lambda: mq.receive("t"))
        if role is Appender
        else (lambda: mq.scalar("select count(*) > 4 from mqpg.segment where family = 'log'"))
    )
    try:
        eventually(done, timeout=60)
    finally:
        stop.set()
    running.result()
    broker.close()
