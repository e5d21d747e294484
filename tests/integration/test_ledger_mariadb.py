"""What is special about a ledger in MariaDB or MySQL: keys, engines, flushing, lock time-outs, deadlocks (T3).

Run by make test-mariadb; the tests of test_ledger.py, test_producer.py and test_consumer.py run there, too.
"""

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, insert, select, text
from sqlalchemy.exc import DBAPIError

import mqpg
from mqpg import Verdict, errors
from mqpg.user_tables.tables import ledger as table
from mqpg.user_tables.tables import offsets
from mqpg.workers.ledgers import open_ledger
from tests.fixtures.mariadb import MariaDB

pytestmark = pytest.mark.mariadb

HANDLE = "b.1.7.x"
LOCK = text("select id from business where id = :id for update")
DDL = (
    "create table mqpg_ledger (handle varchar(200) {key}, entry varchar(8), topic varchar(127), payload longtext,"
    " created_at datetime(6), done_at datetime(6){keys}) engine = {engine}"
)


@pytest.fixture
def ledger(mariadb_url: str) -> Iterator[mqpg.Ledger]:
    with mqpg.Ledger(mariadb_url) as ledger:
        ledger.create()
        yield ledger


@pytest.fixture
def engine(mariadb_url: str) -> Iterator[Engine]:
    """The business's engine, with the server's own isolation level REPEATABLE READ."""
    engine = create_engine(mariadb_url)
    yield engine
    engine.dispose()


@pytest.fixture
def business(ledger: mqpg.Ledger, engine: Engine) -> Engine:
    with engine.begin() as conn:
        conn.execute(text("create table business (id int primary key) engine = innodb"))
        conn.execute(text("insert into business values (1), (2)"))
    return engine


def commit(ledger: mqpg.Ledger, handle: str = HANDLE) -> None:
    with ledger.database.engine.begin() as conn:
        ledger.begin(conn, handle, "orders")


# the tables


def test_names_that_differ_in_case_are_two(ledger: mqpg.Ledger) -> None:
    commit(ledger, "b.1.7.x")
    assert ledger.verdict("B.1.7.x") is Verdict.ROLLBACK
    assert ledger.verdict("b.1.7.x") is Verdict.COMMIT


def test_offsets_of_names_that_differ_in_case_are_two(mariadb_url: str, engine: Engine) -> None:
    offsets.metadata.create_all(engine)
    row = {"queue_id": 0, "next_offset": 1, "broker": "b", "incarnation": 1}
    with engine.begin() as conn:
        conn.execute(insert(offsets), [row | {"consumer_group": g, "topic": t} for g in "gG" for t in ("t", "T")])


def test_times_are_the_servers_in_utc_to_the_microsecond(ledger: mqpg.Ledger) -> None:
    for number in range(5):
        commit(ledger, f"b.1.{number}.x")
    times = [row.created_at for row in ledger._open_rows()]
    assert any(at.microsecond % 1000 for at in times)
    assert times == sorted(times)
    assert abs(datetime.now(UTC) - times[0].replace(tzinfo=UTC)) < timedelta(minutes=1)


def test_a_final_payload_of_a_megabyte_is_kept_whole(ledger: mqpg.Ledger) -> None:
    payload = '"' + "é" * 500_000 + '"'
    with ledger.database.engine.begin() as conn:
        ledger.begin(conn, HANDLE)
        ledger.set_payload(conn, HANDLE, payload)
    kept = ledger.final_payload(HANDLE)
    assert kept is not None
    assert kept.raw == payload


@pytest.mark.parametrize(
    ("key", "keys", "engine", "complaint"),
    [
        ("primary key", "", "MyISAM", "must be in the engine InnoDB, not MyISAM"),
        ("primary key", "", "Aria", "must be in the engine InnoDB, not Aria"),
        ("", ", primary key (handle(10))", "InnoDB", "whole columns, not on their first letters"),
        ("", "", "InnoDB", r"must have the primary key \(handle\), but has none"),
        ("", ", unique key (handle)", "InnoDB", r"must have the primary key \(handle\), but has none"),
    ],
)
def test_a_table_that_cannot_fence_is_refused(
    mariadb_url: str, mariadb: MariaDB, key: str, keys: str, engine: str, complaint: str
) -> None:
    mariadb.execute(DDL.format(key=key, keys=keys, engine=engine), mariadb_url.rpartition("/")[2])
    with mqpg.Ledger(mariadb_url) as ledger, pytest.raises(errors.LedgerError, match=complaint):
        ledger.verdict(HANDLE)


