"""adopt() makes a broker of a copy: a restored dump, a promotion, a recovery, an upgrade."""

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from mqpg import migrate
from mqpg.embedded import EmbeddedServer
from tests.support.broker import Broker, Session, cut_off, message_id, positions, refused, seconds
from tests.support.servers import drop_database, restart, temporary_server
from tests.support.waiting import eventually

pytestmark = pytest.mark.own_database  # the ids jump


@pytest.fixture(scope="module")
def server_here() -> Iterator[EmbeddedServer]:
    with temporary_server() as server:
        yield server


@pytest.fixture(scope="module")
def server_there() -> Iterator[EmbeddedServer]:
    """A cluster that has the roles of mqpg already, which a restore needs."""
    with temporary_server() as server:
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
            connection.execute(
                "create role mqpg_owner nologin; create role mqpg_asker nologin; grant mqpg_asker to mqpg_owner"
            )
        yield server


@pytest.fixture
def source(server_here: EmbeddedServer) -> Iterator[Session]:
    """A broker whose cluster has used up more transaction ids than the other one will have."""
    dsn = server_here.create_database("source")
    migrate.upgrade(dsn)
    broker = Broker(dsn)
    session = broker.session()
    session.subscribed("one")
    session.call("create_producer_group", "pg", check_after=seconds(0.01))
    yield session
    broker.close()
    drop_database(server_here, "source")


@pytest.fixture
def restore(
    server_here: EmbeddedServer, server_there: EmbeddedServer, server_bin: Callable[[str], str]
) -> Iterator[Callable[[], Session]]:
    """Run pg_dump | psql into the other cluster."""
    brokers: list[Broker] = []

    def work() -> Session:
        dsn = server_there.create_database("target")
        dump = subprocess.run(
            [server_bin("pg_dump"), "--dbname", server_here.dsn("source")], capture_output=True, check=True, timeout=60
        )
        # pg_dump 17 and newer sets a parameter that older servers do not know
        script = dump.stdout.replace(b"SET transaction_timeout = 0;\n", b"")
        subprocess.run(
            [server_bin("psql"), "-qX", "-v", "ON_ERROR_STOP=1", "--dbname", dsn],
            input=script, capture_output=True, check=True, timeout=120,
        )  # fmt: skip
        brokers.append(Broker(dsn))
        return brokers[-1].session()

    yield work
    for broker in brokers:
        broker.close()
    drop_database(server_there, "target")


def got(mq: Session, topic: str = "one") -> list[Any]:
    return [m.payload for m in mq.drain(topic)]


def later(mq: Session, n: int) -> list[Any]:
    """Append for some seconds until there are n messages, and return them."""
    taken: list[Any] = []
    eventually(lambda: (mq.append(), taken.extend(got(mq)), len(taken) >= n)[2])
    return sorted(taken)


def incarnation(mq: Session) -> int:
    return int(mq.scalar("select incarnation from mqpg.broker"))


def test_a_dump_restored_elsewhere_goes_on_where_it_was(source: Session, restore: Callable[[], Session]) -> None:
    for _ in range(400):  # the other cluster's transaction ids are smaller
        source.execute("select pg_current_xact_id()")
    source.sent_batch("one", ['"done"', '"in flight"', '"queued"'])
    source.ack(source.receive("one", max_messages=1)[0].receipt)
    old = source.receive("one", max_messages=1)[0].receipt
    handles = [source.prepare("one", f'"half {i}"') for i in range(3)]
    source.commit(handles[0])
    source.sent("one", '"delayed"', delay=seconds(0.5))
    source.send("one", '"sent"')
    source.prepare("one", '"never mind"')
    source.commit(handles[1])

    mq = restore()
    with refused("MQ016", "another cluster"):
        mq.append()
    assert "transaction ids rewritten" in mq.value("adopt")
    assert incarnation(mq) == 2

    with refused("MQ009"):
        mq.ack(old)
    assert mq.append() in (2, 3)
    assert later(mq, 6) == ["delayed", "half 0", "half 1", "in flight", "queued", "sent"]
    assert mq.append() == 0
    assert mq.commit(handles[2]) == "committed"
    assert mq.commit(handles[1]) == "already_committed"
    assert later(mq, 1) == ["half 2"]
    offsets = [p[1] for p in positions(mq, "one")]
    assert offsets == list(range(len(offsets)))


def test_after_a_restore_ids_are_new_and_every_part_works(source: Session, restore: Callable[[], Session]) -> None:
    last = source.sent("one", '"last"')
    undecided = source.prepare("one", '"u"')
    source.call("alter_subscription", "g", "one", max_attempts=1)
    (message,) = source.receive("one")
    source.nack(message.receipt, [message.message_id], reason="bad")
    mq = restore()
    mq.value("adopt")
    assert mq.send("one", '"new"') > last + 2**40
    assert mq.prepare("one", '"h"').split(".")[1] == "2"
    assert mq.append() == 1
    assert got(mq) == ["new"]
    assert mq.value("redrive", "g", "one") == 1
    mq.append()
    assert got(mq) == ["last"]
    due = eventually(lambda: mq.call("due_checks", "pg"))
    assert undecided in [row.handle for row in due]
    states = {row.state for row in mq.rows("select * from mqpg.find_by_key('one', 'none')")}
    assert states == set()
    assert mq.call("trace", last)[0].event == "born"
    for _ in range(3):
        mq.call("keep")
    mq.send("one", '"after keep"')
    assert mq.append() == 1


