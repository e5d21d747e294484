"""Ledgers and journals in SQLite and in the broker's own database."""

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row
from sqlalchemy.exc import OperationalError

from mqpg.audit.options import AuditOptions
from mqpg.audit.report import Report
from mqpg.audit.sql.sources import open_source
from mqpg.audit.sql.sqlalchemy_source import SqlalchemySource
from mqpg.audit.verdict import Verdict
from tests.audit.judged import found, require_valid
from tests.audit.story import LEDGER_DDL, Story, Trio

RunAudit = Callable[[AuditOptions], Report]


@pytest.fixture
def sqlite(tmp_path: Path, story: Story) -> Path:
    """Ledger, journal and offsets of the story, copied into a SQLite file."""
    path = tmp_path / "shop.db"
    tables = {"mqpg_ledger": story.ledger, "mqpg_applied": story.consumer, "mqpg_offsets": story.consumer}
    with sqlite3.connect(path) as copy:
        for table, connection in tables.items():
            rows = connection.execute(f"select * from {table}").fetchall()
            columns = ", ".join(rows[0])
            copy.execute(f"create table {table} ({columns})")
            copy.executemany(
                f"insert into {table} ({columns}) values ({', '.join('?' * len(rows[0]))})",
                [[str(v) if hasattr(v, "tzinfo") else v for v in row.values()] for row in rows],
            )
    copy.close()
    return path


def test_sqlite_is_opened_for_reading(sqlite: Path) -> None:
    sqlite.chmod(0o444)
    with open_source(f"sqlite:///{sqlite}") as source:
        assert isinstance(source, SqlalchemySource)
        with pytest.raises(OperationalError, match="readonly"):
            source.connection.exec_driver_sql("delete from mqpg_applied")


def test_ledger_and_journal_in_sqlite(run_audit: RunAudit, trio: Trio, sqlite: Path) -> None:
    url = f"sqlite:///{sqlite}"
    options = AuditOptions(dsn=trio.broker, ledgers={"shop": url}, applied={"board": url})
    with sqlite3.connect(sqlite) as changed:
        changed.execute("delete from mqpg_applied where rowid = 1")
        changed.execute("create table mqpg_inbox (consumer_group, topic, message_id, state)")
    changed.close()
    report = run_audit(options)
    assert found(report) == {"lost": 1}
    # The lost message was a plain send, so the ledger is not concerned.
    assert (report.relations[0].confirmed, report.relations[0].ids_equal) == (15, True)


