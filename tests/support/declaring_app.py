"""An application with an Alembic environment of its own, in a folder."""

import io
import runpy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config

from tests.support.app_with_tables import environment

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
        environment(self.folder)
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
        metadata = runpy.run_path(str(self.folder / "models.py"))["metadata"]
        options = {"target_metadata": metadata, "include_name": lambda name, kind, parents: name != "mqpg"}
        config.attributes |= {"url": self.url, "options": options}
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