def test_a_missing_right_is_an_error_not_a_wait(mariadb: MariaDB, ledger: mqpg.Ledger, mariadb_url: str) -> None:
    database = mariadb_url.rpartition("/")[2]
    mariadb.execute(f"create user reader_{database}@'127.0.0.1'")
    mariadb.execute(f"grant select on {database}.* to reader_{database}@'127.0.0.1'")
    reader = mariadb.url(database, f"reader_{database}")
    with mqpg.Ledger(reader) as denied, pytest.raises(errors.LedgerError, match="INSERT command denied"):
        denied.verdict(HANDLE)


# finality, with what InnoDB adds


def test_a_snapshot_from_before_the_fence_does_not_hide_it(ledger: mqpg.Ledger, business: Engine) -> None:
    """In REPEATABLE READ the local transaction reads what was before the fence, and still fails on
    its key.
    """
    with business.connect() as conn:
        conn.execute(text("select * from business")).all()
        assert ledger.verdict(HANDLE) is Verdict.ROLLBACK
        assert conn.execute(select(table)).all() == []
        with pytest.raises(errors.Fenced):
            ledger.begin(conn, HANDLE)
        conn.rollback()
    assert ledger.verdict(HANDLE) is Verdict.ROLLBACK


def test_two_checkers_that_wait_for_one_that_rolls_back_agree(ledger: mqpg.Ledger, engine: Engine) -> None:
    """Both checkers get a shared lock on the key and want an exclusive one.

    This is a deadlock, whose victim says wait.
    """
    said: list[Verdict] = []
    with engine.connect() as conn:
        ledger.begin(conn, HANDLE)
        asking = [threading.Thread(target=lambda: said.append(ledger.verdict(HANDLE, 20))) for _ in range(3)]
        for thread in asking:
            thread.start()
        time.sleep(0.5)
        conn.rollback()
    for thread in asking:
        thread.join(30)
    assert len(said) == 3
    assert set(said) <= {Verdict.ROLLBACK, Verdict.WAIT}
    assert Verdict.ROLLBACK in said
    assert ledger.verdict(HANDLE) is Verdict.ROLLBACK
    with engine.connect() as conn, pytest.raises(errors.Fenced):
        ledger.begin(conn, HANDLE)


def test_a_locked_range_makes_it_wait(ledger: mqpg.Ledger, engine: Engine) -> None:
    with engine.connect() as conn:
        conn.execute(text("select * from mqpg_ledger where handle > 'a' for update")).all()
        look = ledger._look_up(HANDLE, lock_timeout=1)
    assert look.verdict is Verdict.WAIT
    assert "lock wait timeout" in str(look.reason).lower()
    assert ledger.verdict(HANDLE) is Verdict.ROLLBACK


def test_a_locked_table_makes_it_wait(ledger: mqpg.Ledger, mariadb: MariaDB, mariadb_url: str) -> None:
    """innodb_lock_wait_timeout does not end the wait for a metadata lock."""
    assert ledger.verdict(HANDLE) is Verdict.ROLLBACK
    admin = mariadb.connect(mariadb_url.rpartition("/")[2])
    admin.cursor().execute("lock tables mqpg_ledger write")
    began = time.monotonic()
    assert ledger.verdict("b.1.8.x", lock_timeout=1) is Verdict.WAIT
    assert time.monotonic() - began < 45
    admin.close()
    assert ledger.verdict("b.1.8.x") is Verdict.ROLLBACK


def test_a_server_that_is_read_only_makes_it_wait(own_mariadb: MariaDB) -> None:
    url = own_mariadb.create_database()
    own_mariadb.execute("create user app@'127.0.0.1'")
    own_mariadb.execute("grant all on *.* to app@'127.0.0.1'")
    own_mariadb.execute("revoke super, read only admin on *.* from app@'127.0.0.1'")
    with mqpg.Ledger(url.replace("root", "app")) as ledger:
        ledger.create()
        own_mariadb.execute("set global read_only = on")
        look = ledger._look_up(HANDLE)
        assert (look.verdict, "read-only" in str(look.reason)) == (Verdict.WAIT, True)
        own_mariadb.execute("set global read_only = off")
        assert ledger.verdict(HANDLE) is Verdict.ROLLBACK


