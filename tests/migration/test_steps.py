"""Steps of a migration outside of a transaction: ended in the middle and run again, in each way to run them."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from mqpg import migrate
from mqpg.schema.source import Source
from tests.migration.catalog import catalog
from tests.support.alembic_app import App
from tests.support.releases import HEAD, release_with_steps
from tests.support.waiting import eventually

Connection = psycopg.Connection[Any]
Psql = Callable[[str, str], None]
Way = Callable[[str], None]
_WAITING = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return release_with_steps(tmp_path / "sql")


@pytest.fixture
def before(tmp_path: Path) -> Source:
    return release_with_steps(tmp_path / "before", steps=False)


@pytest.fixture(params=["mqpg migrate", "mqpg migrate sql", "app", "script of the app"])
def way(request: pytest.FixtureRequest, tmp_path: Path, source: Source, psql: Psql) -> Way:
    def run(dsn: str) -> None:
        if request.param == "mqpg migrate":
            migrate.upgrade(dsn, source=source)
        elif request.param == "mqpg migrate sql":
            psql(dsn, migrate.script(source=source))
        else:
            folder = tmp_path / f"app{len(list(tmp_path.iterdir()))}"
            app = App(folder, dsn, source=source)
            if request.param == "app":
                app.upgrade()
            else:
                with psycopg.connect(dsn) as connection:
                    connection.execute("drop table if exists public.alembic_version")
                psql(dsn, app.script())

    return run


def ended_where_it_waits(way: Way, dsn: str, db: Connection) -> None:
    """Run it until it waits for a lock of the test, and end its session there."""
    raised = list[BaseException]()

    def run() -> None:
        try:
            way(dsn)
        except (Exception, AssertionError) as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: db.execute(_WAITING).rowcount == 1)
    db.execute(f"select pg_terminate_backend(pid) from ({_WAITING}) as w")
    thread.join()
    assert raised


def test_a_concurrent_index(
    dsn: str, db: Connection, new_database: Callable[..., str], before: Source, source: Source, way: Way
) -> None:
    """Ended while it waits for an older transaction, it leaves an invalid index."""
    migrate.upgrade(dsn, source=before)
    with psycopg.connect(dsn) as older:
        older.execute("update mqpg.note set text = 'older' where note_id = 1")
        ended_where_it_waits(way, dsn, db)
        valid = "select indisvalid from pg_index where indexrelid = 'mqpg.note_length'::regclass"
        assert db.execute(valid).fetchone() == (False,)
        assert migrate.status(dsn).current == HEAD + 1
    finished(way, dsn, db, new_database, source)
    assert db.execute(valid).fetchone() == (True,)


def test_a_back_fill_in_batches(
    dsn: str, db: Connection, new_database: Callable[..., str], before: Source, source: Source, way: Way
) -> None:
    """It keeps what it has filled, and continues behind that."""
    migrate.upgrade(dsn, source=before)
    with psycopg.connect(dsn) as other:
        # Not a row that the build of the index waits for: the lock is taken when the index is there.
        db.execute("create index concurrently note_length on mqpg.note (length)")
        other.execute("select from mqpg.note where note_id = 2500 for update")
        ended_where_it_waits(way, dsn, db)
    assert db.execute("select count(*) from mqpg.note where length is not null").fetchone() == (2000,)
    assert migrate.status(dsn).current == HEAD + 1
    finished(way, dsn, db, new_database, source)


def test_two_migrators_at_once(dsn: str, db: Connection, before: Source, source: Source) -> None:
    """The second one waits for the steps of the first, and the index of the first need not wait for it."""
    migrate.upgrade(dsn, source=before)
    with ThreadPoolExecutor(2) as pool:
        with psycopg.connect(dsn) as older:
            older.execute("update mqpg.note set text = 'older' where note_id = 1")
            upgrades = [pool.submit(migrate.upgrade, dsn, source=source) for _ in range(2)]
            eventually(lambda: db.execute(_WAITING).rowcount == 2)
        for upgrade in upgrades:
            upgrade.result()
    assert migrate.status(dsn, source=source).up_to_date


def test_a_new_installation_runs_no_step(empty_dsn: str, way: Way, source: Source) -> None:
    way(empty_dsn)
    assert migrate.status(empty_dsn, source=source).up_to_date
    found = catalog(empty_dsn)
    way(empty_dsn)
    assert catalog(empty_dsn) == found


def test_role_and_path_are_those_of_before(dsn: str, tmp_path: Path, source: Source, psql: Psql) -> None:
    """Behind the steps, too, for the app's own revisions."""
    app = App(tmp_path / "app", dsn, source=source)
    app.revision("first", depends_on=f"mqpg@{HEAD + 2:04}")
    app.upgrade()
    with psycopg.connect(dsn) as connection:
        found = connection.execute("select who, path from app_first").fetchone()
        assert found == (connection.info.user, '"$user", public')
        owner = "select relowner::regrole::text from pg_class where oid = 'mqpg.note_length'::regclass"
        assert connection.execute(owner).fetchone() == ("mqpg_owner",)


def finished(way: Way, dsn: str, db: Connection, new_database: Callable[..., str], source: Source) -> None:
    way(dsn)
    assert db.execute("select count(*) from mqpg.note where length is null").fetchone() == (0,)
    assert migrate.status(dsn, source=source).up_to_date
    new = new_database(empty=True)
    migrate.upgrade(new, source=source)
    assert catalog(dsn) == catalog(new)
