"""Verdicts of the ledger against real concurrent local transactions (protocol T3), on PostgreSQL and SQLite."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, NullPool, create_engine, event, select, text

import mqpg
from mqpg import errors, protocols
from mqpg.connection.dsn import to_sqlalchemy
from mqpg.user_tables.tables import ledger as table
from tests.support.losing import losing_the_unflushed

pytestmark = pytest.mark.shared_database


@pytest.fixture
def ledger(local_url: str) -> Iterator[mqpg.Ledger]:
    with mqpg.Ledger(local_url) as ledger:
        ledger.create()
        yield ledger


def test_one_that_never_comes_is_rolled_back_and_stays_so(ledger: mqpg.Ledger) -> None:
    assert ledger.verdict("b.1.7.x") is mqpg.Verdict.ROLLBACK
    # Our own fence from before a crash:
    assert ledger.verdict("b.1.7.x") is mqpg.Verdict.ROLLBACK
    with pytest.raises(errors.Fenced), ledger.database.engine.begin() as conn:
        ledger.begin(conn, "b.1.7.x")
    assert [row.entry for row in ledger._open_rows()] == ["fence"]


def test_a_full_list_of_identities_tells_what_was_lost(ledger: mqpg.Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest identities go, but not those of an hour ago, in which a half message was prepared."""
    monkeypatch.setattr("mqpg._sync.stores.ledger_identity._MOST", 3)
    gone = ledger.identity()
    for _ in range(3):
        ledger.identities.add()
    now = datetime.now(UTC)
    assert gone not in ledger.known_identities()
    assert ledger._look_up("b.1.7.x", identity=gone, born_at=now).verdict is mqpg.Verdict.ROLLBACK
    lost = ledger._look_up("b.1.8.x", identity="0a1b2c3d", born_at=now + timedelta(hours=3))
    assert (lost.verdict, lost.lost) == (mqpg.Verdict.WAIT, True)
    monkeypatch.setattr("mqpg._sync.stores.ledger_identity._AGE", 0)
    assert ledger.identity() != ledger.identity(), "a process that prepares for long renews its own"
    meanwhile, (before, *_), add = [], ledger.known_identities(), ledger.identities.add
    monkeypatch.setattr(ledger.identities, "add", lambda: (meanwhile.append(ledger.identity()), add())[1])
    assert ledger.identity() != before
    assert meanwhile == [before], "one call renews it, and others go on"
    with ledger.database.engine.connect() as conn:
        listed = conn.exec_driver_sql("select payload from mqpg_ledger where payload is not null").scalar_one()
    assert set(ledger.known_identities()) < set(listed.split()), "processes of an earlier release find theirs"


# A trigger that leaves out what is there already, as `on conflict do nothing` does, or everything.
LEAVES_OUT = {
    "postgresql": (
        "create function leave_out() returns trigger language plpgsql as "
        "$$ begin if {when} then return null; end if; return new; end $$",
        "create trigger leave_out before insert on {table} for each row execute function leave_out()",
    ),
    "sqlite": ("create trigger leave_out before insert on {table} when {when} begin select raise(ignore); end",),
}


def leave_out(engine: Engine, table: str, when: str = "1 = 1") -> None:
    with engine.begin() as conn:
        for statement in LEAVES_OUT[engine.dialect.name]:
            conn.exec_driver_sql(statement.format(table=table, when=when))


@pytest.mark.parametrize("local_url", ["postgresql", "sqlite"], indirect=True)  # MariaDB has no such triggers
def test_a_fence_that_a_trigger_leaves_out_rules_nothing(ledger: mqpg.Ledger) -> None:
    there = "exists (select 1 from mqpg_ledger where handle = new.handle)"
    leave_out(ledger.database.engine, "mqpg_ledger", f"new.entry = 'fence' or {there}")
    with ledger.database.engine.begin() as conn:
        ledger.begin(conn, "b.1.7.x")
    assert ledger.verdict("b.1.7.x") is mqpg.Verdict.COMMIT
    none = ledger._look_up("b.1.8.x")
    assert (none.verdict, "a trigger" in str(none.reason)) == (mqpg.Verdict.WAIT, True)


