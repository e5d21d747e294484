"""Where mqpg's tables are and who creates them: the arguments `schema` and `create_tables`, and printed DDL."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, MetaData, create_engine, event, inspect, make_url, text
from sqlalchemy.orm import Session

import mqpg
from mqpg import Verdict, errors, protocols, tables
from mqpg.workers.ledgers import open_ledger
from tests.support.business import INSERT
from tests.support.consuming import sent
from tests.support.in_process import Run

pytestmark = pytest.mark.shared_database

EVERY_TABLE = set(tables.metadata().tables)


@pytest.fixture
def engine(local_url: str) -> Iterator[Engine]:
    """A user's database with a table `business` and a schema `billing`."""
    engine = create_engine(local_url)
    if engine.dialect.name == "sqlite":
        event.listen(
            engine, "connect", lambda driver, _: driver.execute(f"attach '{engine.url.database}.2' as billing")
        )
    elif engine.dialect.name == "mysql":
        with engine.begin() as conn:
            conn.exec_driver_sql("create or replace database billing")
    with engine.begin() as conn:
        if engine.dialect.name == "postgresql":
            conn.exec_driver_sql("create schema billing")
        conn.execute(text("create table business (id integer primary key)"))
    yield engine
    engine.dispose()


def found(engine: Engine, schema: str | None = None) -> set[str]:
    return EVERY_TABLE & set(inspect(engine).get_table_names(schema))


def consumer(engine: Engine | None, **options: Any) -> mqpg.Consumer:
    @mqpg.consumer("orders", group="g", database=engine, consumer="one", journal=True, **options)
    def handle(message: mqpg.Message, conn: Any) -> None:
        if engine is not None:
            conn.execute(INSERT, {"id": message.payload["id"]})

    return handle


def test_all_stores_work_in_a_schema(mq: mqpg.Client, engine: Engine, orders: str) -> None:
    with mqpg.Ledger(engine, schema="billing") as ledger:
        producer = mqpg.TransactionalProducer(mq, group="shop", ledger=ledger, keep_messages=True)
        producer.create_ledger()
        with producer.transaction("orders", {"id": 1}) as tx:
            tx.execute(INSERT, {"id": 100})
            tx.commit_payload({"id": 2})
        handle = mq.prepare("orders", {"id": 3}, "shop", ledger=ledger.identity())
        assert ledger.verdict(handle, identity=ledger.identity()) is Verdict.ROLLBACK
        assert producer.recover(older_than=timedelta(0)) >= 0
        assert producer.recover_lost() == []
        assert protocols.Reconciler(mq, ledger).step() == []
        assert ledger.purge() == 0
        assert len(ledger.known_identities()) == 1
    with protocols.OutboxProducer(mq, database=engine, schema="billing") as outbox, Session(engine) as session:
        outbox.create_outbox()
        outbox.send("orders", {"id": 4}, conn=session)
        session.commit()
        assert outbox.recover(older_than=timedelta(0)) == 1
    with protocols.Inbox(engine, name="i", schema="billing") as inbox, engine.begin() as conn:
        inbox.create_inbox()
        inbox.prepare(conn, "h", [5])
        assert inbox.commit(conn, "h") == [5]
    mq.append()
    handled = consumer(engine, schema="billing")
    mq.subscribe("g", "orders", "pinned")
    while handled.step(mq):
        pass
    with engine.connect() as conn:
        assert list(conn.execute(text("select id from business order by id")).scalars()) == [2, 4, 100]
    assert (found(engine, "billing"), found(engine)) == (EVERY_TABLE, set())
    assert protocols.realign(mq, engine, "g", "orders", schema="billing") == []


async def test_async_stores_too(amq: mqpg.AsyncClient, tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}"
    stores: list[tuple[Any, str]] = [
        (mqpg.AsyncLedger(url, create_tables=False), "create"),
        (mqpg.AsyncTransactionalProducer(amq, group="g", ledger=url, create_tables=False), "create_ledger"),
        (protocols.AsyncOutboxProducer(amq, database=url, create_tables=False), "create_outbox"),
        (protocols.AsyncInbox(url, name="i", create_tables=False), "create_inbox"),
    ]
    for store, create in stores:
        with pytest.raises(errors.LedgerError, match="mqpg tables sql --dialect sqlite"):
            await getattr(store, create)()
        await store.close()


