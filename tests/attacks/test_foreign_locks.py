"""A role that can connect and nothing else takes mqpg's advisory locks: what it cannot stop, and who says what it does."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from mqpg.schema.compatibility import LOCK
from mqpg.workers.appender import Appender
from mqpg.workers.worker import Options
from tests.support.broker import Broker, Session
from tests.support.waiting import eventually

CHECK_QUEUE, MIGRATION = (1836150834, 0), (1836150836, 0)
CURSOR, LEADER, SUBSCRIPTION = 1836150833, 1836150837, 1836150843


@pytest.fixture
def mq(broker: Broker) -> Session:
    """Topic `t` with one queue and one message, read by group `g`."""
    session = broker.session()
    session.subscribed("t")
    session.send("t")
    return session


@pytest.fixture
def stranger(mq: Session, dsn: str) -> Iterator[psycopg.Connection]:
    """A session of a role without any grant."""
    role = f"mqpg_stranger_{mq.pid}"
    name = sql.Identifier(role)
    mq.conn.execute(sql.SQL("create role {} login password 'nothing'").format(name))
    conn = psycopg.connect(make_conninfo(dsn, user=role, password="nothing"), autocommit=True)
    yield conn
    conn.close()
    mq.conn.execute(sql.SQL("drop role {}").format(name))


@contextmanager
def running(work: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    """Run a function in a thread until the block ends."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def cursor_key(mq: Session) -> int:
    return int(mq.scalar("select subscription_id * 1024 + 1 from mqpg.subscription where consumer_group = 'g'"))


def subscription(mq: Session) -> int:
    return int(mq.scalar("select subscription_id from mqpg.subscription where consumer_group = 'g'"))


def hold(stranger: psycopg.Connection, lock_class: int, key: int) -> None:
    stranger.execute("select pg_advisory_lock(%s, %s)", (lock_class, key))


def foreign(mq: Session) -> list[tuple[int, str]]:
    return [(row.pid, row.stops) for row in mq.rows("select * from mqpg.foreign_locks where stops <> 'nothing'")]


def test_nobody_without_a_right_can_stop_append(mq: Session, stranger: psycopg.Connection) -> None:
    hold(stranger, *CHECK_QUEUE)
    mq.execute("set statement_timeout = '20 s'")  # it ends the test, and proves nothing
    assert mq.append() == 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege), stranger.transaction():
        stranger.execute("lock table mqpg.append_lock in access share mode")


@pytest.mark.parametrize("how", ["session", "transaction"])
def test_a_stolen_queue_lock_is_listed_with_pid_role_and_remedy(
    mq: Session, stranger: psycopg.Connection, how: str
) -> None:
    mq.append()
    if how == "transaction":
        stranger.autocommit = False
        stranger.execute("select pg_advisory_xact_lock(%s, %s)", (CURSOR, cursor_key(mq)))
    else:
        hold(stranger, CURSOR, cursor_key(mq))
    assert mq.receive("t") == []
    (row,) = mq.rows("select * from mqpg.foreign_locks")
    assert (row.pid, row.role) == (stranger.info.backend_pid, stranger.info.user)
    assert row.stops == "delivery of queue 0 of topic 't' to consumer group 'g'"
    mq.execute(row.remedy)
    eventually(lambda: foreign(mq) == [])
    assert len(mq.receive("t")) == 1


def test_a_migration_is_no_stranger_before_it_reads_a_table(
    mq: Session, broker: Broker, stranger: psycopg.Connection
) -> None:
    """On a slow machine that takes longer than a second."""
    with broker.transaction() as other:
        other.execute(LOCK)
        mq.execute("select pg_sleep(1.1)")  # a call that has only begun is never listed
        assert foreign(mq) == []
    hold(stranger, *MIGRATION)
    assert foreign(mq) == [(stranger.info.backend_pid, "migrations")]


def test_receive_says_why_it_returned_nothing(mq: Session, stranger: psycopg.Connection) -> None:
    mq.append()
    hold(stranger, CURSOR, cursor_key(mq))
    warned: list[str] = []
    mq.conn.add_notice_handler(lambda notice: warned.append(f"{notice.severity} {notice.message_primary}"))
    for _ in range(300):  # one call in ten looks: all of them miss it once in 10^13 runs
        assert mq.receive("t") == []
    assert set(warned) == {
        f"WARNING process {stranger.info.backend_pid} of role '{stranger.info.user}' holds a lock that stops the "
        "delivery of queue 0 of topic 't' to consumer group 'g'"
    }


def test_a_stolen_subscription_lock_is_listed_and_receive_says_so(mq: Session, stranger: psycopg.Connection) -> None:
    """It stops all queues of the subscription at once."""
    mq.append()
    hold(stranger, SUBSCRIPTION, subscription(mq))
    assert foreign(mq) == [(stranger.info.backend_pid, "delivery of topic 't' to consumer group 'g'")]
    warned: set[str | None] = set()
    mq.conn.add_notice_handler(lambda notice: warned.add(notice.message_primary))
    for _ in range(300):  # one call in ten looks: all of them miss it once in 10^13 runs
        assert mq.receive("t") == []
    assert warned == {
        f"process {stranger.info.backend_pid} of role '{stranger.info.user}' holds a lock that stops the "
        "delivery of topic 't' to consumer group 'g'"
    }
    stranger.execute("select pg_advisory_unlock_all()")
    assert len(mq.receive("t")) == 1


