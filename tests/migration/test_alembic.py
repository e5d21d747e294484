"""The schema as a branch of Alembic: in an app's environment, online and offline, and beside `mqpg migrate`."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.script import ScriptDirectory
from alembic.util import CommandError

import mqpg
from mqpg import errors, migrate
from mqpg.schema.source import REVISIONS, packaged
from tests.migration.catalog import FROZEN, catalog, comparable
from tests.support.alembic_app import App
from tests.support.releases import HEAD, later_release
from tests.support.roles import Roles


@pytest.fixture
def app(tmp_path: Path, empty_dsn: str) -> App:
    return App(tmp_path / "app", empty_dsn)


def test_each_migration_has_a_revision() -> None:
    scripts = ScriptDirectory(str(REVISIONS), version_locations=[str(REVISIONS)])
    found = [script.revision for script in scripts.walk_revisions()][::-1]
    assert found == [f"{migration.number:04}_mqpg" for migration in packaged().migrations]
    names = {path.stem for path in REVISIONS.glob("0*.py")}
    assert names == {f"{migration.number:04}_{migration.name}" for migration in packaged().migrations}


def test_app_and_broker_come_up_together(app: App, dsn: str) -> None:
    """In a database that they share. The app's revisions keep their role and their path."""
    app.revision("first")
    app.upgrade()
    assert catalog(app.dsn) == catalog(dsn)
    assert migrate.status(app.dsn).up_to_date
    with psycopg.connect(app.dsn) as connection:
        assert connection.execute("select who, path from app_first").fetchone() == (
            connection.info.user,
            '"$user", public',
        )
        versions = {name for (name,) in connection.execute("select version_num from alembic_version")}
    assert versions == {"first", f"{migrate.head():04}_mqpg"}
    migrate.upgrade(app.dsn)
    assert catalog(app.dsn) == catalog(dsn)


def by_upgrade(app: App, psql: Callable[[str, str], None]) -> None:
    migrate.upgrade(app.dsn)


def by_script(app: App, psql: Callable[[str, str], None]) -> None:
    psql(app.dsn, migrate.script())


def by_app(app: App, psql: Callable[[str, str], None]) -> None:
    app.upgrade("mqpg@head")


def by_script_of_app(app: App, psql: Callable[[str, str], None]) -> None:
    with psycopg.connect(app.dsn) as connection:
        connection.execute("drop table if exists public.alembic_version")  # the script makes it
    psql(app.dsn, app.script("mqpg@head"))


WAYS = [by_upgrade, by_script, by_app, by_script_of_app]


@pytest.mark.parametrize(
    "start", [None, *FROZEN], ids=lambda path: path.name.removesuffix(".sql.gz") if path else "new"
)
@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_one_catalog(
    app: App, dsn: str, psql: Callable[[str, str], None], way: Callable[..., None], start: Path | None
) -> None:
    """And each other way then finds nothing to do."""
    if start:
        with psycopg.connect(app.dsn, autocommit=True) as connection:
            connection.execute(gzip.decompress(start.read_bytes()))
    way(app, psql)
    assert comparable(app.dsn) == comparable(dsn)
    assert migrate.status(app.dsn).up_to_date
    if start is None:
        before = catalog(app.dsn)
        assert before == catalog(dsn)
        for other in {*WAYS} - {way}:
            other(app, psql)
        assert catalog(app.dsn) == before


def test_an_upgrade_of_the_app_alone_runs_what_it_depends_on(app: App) -> None:
    app.revision("first")
    app.upgrade("first")
    assert migrate.status(app.dsn).up_to_date


def test_a_transaction_for_each_migration(tmp_path: Path, empty_dsn: str, dsn: str) -> None:
    app = App(tmp_path / "app", empty_dsn, per_migration=True)
    app.revision("first")
    app.upgrade()
    assert catalog(empty_dsn) == catalog(dsn)


def test_the_script_of_an_app_leaves_role_and_path_to_its_own_revisions(
    app: App, psql: Callable[[str, str], None]
) -> None:
    app.revision("first")
    psql(app.dsn, app.script())
    with psycopg.connect(app.dsn) as connection:
        found = connection.execute("select who, path from app_first").fetchone()
        assert found == (connection.info.user, '"$user", public')