@pytest.mark.parametrize("local_url", ["postgresql", "sqlite"], indirect=True)  # MariaDB has no such triggers
@pytest.mark.parametrize("table", ["mqpg_ledger", "mqpg_outbox"])
def test_a_row_that_a_trigger_leaves_out_is_named(mq: mqpg.Client, topic: str, local_url: str, table: str) -> None:
    mq.create_producer_group("shop", checker="url", checker_target="shop")
    engine = create_engine(local_url)
    producer: Any = mqpg.TransactionalProducer(mq, group="shop", ledger=engine)
    producer.create_ledger()
    producer.ledger.identity()
    if table == "mqpg_outbox":
        mq.create_producer_group("out")
        producer = protocols.OutboxProducer(mq, group="out", database=engine)
        producer.create_outbox()
    leave_out(engine, table)
    with pytest.raises(errors.Error, match=r"left out its row|has no ledger row"), producer.transaction(topic, 1):
        pass
    if table == "mqpg_outbox":
        with engine.begin() as conn, pytest.raises(errors.LedgerError, match="left out its row"):
            producer.send(topic, 1, conn=conn)
    engine.dispose()


def test_an_open_one_makes_it_wait_within_the_lock_timeout(ledger: mqpg.Ledger) -> None:
    with ledger.database.engine.connect() as conn:
        ledger.begin(conn, "b.1.7.x")
        began = time.monotonic()
        assert ledger.verdict("b.1.7.x", lock_timeout=0.2) is mqpg.Verdict.WAIT
        assert time.monotonic() - began < 20
        conn.commit()
    assert ledger.verdict("b.1.7.x") is mqpg.Verdict.COMMIT


@pytest.mark.parametrize(("end", "wanted"), [("commit", "commit"), ("rollback", "rollback")])
def test_one_that_ends_while_the_fence_waits_counts(ledger: mqpg.Ledger, end: str, wanted: str) -> None:
    verdicts: list[mqpg.Verdict] = []
    with ledger.database.engine.connect() as conn:
        ledger.begin(conn, "b.1.7.x")
        asking = threading.Thread(target=lambda: verdicts.append(ledger.verdict("b.1.7.x", lock_timeout=20)))
        asking.start()
        time.sleep(0.3)
        assert asking.is_alive()
        getattr(conn, end)()
    asking.join(20)
    assert verdicts == [mqpg.Verdict(wanted)]


def test_many_races_have_one_winner_each(ledger: mqpg.Ledger) -> None:
    """Local transaction and check-back start at the same time.

    They never both win, and never both lose for good.
    """
    won: dict[str, str] = {}

    def local(handle: str, gate: threading.Barrier) -> None:
        gate.wait()
        try:
            with ledger.database.engine.begin() as conn:
                ledger.begin(conn, handle)
            won[handle] = "commit"
        except errors.Fenced:
            won[handle] = "rollback"

    for number in range(20):
        handle, gate = f"b.1.{number}.x", threading.Barrier(2)
        thread = threading.Thread(target=local, args=(handle, gate))
        thread.start()
        gate.wait()
        verdict = ledger.verdict(handle, lock_timeout=5)
        thread.join(20)
        while verdict is mqpg.Verdict.WAIT:
            verdict = ledger.verdict(handle, lock_timeout=5)
        assert won[handle] == verdict.value
        assert ledger.verdict(handle) is verdict


def test_an_unreachable_ledger_waits() -> None:
    with mqpg.Ledger("postgresql+psycopg://u@127.0.0.1:1/x?connect_timeout=2") as nowhere:
        assert nowhere.verdict("b.1.7.x") is mqpg.Verdict.WAIT


def test_a_missing_table_is_named(local_url: str) -> None:
    complaint = r"no table mqpg_ledger in .*: create it"
    with mqpg.Ledger(local_url) as ledger, pytest.raises(errors.LedgerError, match=complaint):
        ledger.verdict("b.1.7.x")