def test_a_shared_subscription_lock_stops_seek_and_not_receive(mq: Session, stranger: psycopg.Connection) -> None:
    mq.append()
    stranger.execute("select pg_advisory_lock_shared(%s, %s)", (SUBSCRIPTION, subscription(mq)))
    mq.execute("update mqpg.settings set value = '10 ms' where name = 'lock_timeout'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        mq.call("seek", "g", "t", "earliest")
    stops = "seek() and unpin() of consumer group 'g' on topic 't', and purge_topic()"
    assert foreign(mq) == [(stranger.info.backend_pid, stops)]
    assert len(mq.receive("t")) == 1


def test_another_consumer_is_no_stranger(broker: Broker, mq: Session) -> None:
    """Neither a consumer that holds the queue in its transaction, nor one that acknowledges there."""
    mq.append()
    other = broker.session()
    warned: list[object] = []
    mq.conn.add_notice_handler(warned.append)
    with other.transaction():
        (message,) = other.receive("t")
        for _ in range(100):
            assert mq.receive("t") == []
        assert foreign(mq) == []
        other.ack(message.receipt)
        assert foreign(mq) == []
    assert warned == []


def test_no_consumer_at_work_is_ever_a_stranger(broker: Broker, mq: Session) -> None:
    """Its transaction may end while the view reads the list of locks."""
    consumer, stop = broker.session(), threading.Event()

    def receive() -> None:
        while not stop.is_set():
            consumer.receive("t", lease="10 ms")

    mq.append()
    with running(receive, stop):
        found = [one for _ in range(300) for one in foreign(mq)]
    assert found == []


def test_the_keys_are_no_secret(broker: Broker, mq: Session, stranger: psycopg.Connection) -> None:
    """Why random keys would not help: pg_locks shows them to everybody."""
    mq.append()
    with broker.transaction() as other:
        other.receive("t")
        keys = stranger.execute(
            "select classid::bigint, objid::bigint from pg_locks where locktype = 'advisory' and pid = %s", (other.pid,)
        ).fetchall()
    assert (CURSOR, cursor_key(mq)) in keys


def test_a_worker_leads_reports_and_logs(
    mq: Session, stranger: psycopg.Connection, dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A stranger in the appender's seat does not stop it; worker_status and the log name it."""
    hold(stranger, LEADER, 1)
    hold(stranger, CURSOR, cursor_key(mq))
    stop = threading.Event()
    worker = Appender(Options(dsn, heartbeat=0.2), stop)
    with caplog.at_level(logging.WARNING, logger="mqpg.workers"), running(worker.run, stop):
        eventually(lambda: mq.scalar("select coalesce(sum(messages), 0) from mqpg.tick") == 1)
        seen = "select detail -> 'foreign_locks' from mqpg.worker_status where detail ? 'foreign_locks'"
        eventually(lambda: mq.rows(seen) != [])
        locks = mq.scalar(seen)
    assert {lock["pid"] for lock in locks} == {stranger.info.backend_pid}
    assert {lock["role"] for lock in locks} == {stranger.info.user}
    assert {lock["stops"] for lock in locks} >= {"appender"}
    logged = [record for record in caplog.records if record.getMessage() == "a stranger holds a lock of mqpg"]
    assert {vars(record)["pid"] for record in logged} == {stranger.info.backend_pid}
    assert {vars(record)["remedy"] for record in logged} == {
        f"select pg_terminate_backend({stranger.info.backend_pid});"
    }


def test_when_the_stranger_leaves_one_worker_leads_and_the_other_stands_by(
    mq: Session, stranger: psycopg.Connection, dsn: str
) -> None:
    """Both lead while a stranger holds the seat, because neither can know of the other."""
    hold(stranger, LEADER, 1)
    stop = threading.Event()
    pair = [Appender(Options(dsn, heartbeat=0.1, standby_poll=0.05), stop) for _ in range(2)]
    states = "select array_agg(state order by state) from mqpg.worker where role = 'appender'"
    holders = """
        select count(*) from pg_locks where locktype = 'advisory' and granted and classid = %s and objid = 1
            and database = (select oid from pg_database where datname = current_database()) and pid <> %s
    """
    with running(pair[0].run, stop), running(pair[1].run, stop):
        eventually(lambda: mq.scalar(states) == ["active", "active"])
        stranger.execute("select pg_advisory_unlock_all()")
        eventually(lambda: mq.scalar(states) == ["active", "standby"])
        assert mq.scalar(holders, LEADER, stranger.info.backend_pid) == 1
