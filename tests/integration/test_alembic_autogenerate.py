"""Alembic's autogenerate in an application beside mqpg: it leaves the tables alone, or makes them itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, inspect, text
from sqlalchemy.engine import make_url

import mqpg
import mqpg.alembic
from mqpg import protocols, tables
from tests.support.app_with_tables import AppWithTables
from tests.support.business import INSERT

FILTERS: dict[str, Any] = {
    "include_name": mqpg.alembic.include_name,
    "include_object": mqpg.alembic.include_object,
}
EVERY_TABLE = sorted(tables.metadata().tables)


@pytest.fixture(params=["postgresql", "sqlite", pytest.param("mariadb", marks=pytest.mark.mariadb), "the broker's"])
def app_url(request: pytest.FixtureRequest, new_database: Callable[..., str], dsn: str, tmp_path: Path) -> str:
    """The database of an application: its own, of each kind, or that of the broker."""
    if request.param == "mariadb":
        return str(request.getfixturevalue("mariadb_url"))
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'app.db'}"
    one = new_database(empty=True) if request.param == "postgresql" else dsn
    return one.replace("postgresql://", "postgresql+psycopg://", 1)


@pytest.fixture
def engine(app_url: str) -> Any:
    engine = create_engine(app_url)
    yield engine
    engine.dispose()


def create_everything(url: str, mq: mqpg.Client, **options: Any) -> None:
    """Let the library create all its tables, as programs that use them do."""
    mq.create_topic("created", queues=1)
    with mqpg.Ledger(url, **options) as ledger:
        ledger.create(keep_messages=True)
    with protocols.OutboxProducer(mq, database=url, **options) as outbox:
        outbox.create_outbox()
    with protocols.Inbox(url, name="one", **options) as inbox:
        inbox.create_inbox()

    @mqpg.consumer("created", group="creator", database=url, **options)
    def handle(message: mqpg.Message, conn: Any) -> None:
        raise AssertionError("there is no message")

    assert handle.step(mq) == 0
    handle.close()


def use_everything(url: str, mq: mqpg.Client, **options: Any) -> None:
    """Transactional producer, outbox, inbox and consumer with a journal, one message each."""
    mq.create_topic("used", queues=1)
    mq.create_producer_group("users", checker="due_checks")
    mq.subscribe("user", "used", "pinned")
    with mqpg.TransactionalProducer(mq, group="users", ledger=url, keep_messages=True, **options) as producer:
        producer.create_ledger()
        with producer.transaction("used", {"id": 1}) as tx:
            tx.execute(INSERT, {"id": 1})
        assert producer.recover_lost() == []
    with protocols.OutboxProducer(mq, database=url, group="users", **options) as outbox:
        outbox.create_outbox()
        with outbox.transaction("used", {"id": 2}) as tx:
            tx.execute(INSERT, {"id": 2})
        outbox.send("used", {"id": 3})
    own = create_engine(url)
    with protocols.Inbox(own, name="one", **options) as inbox, own.begin() as conn:
        inbox.create_inbox()
        inbox.prepare(conn, "h", {"id": 4})
        assert inbox.commit(conn, "h") == {"id": 4}
    own.dispose()
    mq.append()
    found = []

    @mqpg.consumer("used", group="user", database=url, journal=True, **options)
    def handle(message: mqpg.Message, conn: Any) -> None:
        found.append(message.payload["id"])
        conn.execute(INSERT, {"id": 10 + message.payload["id"]})

    while handle.step(mq):
        pass
    handle.close()
    assert sorted(found) == [1, 2, 3]


@pytest.mark.parametrize("include_schemas", [False, True])
def test_nothing_is_written_beside_mqpg(
    app_url: str, engine: Engine, mq: mqpg.Client, tmp_path: Path, include_schemas: bool
) -> None:
    create_everything(app_url, mq)
    app = AppWithTables(tmp_path / "app", app_url, include_schemas=include_schemas, **_only_mine(app_url))
    assert "create_table('business'" in app.autogenerate()
    app.upgrade()
    assert app.differences() == []
    assert set(EVERY_TABLE) <= set(inspect(engine).get_table_names())


def test_without_the_filters_the_ledger_would_be_dropped(app_url: str, mq: mqpg.Client, tmp_path: Path) -> None:
    """What the filters are for."""
    create_everything(app_url, mq)
    written = AppWithTables(tmp_path / "app", app_url).autogenerate()
    assert all(f"drop_table('{table}')" in written for table in EVERY_TABLE)


def test_functions_of_the_application_come_on_top(local_url: str, mq: mqpg.Client, tmp_path: Path) -> None:
    create_everything(local_url, mq)
    engine = create_engine(local_url)
    with engine.begin() as conn:
        conn.execute(text("create table of_another_team (id integer primary key)"))
    engine.dispose()

    def include_object(object: Any, name: str | None, *rest: Any) -> bool:
        return name != "of_another_team" and mqpg.alembic.include_object(object, name, *rest)

    app = AppWithTables(tmp_path / "app", local_url, include_object=include_object)
    app.autogenerate()
    app.upgrade()
    assert app.differences() == []


@pytest.mark.parametrize("include_schemas", [False, True])
def test_tables_of_the_metadata_come_from_autogenerate(
    app_url: str, engine: Engine, mq: mqpg.Client, tmp_path: Path, include_schemas: bool
) -> None:
    app = AppWithTables(tmp_path / "app", app_url, include_schemas=include_schemas, **_only_mine(app_url))
    tables.add_to(app.metadata)
    app.autogenerate()
    app.upgrade()
    assert set(EVERY_TABLE) <= set(inspect(engine).get_table_names())
    assert app.differences() == []
    use_everything(app_url, mq, create_tables=False)
    assert app.differences() == []


def test_they_are_those_of_the_library(local_url: str, mq: mqpg.Client, tmp_path: Path) -> None:
    """Autogenerate finds no difference between what the library has created and the MetaData."""
    create_everything(local_url, mq)
    app = AppWithTables(tmp_path / "app", local_url, **FILTERS)
    tables.add_to(app.metadata)
    app.autogenerate()
    app.upgrade()
    assert app.differences() == []


def test_beside_both_branches_of_mqpg(new_database: Callable[..., str], tmp_path: Path) -> None:
    """App, broker and user tables in one database and one environment, from nothing."""
    dsn = new_database(empty=True)
    url = dsn.replace("postgresql://", "postgresql+psycopg://", 1)
    locations = "mqpg:schema/versions mqpg:user_tables/versions"
    app = AppWithTables(tmp_path / "app", url, locations=locations, include_schemas=True, **FILTERS)
    tables.add_to(app.metadata)
    app.upgrade()
    mine = str(tmp_path / "app" / "versions")
    app.autogenerate(head="base", version_path=mine)
    app.upgrade()
    assert app.differences() == []
    with mqpg.connect(dsn) as mq:
        use_everything(url, mq, create_tables=False)
    app.downgrade("mqpg_tables@base")
    app.upgrade()
    assert app.differences() == []


@pytest.mark.parametrize("kind", ["postgresql", pytest.param("mariadb", marks=pytest.mark.mariadb)])
def test_tables_in_a_schema(
    kind: str, mq: mqpg.Client, new_database: Callable[..., str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if kind == "mariadb":
        url, schema = str(request.getfixturevalue("mariadb_url")), "Billing"
        request.getfixturevalue("mariadb").execute("create or replace database Billing")
    else:
        url = new_database(empty=True).replace("postgresql://", "postgresql+psycopg://", 1)
        schema = 'a "B" c'
    engine = create_engine(url)
    if kind == "postgresql":
        with engine.begin() as conn:
            conn.exec_driver_sql('create schema "a ""B"" c"')
    app = AppWithTables(tmp_path / "app", url, include_schemas=True, **_only_mine(url, schema))
    tables.add_to(app.metadata, schema=schema)
    app.autogenerate()
    app.upgrade()
    assert app.differences() == []
    assert set(EVERY_TABLE) <= set(inspect(engine).get_table_names(schema))
    assert not set(EVERY_TABLE) & set(inspect(engine).get_table_names())
    use_everything(url, mq, schema=schema, create_tables=False)
    assert app.differences() == []
    engine.dispose()


def _only_mine(url: str, *schemas: str) -> dict[str, Any]:
    """The filters. On MariaDB a schema is a database, and the server has others that are not the application's."""
    if not url.startswith("mysql"):
        return FILTERS
    mine = (None, make_url(url).database, *schemas)

    def include_name(name: str | None, type_: str, parent_names: Any) -> bool:
        return (type_ != "schema" or name in mine) and mqpg.alembic.include_name(name, type_, parent_names)

    return FILTERS | {"include_name": include_name}
