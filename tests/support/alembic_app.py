"""An app beside mqpg with an Alembic environment of its own."""

import io
from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config

from mqpg.schema.source import Source

__all__ = ["App"]

# What `alembic init` writes, in short.
ENV = """
import sqlalchemy
from alembic import context

url = context.config.get_main_option("sqlalchemy.url")
if context.is_offline_mode():
    context.configure(url=url, literal_binds=True, dialect_opts={"paramstyle": "named"}, **context.config.attributes)
    with context.begin_transaction():
        context.run_migrations()
else:
    with sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool).connect() as connection:
        context.configure(connection=connection, transaction_per_migration=PER_MIGRATION, version_table_schema=TABLE_IN, **context.config.attributes)
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

    def __init__(
        self,
        folder: Path,
        dsn: str,
        *,
        per_migration: bool = False,
        table_in: str | None = None,
        source: Source | None = None,
    ) -> None:
        self.folder = folder
        self.dsn = dsn
        (folder / "versions").mkdir(parents=True)
        (folder / "env.py").write_text(
            ENV.replace("PER_MIGRATION", str(per_migration)).replace("TABLE_IN", repr(table_in))
        )
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
            f"    {source.revisions if source else 'mqpg:schema/versions'}\n"
            f"sqlalchemy.url = {url}\n"
        )
        self.config = Config(str(ini), output_buffer=self.written, attributes={"mqpg_source": source})

    def revision(self, name: str, depends_on: str | None = "mqpg@0001") -> None:
        """Add a revision of the app's own."""
        (self.folder / "versions" / f"{name}.py").write_text(APP.format(revision=name, depends_on=depends_on))

    def upgrade(self, target: str = "heads") -> None:
        command.upgrade(self.config, target)

    def downgrade(self, target: str) -> None:
        command.downgrade(self.config, target)

    def script(self, target: str = "heads") -> str:
        command.upgrade(self.config, target, sql=True)
        return self.written.getvalue()