def test_the_victim_of_a_deadlock_that_goes_on_does_not_send(
    ledger: mqpg.Ledger, business: Engine, mq: mqpg.Client, orders: str
) -> None:
    """The server has rolled everything back, the ledger row too.

    What the block does afterwards is another transaction.
    """
    held = threading.Event()

    def other() -> None:
        with business.begin() as conn:
            for number in range(10, 40):  # the larger one survives
                conn.execute(text("insert into business values (:n)"), {"n": number})
            conn.execute(LOCK, {"id": 2})
            held.set()
            conn.execute(LOCK, {"id": 1})

    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=business)
    thread = threading.Thread(target=other)

    def victim() -> None:
        with producer.transaction(orders, {"id": 3}) as tx:
            tx.execute(LOCK, {"id": 1})
            thread.start()
            assert held.wait(45)
            with pytest.raises(DBAPIError, match="1213"):
                tx.execute(LOCK, {"id": 2})
            tx.execute(text("insert into business values (3)"))

    with pytest.raises(errors.WrongState):
        victim()
    thread.join(20)
    mq.append()
    mq.subscribe("g", orders)
    assert mq.receive("g", orders) == []
    with business.connect() as conn:
        assert conn.execute(text("select count(*) from business where id = 3")).scalar() == 0


def test_an_engine_in_autocommit_mode_is_refused(
    mariadb_url: str, ledger: mqpg.Ledger, mq: mqpg.Client, orders: str
) -> None:
    engine = create_engine(mariadb_url, isolation_level="AUTOCOMMIT")
    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=engine)
    with pytest.raises(errors.LedgerError, match="autocommit"), producer.transaction(orders, {"id": 3}):
        pass
    engine.dispose()


def test_rows_that_nobody_has_committed_are_not_read(mariadb_url: str, mq: mqpg.Client, orders: str) -> None:
    """Recovery would send a message whose business is rolled back."""
    engine = create_engine(mariadb_url, isolation_level="READ UNCOMMITTED")
    for create in (
        mqpg.Ledger(mariadb_url).create,
        mqpg.protocols.OutboxProducer(mq, database=mariadb_url).create_outbox,
    ):
        create()
    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=engine)
    outbox = mqpg.protocols.OutboxProducer(mq, group="shop", database=engine)
    with pytest.raises(errors.LedgerError, match="READ UNCOMMITTED"):
        producer.recover(older_than=timedelta(0))
    with pytest.raises(errors.LedgerError, match="READ UNCOMMITTED"):
        outbox.recover(older_than=timedelta(0))
    with mqpg.Ledger(engine) as ledger, pytest.raises(errors.LedgerError, match="READ UNCOMMITTED"):
        ledger._committed_before("b", 2, "")
    engine.dispose()


# what is committed is on disk before the verdict counts


def log_position(server: MariaDB) -> dict[str, int]:
    rows: list[Any] = server.execute("show global status like 'Innodb_lsn%'")
    return {name: int(value) for name, value in rows}


@pytest.mark.parametrize("at_commit", [0, 1, 2])
def test_a_commit_verdict_comes_after_the_flush(own_mariadb: MariaDB, at_commit: int) -> None:
    with mqpg.Ledger(own_mariadb.create_database()) as ledger:
        ledger.create()
        own_mariadb.execute(f"set global innodb_flush_log_at_trx_commit = {at_commit}")
        commit(ledger)
        wanted = log_position(own_mariadb)["Innodb_lsn_current"]
        assert ledger.verdict(HANDLE) is Verdict.COMMIT
        assert log_position(own_mariadb)["Innodb_lsn_flushed"] >= wanted


@pytest.mark.parametrize("asked", [True, False])
def test_a_local_transaction_that_was_found_committed_outlives_the_server(own_mariadb: MariaDB, asked: bool) -> None:
    """Commits stay in memory for seconds here, or until the server is stopped.

    `kill -9` loses a commit that no check-back asked about, and no other one.
    """
    own_mariadb.stop()
    own_mariadb.start(innodb_flush_log_at_trx_commit=0, innodb_flush_log_at_timeout=5 if asked else 2700)
    with mqpg.Ledger(own_mariadb.create_database()) as ledger:
        ledger.create()  # which the server flushes
        commit(ledger)
        if asked:
            assert ledger.verdict(HANDLE) is Verdict.COMMIT
        own_mariadb.kill()
        assert ledger.verdict(HANDLE) is Verdict.WAIT
        own_mariadb.start()
        assert ledger.verdict(HANDLE) is (Verdict.COMMIT if asked else Verdict.ROLLBACK)


def test_flushes_that_come_too_seldom_are_an_error_not_a_guess(own_mariadb: MariaDB) -> None:
    own_mariadb.execute("set global innodb_flush_log_at_trx_commit = 2")
    own_mariadb.execute("set global innodb_flush_log_at_timeout = 60")
    with mqpg.Ledger(own_mariadb.create_database()) as ledger:
        ledger.create()
        commit(ledger)
        with pytest.raises(errors.LedgerError, match="innodb_flush_log_at_timeout"):
            ledger.verdict(HANDLE)
        with pytest.raises(errors.LedgerError, match="innodb_flush_log_at_timeout"):
            ledger.verdict("b.1.8.x")  # a fence that a crash can take away is none