def test_journal_and_ledger_in_the_brokers_own_database(run_audit: RunAudit, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as db:
        db.execute("select mqpg.create_topic('orders', 1)")
        db.execute("select mqpg.create_producer_group('shop', checker => 'ledger')")
        db.execute("select mqpg.subscribe('board', 'orders')")
        db.execute(
            "create table mqpg_applied (consumer_group varchar(127), topic varchar(127), queue_id int, "
            "queue_offset bigint, message_id bigint, applied_at timestamptz)"
        )
        for business in (True, True, False):
            row = db.execute("select mqpg.prepare('orders', '{}'::text, 'shop') as handle").fetchone()
            assert row is not None
            if business:
                db.execute("select mqpg.local_begin(%s)", (row["handle"],))
            db.execute("select mqpg.commit(%s)" if business else "select mqpg.rollback(%s)", (row["handle"],))
        db.execute("select mqpg.append()")
        with db.transaction():
            rows = db.execute("select * from mqpg.receive('board', 'orders')").fetchall()
            for row in rows:
                db.execute(
                    "insert into mqpg_applied values ('board', 'orders', %s, %s, %s, clock_timestamp())",
                    (row["queue_id"], row["queue_offset"], row["message_id"]),
                )
            db.execute("select mqpg.ack(%s)", (rows[0]["receipt"],))
        report = require_valid(run_audit(AuditOptions(dsn=dsn, drained=True)))
        (relation,) = report.relations
        assert (relation.ledger, relation.confirmed, relation.consumed, relation.ids_equal) == ("shop", 2, 2, True)


def test_a_ledger_table_in_the_brokers_own_database(audit: Callable[..., Report], trio: Trio, story: Story) -> None:
    """It is the producer's table, although the broker's own ledger is there too."""
    story.broker.execute(LEDGER_DDL)
    for row in story.ledger.execute("select * from mqpg_ledger"):
        story.broker.execute(
            "insert into mqpg_ledger values (%(handle)s, %(entry)s, %(topic)s, %(created_at)s, %(done_at)s)", row
        )
    report = require_valid(audit(ledgers={"shop": trio.broker}))
    assert (report.relations[0].confirmed, report.relations[0].ids_equal) == (15, True)


def test_tables_in_a_schema(audit: Callable[..., Report], trio: Trio, story: Story) -> None:
    """The URL has it, as libpq does: `options=-csearch_path=…`."""
    for connection in (story.ledger, story.consumer):
        connection.execute("create schema billing")
        for row in connection.execute("select tablename from pg_tables where tablename like 'mqpg!_%' escape '!'"):
            connection.execute(f"alter table {row['tablename']} set schema billing".encode())
    options = "-csearch_path=billing"
    report = audit(
        ledgers={"shop": make_conninfo(trio.ledger, options=options)},
        applied={"board": make_conninfo(trio.consumer, options=options)},
    )
    require_valid(report)
    assert (report.relations[0].confirmed, report.relations[0].ids_equal) == (15, True)


def test_deferred_messages_count_as_retrying(audit: Callable[..., Report], story: Story) -> None:
    """The consumer has gone on in its own database, and not yet nacked the message."""
    story.drain()
    message = story.business()
    story.append()
    rows = story.broker.execute("select * from mqpg.receive('board', 'orders', consumer => 'c1')").fetchall()
    assert [row["message_id"] for row in rows] == [message]
    story.consumer.execute(
        "update mqpg_offsets set next_offset = next_offset + 1 where queue_id = %s", (rows[0]["queue_id"],)
    )
    story.consumer.execute(
        "create table mqpg_inbox (consumer_group varchar(127), topic varchar(127), message_id bigint, state varchar(8))"
    )
    story.consumer.execute("insert into mqpg_inbox values ('board', 'orders', %s, 'deferred')", (message,))
    report = require_valid(audit())
    assert report.groups[0]["retrying"] == 1


def test_purged_ledger_rows_are_no_anomaly(audit: Callable[..., Report], story: Story) -> None:
    story.ledger.execute("delete from mqpg_ledger where done_at is not null")
    report = audit(ledger_keep=timedelta(0))
    assert report.verdict is Verdict.VALID
    assert report.relations[0].purged == report.relations[0].consumed == 14


def test_only_what_is_asked_for(audit: Callable[..., Report], story: Story) -> None:
    story.broker.execute("select mqpg.create_topic('other', 1)")
    story.broker.execute("select mqpg.send('other', '{}'::text)")
    story.broker.execute("select mqpg.subscribe('idle', 'orders')")
    report = require_valid(audit(topics=("orders",), groups=("board",), drained=True))
    assert [row["topic"] for row in report.topics] == ["orders"]
    assert [row["consumer_group"] for row in report.groups] == ["board"]


def test_dropped_topic_is_not_audited(audit: Callable[..., Report], story: Story) -> None:
    story.broker.execute("select mqpg.drop_topic('orders', force => true)")
    story.broker.execute("select mqpg.create_topic('orders', 2)")
    story.broker.execute("select mqpg.subscribe('board', 'orders', mode => 'pinned')")
    story.consumer.execute("delete from mqpg_offsets")
    story.broker.execute("select mqpg.send('orders', '{}'::text)")
    story.drain()
    report = require_valid(audit())
    assert report.groups[0]["applied"] == 1


def test_several_databases_of_one_group_are_joined(run_audit: RunAudit, trio: Trio, story: Story, sqlite: Path) -> None:
    """Each half of the ledger's and of the journal's rows is in a database of its own."""
    with sqlite3.connect(sqlite) as copy:
        for table, column, connection in (
            ("mqpg_ledger", "handle", story.ledger),
            ("mqpg_applied", "message_id", story.consumer),
        ):
            names = sorted(row[0] for row in copy.execute(f"select distinct {column} from {table}"))
            copy.executemany(f"delete from {table} where {column} = ?", [(name,) for name in names[::2]])
            for name in names[1::2]:
                connection.execute(f"delete from {table} where {column} = %s", (name,))
        # The queue was another member's before, whose position stays where it was.
        copy.execute("update mqpg_offsets set next_offset = 1 where next_offset > 1")
    copy.close()
    url = f"sqlite:///{sqlite}"
    one = trio.options()
    ledgers = {"shop": [one.ledgers["shop"], url]}
    applied = {"board": [one.applied["board"], url]}
    report = require_valid(run_audit(trio.options(ledgers=ledgers, applied=applied)))
    assert [relation.confirmed for relation in report.relations] == [15]
    for alone in ({"ledgers": ledgers}, {"applied": applied}):
        assert run_audit(trio.options(**alone)).verdict is Verdict.INVALID