def test_nothing_is_created_without_leave(mq: mqpg.Client, engine: Engine, orders: str) -> None:
    """The error names the command and Alembic's way."""
    kind = engine.dialect.name
    ledger = mqpg.Ledger(engine, schema="billing", create_tables=False)
    producer = mqpg.TransactionalProducer(mq, group="shop", ledger=engine, keep_messages=True, create_tables=False)
    outbox = protocols.OutboxProducer(mq, database=engine, create_tables=False)
    inbox = protocols.Inbox(engine, name="i", create_tables=False)
    refused: list[tuple[Callable[[], object], str]] = [
        (ledger.create, f"{kind} --schema billing ledger` prints"),
        (ledger.identity, f"{kind} --schema billing ledger` prints"),
        (lambda: ledger.verdict("b.1.1.x"), r"add_to\(target_metadata, ledger=True\)"),
        (producer.create_ledger, f"no table mqpg_ledger in .*--dialect {kind} ledger`"),
        (lambda: producer.transaction("orders", 1).__enter__(), f"--dialect {kind} ledger`"),
        (outbox.create_outbox, f"--dialect {kind} outbox` prints"),
        (lambda: outbox.send("orders", 1), r"add_to\(target_metadata, outbox=True\)"),
        (inbox.create_inbox, f"--dialect {kind} prepared` prints"),
        (lambda: consumer(engine, create_tables=False).step(mq), f"--dialect {kind} consumer` prints"),
    ]
    for call, why in refused:
        with pytest.raises(errors.LedgerError, match=why):
            call()
    assert (found(engine), found(engine, "billing")) == (set(), set())


@pytest.mark.parametrize("schema", [None, "billing"])
def test_a_column_is_not_added_without_leave(mq: mqpg.Client, engine: Engine, orders: str, schema: str | None) -> None:
    place = "" if schema is None else f"{schema}."
    handled = consumer(engine, schema=schema)
    handled.step(mq)
    with engine.begin() as conn:
        conn.exec_driver_sql(f"alter table {place}mqpg_applied drop column subscription_id")
    wanted = "lacks the columns subscription_id.*alter table .*alembic upgrade mqpg_tables@head"
    with pytest.raises(errors.LedgerError, match=wanted):
        consumer(engine, schema=schema, create_tables=False).step(mq)
    assert "subscription_id" not in [one["name"] for one in inspect(engine).get_columns("mqpg_applied", schema)]
    assert consumer(engine, schema=schema).step(mq) == 0
    assert "subscription_id" in [one["name"] for one in inspect(engine).get_columns("mqpg_applied", schema)]


@pytest.mark.parametrize("schema", [None, "billing"])
def test_the_printed_statements_make_all_tables(
    mq: mqpg.Client, engine: Engine, orders: str, run: Run, schema: str | None
) -> None:
    where = ["--schema", schema] if schema else []
    status, printed, _ = run("tables", "sql", "--dialect", engine.dialect.name, *where)
    assert status == 0
    with engine.begin() as conn:
        for statement in filter(str.strip, printed.split(";")):
            conn.exec_driver_sql(statement)
    assert found(engine, schema) == EVERY_TABLE
    with mqpg.Ledger(engine, schema=schema, create_tables=False) as ledger:
        ledger.create(keep_messages=True, identify=True)
    protocols.OutboxProducer(mq, database=engine, schema=schema, create_tables=False).create_outbox()
    protocols.Inbox(engine, name="i", schema=schema, create_tables=False).create_inbox()
    assert consumer(engine, schema=schema, create_tables=False).step(mq) == 0


def test_a_journal_beside_the_queue(mq: mqpg.Client, db: psycopg.Connection[Any], orders: str) -> None:
    sent(mq, "orders", {"id": 1})
    db.execute("create schema billing")
    with pytest.raises(errors.LedgerError, match=r"no table billing\.mqpg_applied.* --schema billing consumer`"):
        consumer(None, schema="billing", create_tables=False).step(mq)
    assert consumer(None, schema="billing").step(mq) == 1
    assert db.execute("select count(*) from billing.mqpg_applied").fetchone() == (1,)
    sent(mq, "orders", {"id": 2})
    assert consumer(None, schema="billing", create_tables=False).step(mq) == 1
    db.execute("alter table billing.mqpg_applied drop column broker")
    with pytest.raises(errors.LedgerError, match="lacks the columns broker; create_tables=False"):
        consumer(None, schema="billing", create_tables=False).step(mq)


def test_relay_topics_have_their_inbox_there(mq: mqpg.Client, db: psycopg.Connection[Any], engine: Engine) -> None:
    db.execute("create schema billing")
    mq.create_topic("relayed", queues=1, kind="relay")
    mq.create_producer_group("shop")

    def applies(**options: Any) -> list[Any]:
        seen: list[Any] = []

        @mqpg.consumer("relayed", mode="pinned", schema="billing", **options)
        def handle(message: mqpg.Message, conn: Any) -> None:
            seen.append(message.payload)

        handle.step(mq)
        for number in (1, 2):
            handle_ = mq.prepare("relayed", {"id": number}, "shop")
            mq.commit(handle_)
        mq.append()
        while handle.step(mq):
            pass
        return seen

    assert applies(group="beside") == [{"id": 1}, {"id": 2}]
    assert applies(group="apart", database=engine)[-2:] == [{"id": 1}, {"id": 2}]
    assert "mqpg_prepared" in found(engine, "billing")
    assert db.execute("select count(*) from billing.mqpg_prepared").fetchone() == (0,)


def test_two_schemas_are_two_places(engine: Engine) -> None:
    """Ledgers of two schemas are two ledgers, and their consumers of one host have two names."""
    one, other = (mqpg.Ledger(engine, schema=schema) for schema in (None, "billing"))
    assert one.database.place != other.database.place
    names = {consumer_of(engine, schema).options.name for schema in (None, "billing")}
    assert len(names) == 2