@pytest.mark.parametrize("twice", [False, True])
def test_a_fence_outlives_the_server(own_mariadb: MariaDB, twice: bool) -> None:
    """The verdict counts once the fence is on disk, whichever checker wrote it.

    The model calls this case fence-unflushed.
    """
    own_mariadb.stop()
    own_mariadb.start(innodb_flush_log_at_trx_commit=0, innodb_flush_log_at_timeout=5)
    with mqpg.Ledger(own_mariadb.create_database()) as ledger:
        ledger.create()
        if twice:  # another checker's, committed and not flushed
            with ledger.database.engine.begin() as conn:
                conn.execute(text(
                    "insert into mqpg_ledger (handle, entry, created_at) values (:h, 'fence', utc_timestamp(6))"
                ), {"h": HANDLE})  # fmt: skip
        assert ledger.verdict(HANDLE) is Verdict.ROLLBACK
        own_mariadb.kill()
        own_mariadb.start()
        with ledger.database.engine.connect() as conn, pytest.raises(errors.Fenced):
            ledger.begin(conn, HANDLE)


def test_recovery_sends_what_is_on_disk(own_mariadb: MariaDB, mq: mqpg.Client, orders: str) -> None:
    """The broker must not know a commit that a crash takes away.

    The model calls this case recover-unflushed.
    """
    own_mariadb.stop()
    own_mariadb.start(innodb_flush_log_at_trx_commit=0, innodb_flush_log_at_timeout=5)
    with mqpg.TransactionalProducer(mq, group="shop", ledger=own_mariadb.create_database()) as producer:
        producer.create_ledger()
        handle = mq.prepare(orders, {"id": 1}, "shop")
        with producer.ledger.database.engine.begin() as conn:
            producer.ledger.begin(conn, handle, orders)
        assert producer.recover(older_than=timedelta(0)) == 1
        own_mariadb.kill()
        own_mariadb.start()
        assert producer.ledger.verdict(handle) is Verdict.COMMIT


def test_an_outbox_sends_what_is_on_disk(own_mariadb: MariaDB, mq: mqpg.Client, orders: str) -> None:
    own_mariadb.stop()
    own_mariadb.start(innodb_flush_log_at_trx_commit=0, innodb_flush_log_at_timeout=5)
    url = own_mariadb.create_database()
    with mqpg.protocols.OutboxProducer(mq, database=url) as producer:
        producer.create_outbox()
        with producer.outbox.database.engine.begin() as conn:
            conn.execute(text("create table business (id int primary key)"))
        with producer.outbox.database.engine.begin() as conn:
            conn.execute(text("insert into business values (1)"))
            producer.send(orders, {"id": 1}, conn=conn)
        assert producer.recover(older_than=timedelta(0)) == 1
        own_mariadb.kill()
        own_mariadb.start()
        with producer.outbox.database.engine.connect() as conn:
            assert conn.execute(text("select count(*) from business")).scalar() == 1


def test_an_open_local_transaction_is_rolled_back_by_the_crash_and_cannot_come_back(own_mariadb: MariaDB) -> None:
    with mqpg.Ledger(own_mariadb.create_database()) as ledger:
        ledger.create()
        conn = ledger.database.engine.connect()
        ledger.begin(conn, HANDLE)
        assert ledger.verdict(HANDLE) is Verdict.WAIT
        own_mariadb.kill()
        own_mariadb.start()
        assert ledger.verdict(HANDLE) is Verdict.ROLLBACK
        with pytest.raises(DBAPIError):
            conn.execute(select(table))
        conn.close()
        with pytest.raises(errors.Fenced), ledger.database.engine.begin() as late:
            ledger.begin(late, HANDLE)


def test_a_frozen_server_makes_it_wait(own_mariadb: MariaDB) -> None:
    """The server stays connected and answers nothing.

    The compensator's connections have time-outs.
    """
    url = own_mariadb.create_database()
    with mqpg.Ledger(url) as ledger:
        ledger.create()
        commit(ledger)
    with open_ledger(f"{url}?read_timeout=4&connect_timeout=4") as asked:
        assert asked.verdict("b.1.8.x") is Verdict.ROLLBACK
        own_mariadb.freeze()
        assert asked.verdict(HANDLE) is Verdict.WAIT
        own_mariadb.thaw()
        assert asked.verdict(HANDLE) is Verdict.COMMIT
