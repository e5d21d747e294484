"""An application with an Alembic environment of its own, in a folder."""

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config

ENV = """
import logging, runpy
from alembic import context
from sqlalchemy import create_engine, pool
import mqpg.alembic

config = context.config
url = config.get_main_option("sqlalchemy.url")
metadata = runpy.run_path(config.get_main_option("models"))["metadata"]
options = {"target_metadata": metadata, "include_name": lambda name, kind, parents: name != "mqpg"}

if context.is_offline_mode():
    context.configure(url=url, literal_binds=True, **options)
    with context.begin_transaction():
        context.run_migrations()
else:
    engine = create_engine(url, poolclass=pool.NullPool)
    with engine.connect() as connection:
        context.configure(connection=connection, **options)
        with context.begin_transaction():
            context.run_migrations()
"""
TEMPLATE = '''"""${message}"""
from alembic import op
import sqlalchemy as sa
${imports if imports else ""}

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = ${repr(depends_on)}


def upgrade():
    ${upgrades if upgrades else "pass"}


def downgrade():
    ${downgrades if downgrades else "pass"}
'''
MODELS = """
import datetime
import mqpg
from sqlalchemy import Column, Integer, MetaData, Table
metadata = MetaData()
"""


@dataclass
class DeclaringApp:
    """Its folder and its database."""

    folder: Path
    url: str
    revisions: list[str] = field(default_factory=list)
    installs_broker: bool = False  # with the revisions of mqpg beside its own

    def __post_init__(self) -> None:
        (self.folder / "versions").mkdir(parents=True)
        (self.folder / "env.py").write_text(ENV)
        (self.folder / "script.py.mako").write_text(TEMPLATE)
        self.models("")

    def models(self, text: str) -> None:
        """What the application declares now."""
        (self.folder / "models.py").write_text(MODELS + text)

    def config(self, output: io.StringIO | None = None) -> Config:
        config = Config(output_buffer=output, stdout=io.StringIO())
        config.set_main_option("script_location", str(self.folder))
        config.set_main_option("path_separator", "newline")
        if self.installs_broker:
            config.set_main_option("version_locations", f"{self.folder}/versions\nmqpg:schema/versions")
        config.set_main_option("sqlalchemy.url", self.url.replace("%", "%%"))
        config.set_main_option("models", str(self.folder / "models.py"))
        return config

    def generate(self) -> str:
        """The text between Alembic's marks in a new revision: upgrade, then downgrade."""
        place: dict[str, Any] = {}
        if self.installs_broker:
            head = self.revisions[-1] if self.revisions else "base"
            place = {"head": head, "depends_on": "mqpg@0001", "version_path": str(self.folder / "versions")}
        script: Any = command.revision(self.config(), "generated", autogenerate=True, **place)
        self.revisions.append(script.revision)
        return Path(script.path).read_text().partition("def upgrade")[2]

    def directives(self) -> tuple[list[str], list[str]]:
        """The calls of a new revision: of its upgrade and of its downgrade."""
        up, _, down = self.generate().partition("def downgrade")
        return _calls(up), _calls(down)

    def upgrade(self, revision: str = "heads") -> None:
        command.upgrade(self.config(), revision)

    def downgrade(self, revision: str = "-1") -> None:
        command.downgrade(self.config(), revision)

    def script(self, revisions: str, *, down: bool = False) -> str:
        """The SQL of some revisions, in offline mode."""
        output = io.StringIO()
        (command.downgrade if down else command.upgrade)(self.config(output), revisions, sql=True)
        return output.getvalue()

    def write(self, upgrade: str, downgrade: str = "pass") -> None:
        """A revision by hand."""
        script: Any = command.revision(self.config(), "by hand")
        path = Path(script.path)
        text = (
            path.read_text().replace("    pass\n", f"    {upgrade}\n", 1).replace("    pass\n", f"    {downgrade}\n", 1)
        )
        path.write_text(text)


def _calls(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines()[1:]]
    return [line for line in lines if line and not line.startswith("# ###")]
