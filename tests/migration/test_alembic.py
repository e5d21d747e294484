"""The schema as a branch of Alembic: in an app's environment, online and offline, and beside `mqpg migrate`."""

import io
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from mqpg import migrate
from mqpg.schema.source import REVISIONS, packaged
from tests.migration.catalog import catalog

# What `alembic init` writes, in short.
ENV = """
import sqlalchemy
from alembic import context

url = context.config.get_main_option("sqlalchemy.url")
if context.is_offline_mode():
    context.configure(url=url, literal_binds=True, dialect_opts={"paramstyle": "named"})
    with context.begin_transaction():
        context.run_migrations()
else:
    with sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool).connect() as connection:
        context.configure(connection=connection, transaction_per_migration=PER_MIGRATION)
        with context.begin_transaction():
            context.run_migrations()
"""
APP = """
from alembic import op

revision, down_revision, depends_on = "{revision}", None, {depends_on!r}

def upgrade():
    op.execute("create table app_{revision} as select current_user as who, current_setting('search_path') as path")
    op.execute("select mqpg.create_topic('orders_{revision}')")

def downgrade():
    op.execute("drop table app_{revision}")
"""


class App:
    """An app with an Alembic environment of its own, as in the documentation."""

    def __init__(self, folder: Path, dsn: str, *, per_migration: bool = False) -> None:
        self.folder = folder
        self.dsn = dsn
        (folder / "versions").mkdir(parents=True)
        (folder / "env.py").write_text(ENV.replace("PER_MIGRATION", str(per_migration)))
        self.written = io.StringIO()
        ini = folder / "alembic.ini"
        with psycopg.connect(dsn) as connection:
            info = connection.info
            url = f"postgresql+psycopg://{info.user}:{info.password}@{info.host}:{info.port}/{info.dbname}"
        ini.write_text(
            "[alembic]\n"
            f"script_location = {folder}\n"
            "path_separator = newline\n"
            "version_locations =\n"
            f"    {folder}/versions\n"
            "    mqpg:schema/versions\n"
            f"sqlalchemy.url = {url}\n"
        )
        self.config = Config(str(ini), output_buffer=self.written)

    def revision(self, name: str, depends_on: str | None = "mqpg@0001") -> None:
        """Add a revision of the app's own."""
        (self.folder / "versions" / f"{name}.py").write_text(APP.format(revision=name, depends_on=depends_on))

    def upgrade(self, target: str = "heads") -> None:
        command.upgrade(self.config, target)

    def script(self, target: str = "heads") -> str:
        command.upgrade(self.config, target, sql=True)
        return self.written.getvalue()


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