def test_what_had_an_offset_gets_no_second_one(source: Session, restore: Callable[[], Session]) -> None:
    with psycopg.connect(source.conn.info.dsn + f" password={source.conn.info.password}") as slow:
        slow.execute("select mqpg.send('one', '\"slow\"'::text)")
        for i in range(20):
            source.sent("one", str(i))
        slow.commit()
    mq = restore()
    mq.value("adopt")
    assert mq.append() == 1
    assert mq.append() == 0
    ids = [p[2] for p in positions(mq, "one")]
    assert len(ids) == len(set(ids)) == 21


def test_adopt_in_the_same_cluster_keeps_the_transaction_ids(mq: Session) -> None:
    """What adopt() does after a promotion. Row 1.3.25 of the failures has a real one."""
    first = mq.sent("one", "1")
    (message,) = mq.receive("one")
    handle = mq.prepare("one", '"half"')
    mq.send("one", "2")
    assert "transaction ids kept" in mq.value("adopt")
    assert incarnation(mq) == 2
    with refused("MQ009"):
        mq.ack(message.receipt)
    assert mq.send("one", "3") > first + 2**40
    assert mq.append() == 2
    assert got(mq) == [1, 2, 3]
    assert mq.commit(handle) == "committed"
    mq.append()
    assert got(mq) == ["half"]
    assert [r.event for r in mq.call("trace", first)][:2] == ["born", "appended"]


def test_a_copy_without_the_sequences_is_received_before_anything_is_appended(mq: Session) -> None:
    mq.sent("one", "1")
    mq.execute("alter sequence mqpg.tick_mark restart")
    mq.value("adopt")
    assert got(mq) == [1]


def test_a_receipt_from_behind_the_copys_time_fits_nothing(mq: Session) -> None:
    """The lost time handed out more versions than the copy knows.

    None of its receipts acknowledges anything.
    """
    mq.sent_batch("one", ["1", "2", "3"])
    mq.value("adopt")
    (subscription,) = mq.rows(
        "select s.subscription_id from mqpg.subscription s join mqpg.topic t using (topic_id) where t.name = 'one'"
    )
    rows = mq.receive("one")
    for version in (2, 50, 100_000):
        signed = mq.scalar(
            "select mqpg._receipt(s.receipt_secrets[1], %s) from mqpg.subscription s where s.subscription_id = %s",
            f"{subscription[0]}.0.{version * 1048576 + 77}.0.3",
            subscription[0],
        )
        with refused("MQ009"):
            mq.ack(signed)
    mq.ack(rows[0].receipt)


def test_an_upgraded_cluster_brings_its_transaction_ids_along(mq: Session) -> None:
    sent = mq.sent("one", "1")
    mq.send("one", "2")
    mq.execute("update mqpg.broker set system_identifier = 1")
    with refused("MQ016"):
        mq.append()
    assert "transaction ids kept" in mq.value("adopt", True)
    assert mq.append() == 1
    assert got(mq) == [1, 2]
    assert [r.event for r in mq.call("trace", sent)][:2] == ["born", "appended"]


def test_transaction_ids_that_did_not_come_along_are_not_believed(mq: Session) -> None:
    mq.sent("one", "1")
    mq.execute(
        "update mqpg.tick set snapshot_xmax = (snapshot_xmax::text::bigint + 1000000)::text::xid8"
        " where tick_id = (select max(tick_id) from mqpg.tick)"
    )
    with refused("MQ016", "same_xids must be false"):
        mq.value("adopt", True)


def test_adopt_runs_alone(mq: Session, broker: Broker) -> None:
    with mq.transaction(), refused("MQ015"):
        mq.send("one", "1")
        mq.value("adopt")
    mq.execute("update mqpg.settings set value = '100 ms' where name = 'lock_timeout'")
    with broker.transaction() as other:
        other.receive("one")
        other.execute("lock table mqpg.cursor in row exclusive mode")
        with refused("55P03"):
            mq.value("adopt")
    assert incarnation(mq) == 1