@pytest.mark.parametrize(
    ("main", "pragma", "refused"),
    [
        ("shop.db", "pragma billing.journal_mode = wal", True),
        ("shop.db", "pragma main.journal_mode = wal", True),
        ("shop.db", "pragma billing.journal_mode = off", True),
        ("shop.db", "pragma main.journal_mode = memory", True),
        ("", "pragma billing.journal_mode = delete", True),
        ("shop.db", "pragma billing.journal_mode = truncate", False),
        ("shop.db", "pragma main.journal_mode = persist", False),
    ],
)
def test_two_files_that_are_not_committed_at_once_are_refused(
    mq: mqpg.Client, tmp_path: Path, main: str, pragma: str, refused: bool
) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / main if main else ''}")

    def attach(driver: Any, record: Any) -> None:
        driver.execute(f"attach '{tmp_path / 'billing.db'}' as billing")
        driver.execute(pragma).fetchall()

    event.listen(engine, "connect", attach)
    ledger, plain = mqpg.Ledger(engine, schema="billing"), mqpg.Ledger(engine)
    for one in (ledger, plain):
        one.create()
    assert plain.verdict("b.1.7.x") is Verdict.ROLLBACK
    if refused:
        with pytest.raises(errors.LedgerError, match="use journal_mode=delete in both, or one file"):
            ledger.verdict("b.1.7.x")
        with pytest.raises(errors.LedgerError, match="use journal_mode=delete in both, or one file"):
            consumer(engine, schema="billing").step(mq)
    else:
        assert ledger.verdict("b.1.7.x") is Verdict.ROLLBACK
    engine.dispose()


def consumer_of(engine: Engine, schema: str | None) -> mqpg.Consumer:
    @mqpg.consumer("orders", group="g", database=engine, schema=schema)
    def handle(message: mqpg.Message, conn: Any) -> None:
        """Do nothing."""

    return handle


@pytest.mark.parametrize("schema", ["", 7])
def test_a_schema_is_a_name(schema: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="schema must"):
        mqpg.Ledger("sqlite://", schema=schema)
    with pytest.raises(errors.InvalidArgument, match="schema must"):
        tables.metadata(schema=schema)
    with pytest.raises(errors.ConfigurationError, match="schema must"):
        consumer(None, schema=schema)


def test_arguments_that_do_not_go_together(mq: mqpg.Client) -> None:
    with pytest.raises(errors.ConfigurationError, match="arguments of the ledger"):
        mqpg.TransactionalProducer(mq, group="g", ledger=mqpg.Ledger("sqlite://"), schema="billing")
    with pytest.raises(errors.ConfigurationError, match="schema and create_tables are for tables"):
        mqpg.consumer("orders", group="g", effect="external", create_tables=False)
    with pytest.raises(errors.InvalidArgument, match=r"metadata must be SQLAlchemy's MetaData"):
        tables.add_to(object())  # type: ignore[arg-type]


def test_a_metadata_has_what_is_chosen() -> None:
    assert set(tables.metadata(ledger=True, outbox=True).tables) == {"mqpg_ledger", "mqpg_outbox", "mqpg_outbox_count"}
    own = MetaData(schema="shop")
    tables.add_to(own, ledger=True)
    tables.add_to(own, ledger=True, prepared=True)
    tables.add_to(own, ledger=True, schema="billing")
    assert set(own.tables) == {"shop.mqpg_ledger", "shop.mqpg_prepared", "billing.mqpg_ledger"}


def test_commands_and_workers_find_a_schema_by_the_url(
    mq: mqpg.Client, new_database: Callable[..., str], run: Run, orders: str
) -> None:
    """`options=-csearch_path=…` is libpq's own parameter."""
    plain = make_url(new_database(empty=True)).set(drivername="postgresql+psycopg")
    engine = create_engine(plain)
    with engine.begin() as conn:
        conn.exec_driver_sql("create schema billing")
    url = plain.update_query_dict({"options": "-csearch_path=billing"}).render_as_string(hide_password=False)
    assert run("ledger", "create", url)[0] == 0
    assert (found(engine), found(engine, "billing")) == (set(), {"mqpg_ledger"})
    with mqpg.Ledger(engine, schema="billing", create_tables=False) as ledger, open_ledger(url) as workers:
        identity = ledger.identity()
        committed, unknown = (mq.prepare("orders", 1, "shop", ledger=identity) for _ in range(2))
        with engine.begin() as conn:
            ledger.begin(conn, committed, "orders")
        assert workers.verdict(committed, identity=identity) is Verdict.COMMIT
        assert workers.verdict(unknown, identity=identity) is Verdict.ROLLBACK
        producer = mqpg.TransactionalProducer(mq, group="shop", ledger=ledger)
        assert producer.recover(older_than=timedelta(0)) == 2
    assert run("ledger", "purge", url, "--days", "0")[1].startswith("deleted 2 rows")
    engine.dispose()