def test_an_app_has_revisions_of_the_same_number(app: App) -> None:
    app.revision("0001", depends_on="mqpg@0009")
    app.upgrade()
    with psycopg.connect(app.dsn) as connection:
        assert connection.execute("select count(*) from app_0001").fetchone() == (1,)


def test_an_app_that_fails_leaves_nothing(app: App) -> None:
    app.revision("first")
    app.revision("second", depends_on="mqpg@0001")
    text = (app.folder / "versions" / "second.py").read_text()
    (app.folder / "versions" / "second.py").write_text(text.replace("as select", "as select 1 / 0,"))
    with pytest.raises(Exception, match="division by zero"):
        app.upgrade()
    assert migrate.status(app.dsn).current is None


def test_there_is_no_way_back(app: App) -> None:
    app.revision("first")
    app.upgrade()
    with pytest.raises((errors.ConfigurationError, CommandError), match="no way back"):
        app.downgrade("mqpg@base")
    app.downgrade("first@base")  # of the app alone
    assert migrate.status(app.dsn).up_to_date


def test_other_roles_do_not_use_what_the_apps_transaction_may(app: App) -> None:
    """The version table of the app belongs to its role, and mqpg's to the owner of the schema."""
    app.upgrade()
    with psycopg.connect(app.dsn) as connection:
        owners = connection.execute(
            "select relnamespace::regnamespace::text, relowner::regrole::text from pg_class "
            "where relname = 'alembic_version' order by 1"
        ).fetchall()
        assert owners == [("mqpg", "mqpg_owner"), ("public", connection.info.user)]


def test_a_role_that_only_uses_the_broker_finds_it_there(
    db: psycopg.Connection[Any], roles: Roles, tmp_path: Path
) -> None:
    """The operators have installed it, and the app's role is no member of the owner."""
    role = roles("app")
    db.execute(f"grant create, usage on schema public to {role.name}")
    with pytest.raises(Exception, match=f"{role.name} is not a member of mqpg_owner"):
        App(tmp_path / "without", role.dsn).upgrade()
    db.execute("select mqpg.create_topic('t'), mqpg.grant_send('t', %s)", [role.name])
    App(tmp_path / "with", role.dsn).upgrade()


def test_a_revision_of_the_app_in_mqpgs_folder_is_named(tmp_path: Path) -> None:
    """Alembic writes it there, if an app has no branch yet."""
    source = later_release(tmp_path / "sql")
    (source.revisions / "7f27e334da36_first.py").write_text(
        f"revision, down_revision = '7f27e334da36', '{HEAD + 1:04}_mqpg'\ndef upgrade(): pass\n"
    )
    with pytest.raises(
        errors.ConfigurationError, match=r"7f27e334da36_first\.py is not a revision of mqpg: .*--head base"
    ):
        migrate.script(source=source)


def test_an_app_may_write_its_revisions_beside_mqpgs(dsn: str, db: psycopg.Connection[Any], tmp_path: Path) -> None:
    """An environment whose version table is mqpg.alembic_version. Clients do not mind its rows."""
    source = later_release(tmp_path / "sql")
    app = App(tmp_path / "app", dsn, table_in="mqpg", source=source)
    app.revision("first")
    app.upgrade()
    versions = {name for (name,) in db.execute("select version_num from mqpg.alembic_version")}
    assert versions == {"first", f"{HEAD + 1:04}_mqpg"}
    assert migrate.status(dsn, source=source).up_to_date
    mqpg.connect(dsn).close()
    migrate.upgrade(dsn, source=source)


def test_a_version_table_that_was_emptied_is_named(dsn: str, db: psycopg.Connection[Any]) -> None:
    db.execute("delete from mqpg.alembic_version")
    with pytest.raises(errors.SchemaMissing):
        mqpg.connect(dsn)
    with pytest.raises(errors.DatabaseError, match="alembic_version does not say which revision"):
        migrate.upgrade(dsn)