def test_an_adopt_that_is_rolled_back_leaves_the_ids_where_they_were(mq: Session, broker: Broker) -> None:
    before = mq.send("one", "0")
    handle = mq.prepare("one", '"half"')
    adopter = broker.session()
    with adopter.transaction() as transaction:
        adopter.value("adopt")
        waiting = broker.session()
        late = broker.background(waiting.send, "one", "1")
        broker.wait_blocked(waiting, 60)
        assert not late.done()
        raise psycopg.Rollback(transaction)
    assert before < late.result(60) < before + 2**30
    assert before < mq.send("one", "2") < before + 2**30
    assert before < message_id(mq.prepare("one", '"h"')) < before + 2**30
    assert mq.commit(handle, '"final"') == "committed"
    assert mq.append() == 4
    assert incarnation(mq) == 1
    adopter.value("adopt")
    assert mq.send("one", "3") > before + 2**40


def test_a_crash_within_adopt_leaves_the_ids_where_they_were(source: Session, server_here: EmbeddedServer) -> None:
    before = source.send("one", "0")
    with psycopg.connect(server_here.dsn("source"), autocommit=True) as watcher, cut_off():
        source.execute("begin")
        source.value("adopt")
        watcher.execute("checkpoint")  # what the transaction has written is on the disk
        restart(server_here)
        source.execute("commit")
    with psycopg.connect(server_here.dsn("source"), autocommit=True, row_factory=namedtuple_row) as connection:
        mq = Session(connection)
        # a crash may leave out 32 values of a sequence
        assert before < mq.send("one", "1") < before + 2**30
        assert mq.append() == 2
        assert incarnation(mq) == 1
        mq.value("adopt")
        assert mq.send("one", "2") > before + 2**40
        assert mq.append() == 1


def test_no_sender_fails_while_adopt_commits(mq: Session, broker: Broker) -> None:
    """adopt() makes ids jump at once, and the partition of the new ids is seen after its commit."""
    adopter = broker.session()
    before = mq.send("one", "0")
    with ThreadPoolExecutor(4) as pool:
        with adopter.transaction():
            adopter.value("adopt")
            sessions = [broker.session() for _ in range(4)]
            senders: list[Future[Any]] = [pool.submit(s.send, "one", str(n)) for n, s in enumerate(sessions[:3], 1)]
            senders.append(pool.submit(sessions[3].prepare, "one", '"half"'))
            waiting = "select count(*) from pg_locks where locktype = 'relation' and not granted and database = %s"
            here = mq.scalar("select oid from pg_database where datname = current_database()")
            eventually(lambda: mq.scalar(waiting, here) == 4 or any(s.done() for s in senders))
        ids = [sender.result(30) for sender in senders]
    assert all(one > before + 2**40 for one in ids[:3])
    assert mq.append() == 4
    assert sorted(got(mq)) == [0, 1, 2, 3]


def test_what_was_under_way_writes_no_version_behind_adopt(mq: Session, broker: Broker) -> None:
    """It has begun before adopt() commits, and writes afterwards. Its claim is gone."""
    mq.sent_batch("one", ["1", "2"])
    (message,) = mq.receive("one", max_messages=1)
    adopter, consumer = broker.session(), broker.session()
    with ThreadPoolExecutor(1) as pool:
        with adopter.transaction():
            adopter.value("adopt")
            late = pool.submit(consumer.ack, message.receipt)
            waiting = "select count(*) from pg_locks where not granted and relation = 'mqpg.cursor'::regclass"
            eventually(lambda: mq.scalar(waiting) == 1 or late.done())
        with refused("MQ009"):
            late.result(30)
    assert sorted(got(mq)) == [1, 2]


def test_append_refuses_another_timeline(mq: Session) -> None:
    """A promotion and a recovery to a point in time begin a new one."""
    mq.sent("one", "1")
    mq.execute("update mqpg.broker set timeline = '000000FF'")
    with refused("MQ016", "promoted or recovered"):
        mq.append()
    mq.value("adopt")
    assert mq.append() == 0


def test_adopt_promoted_leaves_a_server_that_was_not_promoted(mq: Session) -> None:
    mq.send("one", "1")
    assert mq.value("adopt_promoted") is None
    assert incarnation(mq) == 1
    mq.execute("update mqpg.broker set system_identifier = 1, timeline = '000000FF'")
    assert mq.value("adopt_promoted") is None, "a restored dump is left to a person"
    assert incarnation(mq) == 1
    with refused("MQ016"):
        mq.append()


def test_adopt_promoted_runs_alone(mq: Session) -> None:
    with mq.transaction(), refused("MQ015", "adopt_promoted() must run in a transaction of its own"):
        mq.send("one", "1")
        mq.value("adopt_promoted")


def test_several_callers_of_adopt_promoted_raise_the_incarnation_once(mq: Session, broker: Broker) -> None:
    """Two workers, or a worker and the hook of a failover manager, notice a promotion together."""
    mq.sent("one", "1")
    mq.execute("update mqpg.broker set timeline = '000000FF'")
    callers = [broker.session() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(lambda caller: caller.value("adopt_promoted"), callers))
    assert sorted(text is None for text in said) == [False, True, True, True]
    assert incarnation(mq) == 2
    mq.append()
    assert got(mq) == [1]
