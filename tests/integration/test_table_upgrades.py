"""Tables that an earlier release made in its users' databases are upgraded, with their rows."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from sqlalchemy import Engine, create_engine, inspect, text

import mqpg
from mqpg import errors, tables
from mqpg._sync.stores.create_tables import ensure_tables
from mqpg.user_tables import dialects
from mqpg.user_tables.tables import applied, inbox, ledger, located, offsets
from tests.support.app_with_tables import AppWithTables
from tests.support.business import INSERT
from tests.support.consuming import sent, sent_batch

pytestmark = pytest.mark.shared_database

# As the first checkouts of mqpg made them.
OLD = (
    "create table mqpg_offsets (consumer_group varchar(127) not null, topic varchar(127) not null, queue_id integer"
    " not null, next_offset bigint not null, last_message_id bigint, broker varchar(40) not null,"
    " incarnation integer not null, updated_at timestamp, primary key (consumer_group, topic, queue_id))",
    "create table mqpg_inbox (consumer_group varchar(127) not null, topic varchar(127) not null,"
    " message_id bigint not null, state varchar(8) not null, reason text, updated_at timestamp,"
    " primary key (consumer_group, topic, message_id))",
    "create table mqpg_applied (consumer_group varchar(127) not null, topic varchar(127) not null,"
    " queue_id integer not null, queue_offset bigint not null, message_id bigint not null,"
    " applied_at timestamp not null)",
)
# What mqpg_offsets has got since.
NEW = ("realigned_at timestamp", "first_offset bigint", "consumer varchar(127)")


@pytest.fixture
def engine(local_url: str) -> Iterator[Engine]:
    engine = create_engine(local_url)
    with engine.begin() as conn:
        conn.execute(text("create table business (id int)"))
        for statement in OLD:
            conn.execute(text(statement.replace(" timestamp", " datetime(6)") if "mysql" in local_url else statement))
    yield engine
    engine.dispose()


def test_rows_and_keys_of_old_tables_are_kept(mq: mqpg.Client, engine: Engine) -> None:
    mq.create_topic("orders", queues=1)
    mq.subscribe("g", "orders", "pinned")
    sent_batch(mq, "orders", [{"id": number} for number in range(3)])
    first, second, _ = (message.message_id for message in mq.fetch("orders", 0, 0))
    broker = mq.info().broker_id
    with engine.begin() as conn:
        conn.execute(text(f"insert into mqpg_offsets values ('g', 'orders', 0, 2, {second}, '{broker}', 1, null)"))
        conn.execute(text(f"insert into mqpg_inbox values ('g', 'orders', {first}, 'deferred', 'later', null)"))
        conn.execute(text(f"insert into mqpg_applied values ('g', 'orders', 0, 1, {second}, '2026-01-01 00:00:00')"))

    @mqpg.consumer("orders", group="g", database=engine, consumer="one", journal=True)
    def handle(message: mqpg.Message, conn: Any) -> None:
        conn.execute(INSERT, {"id": message.payload["id"]})

    assert handle.step(mq) == 3
    with engine.connect() as conn:
        # The first one was deferred, and the second one was applied.
        assert conn.execute(text("select id from business")).scalars().all() == [2]
        assert conn.execute(text("select broker from mqpg_inbox")).scalars().all() == [broker]
        assert conn.execute(text("select next_offset, broker from mqpg_offsets")).all() == [(3, broker)]
        journal = conn.execute(text("select queue_offset, broker from mqpg_applied order by queue_offset")).all()
        assert journal == [(1, None), (2, broker)]
    for table in (offsets, inbox, applied):
        with engine.connect() as conn:
            dialects.verify(conn, table)
    assert {"mqpg_inbox_before", "mqpg_offsets_before"}.isdisjoint(inspect(engine).get_table_names())


def test_the_refusal_names_the_statements(engine: Engine) -> None:
    with engine.connect() as conn:
        with pytest.raises(
            errors.LedgerError, match=r"lacks the columns broker, subscription_id.*alter table mqpg_app"
        ):
            dialects.verify(conn, applied)
        with pytest.raises(errors.LedgerError, match=r"lacks the columns broker.*mqpg_inbox"):
            dialects.verify(conn, inbox)
        with pytest.raises(
            errors.LedgerError, match=r"lacks the columns consumer, first_offset, realigned_at.*mqpg_off"
        ):
            dialects.verify(conn, offsets)
        for column in NEW:
            conn.execute(text(f"alter table mqpg_offsets add column {column}"))
        with pytest.raises(errors.LedgerError, match=r"must have the primary key.*mqpg_offsets"):
            dialects.verify(conn, offsets)


def test_another_key_is_not_changed(local_url: str) -> None:
    engine = create_engine(local_url)
    with engine.begin() as conn:
        keyless = OLD[0].replace(
            ", primary key (consumer_group, topic, queue_id)", "".join(f", {column}" for column in NEW)
        )
        conn.execute(text(keyless))
        with pytest.raises(errors.LedgerError, match=r"primary key \(.*\), but has none$"):
            dialects.verify(conn, offsets)
    engine.dispose()


def test_a_journal_beside_the_queue(mq: mqpg.Client, db: psycopg.Connection[Any]) -> None:
    mq.create_topic("orders", queues=1)
    sent(mq, "orders", {"id": 1})
    db.execute(OLD[2].encode())

    @mqpg.consumer("orders", group="g", journal=True)
    def handle(message: mqpg.Message, conn: psycopg.Connection[Any]) -> None:
        pass

    assert handle.step(mq) == 1
    assert db.execute("select broker from mqpg_applied").fetchall() == [(mq.info().broker_id,)]


@pytest.mark.parametrize("own_database", [False, True])
@pytest.mark.parametrize("existing", [False, True])
def test_a_journal_can_be_published(
    own_database: bool, existing: bool, mq: mqpg.Client, dsn: str, db: psycopg.Connection[Any]
) -> None:
    """A publication stops UPDATE of tables without a replica identity, and a consumer that was moved back makes one."""
    mq.create_topic("orders", queues=1)
    sent(mq, "orders", {"id": 1})
    db.execute("create publication everything for all tables")
    if existing:
        db.execute(OLD[2].encode())
    url = dsn.replace("postgresql://", "postgresql+psycopg://")

    @mqpg.consumer("orders", group="g", journal=True, database=url if own_database else None)
    def handle(message: mqpg.Message, conn: Any) -> None:
        pass

    assert handle.step(mq) == 1
    handle.close()
    assert db.execute("update mqpg_applied set queue_offset = 0").rowcount == 1


# As 0.1.0 made it in PostgreSQL and SQLite.
LEDGER = (
    "create table mqpg_ledger (handle varchar(200) primary key, entry varchar(8) not null, topic varchar(127),"
    " payload text, created_at timestamp not null, done_at timestamp)",
    "create index mqpg_ledger_open on mqpg_ledger (created_at, handle) where done_at is null",
)


@pytest.mark.parametrize("upgrade", ["library", "alembic"])
def test_the_branch_of_alembic_upgrades_as_the_library_does(engine: Engine, tmp_path: Path, upgrade: str) -> None:
    """Columns, keys, indexes and rows are the same, whoever upgrades."""
    on_mysql = engine.dialect.name == "mysql"
    with engine.begin() as conn:
        for statement in LEDGER[: 1 if on_mysql else 2]:
            conn.execute(text(statement.replace("timestamp", "datetime(6)") if on_mysql else statement))
        conn.execute(text("insert into mqpg_offsets values ('g', 'orders', 0, 2, 7, 'b', 1, null)"))
        conn.execute(text("insert into mqpg_inbox values ('g', 'orders', 6, 'deferred', 'later', null)"))
        conn.execute(text("insert into mqpg_applied values ('g', 'orders', 0, 1, 7, '2026-01-01 00:00:00')"))
    if upgrade == "library":
        with mqpg.Ledger(engine) as store:
            store.create()
            ensure_tables(store.database, offsets, inbox, applied)
    else:
        url = engine.url.render_as_string(hide_password=False)
        app = AppWithTables(tmp_path / "app", url, locations="mqpg:user_tables/versions")
        app.upgrade("mqpg_tables@head")
        app.downgrade("mqpg_tables@base")
        app.upgrade("mqpg_tables@head")
    with engine.connect() as conn:
        for table in (ledger, offsets, inbox, applied):
            dialects.verify(conn, table)
        assert conn.execute(text("select broker, state from mqpg_inbox")).all() == [("b", "deferred")]
        assert conn.execute(text("select broker, queue_offset from mqpg_applied")).all() == [(None, 1)]
        assert conn.execute(text("select broker, next_offset, first_offset from mqpg_offsets")).all() == [
            ("b", 2, None)
        ]
    if not on_mysql:
        assert [one["name"] for one in inspect(engine).get_indexes("mqpg_ledger")] == ["mqpg_ledger_undone"]
    assert {"mqpg_inbox_before", "mqpg_offsets_before"}.isdisjoint(inspect(engine).get_table_names())


def test_the_branch_looks_where_the_metadata_has_the_tables(new_database: Callable[..., str], tmp_path: Path) -> None:
    url = new_database(empty=True).replace("postgresql://", "postgresql+psycopg://", 1)
    engine = create_engine(url)
    with engine.begin() as conn:
        conn.execute(text("create schema billing"))
        for statement in (*OLD, *LEDGER):
            conn.execute(
                text(statement.replace("table mqpg_", "table billing.mqpg_").replace("on mqpg_", "on billing.mqpg_"))
            )
    app = AppWithTables(tmp_path / "app", url, locations="mqpg:user_tables/versions")
    tables.add_to(app.metadata, ledger=True, consumer=True, schema="billing")
    app.upgrade("mqpg_tables@head")
    with engine.connect() as conn:
        for table in (ledger, offsets, inbox, applied):
            dialects.verify(conn, located(table, "billing"))
    engine.dispose()


def test_the_branch_comes_before_the_tables_too(local_url: str, tmp_path: Path) -> None:
    """Where there is nothing to upgrade it does nothing, and offline it prints nothing of it."""
    app = AppWithTables(tmp_path / "app", local_url, locations="mqpg:user_tables/versions")
    app.upgrade("mqpg_tables@head")
    command.upgrade(app.config, "mqpg_tables@head", sql=True)
    assert "mqpg_ledger" not in app.printed.getvalue()