@pytest.mark.parametrize(
    ("ddl", "complaint"),
    [
        ("handle varchar(200), entry varchar(8), topic text, payload text, created_at timestamp, done_at timestamp",
         r"must have the primary key \(handle\), but has none"),
        ("handle varchar(200) primary key, entry varchar(8)", "lacks the columns created_at, done_at, payload, topic"),
        ("handle varchar(200), entry varchar(8), topic text, payload text, created_at timestamp, done_at timestamp,"
         " primary key (handle, entry)", r"must have the primary key \(handle\), but has \(entry, handle\)"),
        ("handle varchar(60) primary key, entry varchar(8), topic text, payload text, created_at timestamp,"
         " done_at timestamp", "column handle of table mqpg_ledger in .* must hold 200 characters, not 60"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_refused(local_url: str, ddl: str, complaint: str) -> None:
    ledger = mqpg.Ledger(local_url)
    with ledger.database.engine.begin() as conn:
        conn.execute(text(f"create table mqpg_ledger ({ddl})"))
    with pytest.raises(errors.LedgerError, match=complaint):
        ledger.verdict("b.1.7.x")
    ledger.close()


def test_a_deferrable_key_is_refused(empty_dsn: str) -> None:
    ledger = mqpg.Ledger(empty_dsn)
    ledger.create()
    with ledger.database.engine.begin() as conn:
        conn.execute(text("alter table mqpg_ledger drop constraint mqpg_ledger_pkey"))
        conn.execute(text("alter table mqpg_ledger add primary key (handle) deferrable initially deferred"))
    with pytest.raises(errors.LedgerError, match="must not be deferrable"):
        ledger.verdict("b.1.7.x")
    ledger.close()


@pytest.mark.parametrize(
    ("ddl", "complaint"),
    [("alter table mqpg_ledger set unlogged", "unlogged"),
     ("create temporary table mqpg_ledger (like mqpg_ledger including all)", "temporary")],
)  # fmt: skip
def test_a_table_that_a_crash_empties_is_refused(empty_dsn: str, ddl: str, complaint: str) -> None:
    engine = create_engine(to_sqlalchemy(empty_dsn), pool_size=1, max_overflow=0)
    ledger = mqpg.Ledger(engine)
    ledger.create()
    with engine.begin() as conn:
        conn.execute(text(ddl))
    with pytest.raises(errors.LedgerError, match=f"must be an ordinary table, not {complaint}"):
        ledger.verdict("b.1.7.x")
    engine.dispose()


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_commit_verdict_flushes_sqlite(tmp_path: Path, journal: str) -> None:
    """A commit of an application that does not sync goes to disk with a later write."""
    path = tmp_path / "local.db"
    with mqpg.Ledger(f"sqlite:///{path}") as ledger, sqlite3.connect(path) as watcher:
        ledger.create()
        watcher.execute(f"pragma journal_mode = {journal}")
        watcher.execute("pragma synchronous = off")
        watcher.execute("insert into mqpg_ledger (handle, entry, created_at) values ('b.1.7.x', 'local', '2026-01-01')")
        watcher.commit()
        before = watcher.execute("pragma data_version").fetchone()
        assert ledger.verdict("b.1.7.x") is mqpg.Verdict.COMMIT
        assert watcher.execute("pragma data_version").fetchone() > before  # written, so synced: see below
        assert [row.handle for row in ledger._open_rows()] == ["b.1.7.x"]
        with ledger.database.engine.connect() as conn:
            assert conn.execute(text("pragma synchronous")).scalar() == 3
    watcher.close()


def test_a_wait_says_why(ledger: mqpg.Ledger) -> None:
    with ledger.database.engine.connect() as conn:
        ledger.begin(conn, "b.1.7.x")
        look = ledger._look_up("b.1.7.x", lock_timeout=0.2)
        conn.rollback()
    assert look.verdict is mqpg.Verdict.WAIT
    assert str(look.reason).startswith("the local transaction is open: ")
    assert ledger._look_up("b.1.7.x").reason is None


@pytest.mark.chaos
@pytest.mark.parametrize("asked", [True, False])
def test_a_commit_verdict_flushes_an_asynchronous_local_commit(losing_database: str, asked: bool) -> None:
    """A crash takes the local commit away unless a check-back asked about it.

    Mutation that this notices: flush_with_commit() rewrites nothing on PostgreSQL.
    """
    with mqpg.Ledger(create_engine(to_sqlalchemy(losing_database), poolclass=NullPool)) as ledger:
        ledger.create()
        with losing_the_unflushed(losing_database):
            commit_hastily(ledger, "b.1.7.x")
            if asked:
                assert ledger.verdict("b.1.7.x") is mqpg.Verdict.COMMIT
        assert [row.handle for row in ledger._open_rows()] == (["b.1.7.x"] if asked else [])


def commit_hastily(ledger: mqpg.Ledger, handle: str) -> None:
    """Commit a local transaction of an application that turned synchronous_commit off."""
    with ledger.database.engine.begin() as conn:
        ledger.begin(conn, handle, "orders")
        conn.execute(text("set local synchronous_commit = off"))


@pytest.mark.chaos
def test_recovery_sends_only_what_is_on_disk(losing_database: str, mq: mqpg.Client, orders: str) -> None:
    """The broker must not know a commit that a crash takes away. The model calls this case recover-unflushed.

    Mutation that this notices: Recovery does not call Ledger.flush().
    """
    engine = create_engine(to_sqlalchemy(losing_database), poolclass=NullPool)
    with mqpg.TransactionalProducer(mq, group="shop", ledger=engine) as producer:
        producer.create_ledger()
        handle = mq.prepare(orders, {"id": 1}, "shop")
        with losing_the_unflushed(losing_database):
            commit_hastily(producer.ledger, handle)
            assert producer.recover(older_than=timedelta(0)) == 1
        assert mq.commit(handle) is mqpg.Outcome.ALREADY_COMMITTED
        assert producer.ledger.verdict(handle) is mqpg.Verdict.COMMIT


def test_the_local_commit_is_durable_where_the_session_is_not(empty_dsn: str) -> None:
    engine = create_engine(to_sqlalchemy(empty_dsn))
    ledger = mqpg.Ledger(engine)
    ledger.create()
    with engine.connect() as conn:
        conn.execute(text("set session synchronous_commit = off"))
        conn.commit()
        ledger.begin(conn, "b.1.7.x")
        assert conn.execute(text("show synchronous_commit")).scalar() == "on"
        conn.commit()
        assert conn.execute(text("show synchronous_commit")).scalar() == "off"
    engine.dispose()


def test_sqlite_works_on_an_engine_that_begins_transactions_itself(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'own.db'}")

    @event.listens_for(engine, "connect")
    def manual(connection: Any, record: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(conn: Any) -> None:
        conn.exec_driver_sql("begin")

    ledger = mqpg.Ledger(engine)
    ledger.create()
    with engine.begin() as conn:
        ledger.begin(conn, "b.1.1.x")
    assert ledger.verdict("b.1.1.x") is mqpg.Verdict.COMMIT
    assert ledger.verdict("b.1.2.x") is mqpg.Verdict.ROLLBACK
    engine.dispose()


def test_rows_are_marked_done_and_purged(ledger: mqpg.Ledger) -> None:
    with ledger.database.engine.begin() as conn:
        for number in range(3):
            ledger.begin(conn, f"b.1.{number}.x", "orders")
        ledger.begin(conn, "other.1.1.x", "orders")
    assert len(ledger._open_rows()) == 4
    assert [row.handle for row in ledger._open_rows(broker_id="other")] == ["other.1.1.x"]
    assert ledger._open_rows(older_than=timedelta(hours=1)) == []
    first = ledger._open_rows(2)
    assert [row.handle for row in first] + [row.handle for row in ledger._open_rows(2, after=first[-1])] == [
        "b.1.0.x", "b.1.1.x", "b.1.2.x", "other.1.1.x",
    ]  # fmt: skip
    ledger.mark_done(["b.1.0.x", "b.1.1.x"])
    assert [row.handle for row in ledger._open_rows()] == ["b.1.2.x", "other.1.1.x"]
    assert ledger.purge(timedelta(hours=1)) == 0
    time.sleep(0.01)
    assert ledger.purge(timedelta(0)) == 2
    with ledger.database.engine.connect() as conn:
        assert len(conn.execute(select(table)).all()) == 2


@pytest.mark.parametrize("name", ["before_execute", "after_execute", "before_cursor_execute", "after_cursor_execute"])
def test_an_event_sees_the_ledger_row(mq: mqpg.Client, orders: str, ledger: mqpg.Ledger, name: str) -> None:
    seen: list[str] = []
    event.listen(ledger.database.engine, name, lambda *given: seen.append(" ".join(map(str, given)).lower()))
    with mqpg.TransactionalProducer(mq, group="shop", ledger=ledger).transaction(orders, 1):
        pass
    assert [one for one in seen if "insert into mqpg_ledger" in one]
