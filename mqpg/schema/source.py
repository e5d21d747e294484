"""The SQL sources of one release: tables, numbered migrations, and the code.

The code is every function, view and trigger. It is replaced as a whole. Everything else (tables,
types, indexes, settings) changes by numbered migrations only.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.resources
import re
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources.abc import Traversable

from mqpg.schema.assemble import assemble, described, manifest
from mqpg.values.errors import ConfigurationError

__all__ = ["RELEASE", "Migration", "Object", "Source", "packaged"]

RELEASE = importlib.metadata.version("mqpg")
"""The release of this package, from pyproject.toml."""

# The folders of the code: what each file makes, and in which schema.
_CODE = {
    "functions": ("function", "mqpg"),
    "views": ("view", "mqpg"),
    "audit_views": ("view", "mqpg_audit"),
    "triggers": ("trigger", "mqpg"),
}
_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_BREAKING = re.compile(r"^-- breaking: (yes|no)$", re.MULTILINE)
_BUNDLED_MARKER = "/* mqpg: bundled PGMQ SQL */"
_BUNDLED_QUOTE = "$mqpg_pgmq_bundled$"
# An owner who may not create schemas finds it made, but IF NOT EXISTS would ask for the right.
_BUNDLED_SCHEMA = (
    "CREATE SCHEMA IF NOT EXISTS pgmq;",
    "IF to_regnamespace('pgmq') IS NULL THEN CREATE SCHEMA pgmq; END IF;",
)
_OWNER_MARKER = "/* mqpg: owner */"


@dataclass(frozen=True, slots=True)
class Migration:
    """A numbered change of tables and data.

    Attributes:
        breaking: Whether clients and workers that do not know it must stop.
    """

    number: int
    name: str
    breaking: bool
    sql: str


@dataclass(frozen=True, slots=True)
class Object:
    """A file of the code.

    Attributes:
        kind: function, view or trigger.
        schema: mqpg, or mqpg_audit for the views of auditors.
        definition: The statement that creates or replaces it. For a function, with its comments.
        comments: The statements after the definition of a view or a trigger.
    """

    kind: str
    schema: str
    name: str
    definition: str
    comments: str


class Source:
    """The SQL of one release.

    Its folder is `sql` of a checkout, or the installed package `mqpg.sql`.
    """

    def __init__(self, folder: Traversable, release: str = RELEASE) -> None:
        self._folder = folder
        self.release = release

    @cached_property
    def migrations(self) -> tuple[Migration, ...]:
        """All migrations, in order. The first one is the schema of the first release."""
        found = [Migration(1, "initial", False, "")]
        folder = self._folder / "migrations"
        # A wheel has no empty folder, and the first release has no migration but the schema itself.
        entries = folder.iterdir() if folder.is_dir() else ()
        files = (entry for entry in entries if entry.name.endswith(".sql"))
        for entry in sorted(files, key=lambda entry: entry.name):
            text = entry.read_text(encoding="utf-8")
            named, marked = _FILE.fullmatch(entry.name), _BREAKING.search(text)
            if named is None or int(named[1]) != len(found) + 1:
                raise ConfigurationError(f"migrations/{entry.name} must be named {len(found) + 1:04}_what_it_does.sql")
            if marked is None:
                raise ConfigurationError(f"migrations/{entry.name} must have a line -- breaking: yes, or no")
            found.append(Migration(int(named[1]), named[2], marked[1] == "yes", text))
        return tuple(found)

    @property
    def head(self) -> int:
        """The number of the last migration."""
        return self.migrations[-1].number

    @cached_property
    def whole(self) -> str:
        """The SQL that installs this release into an empty database, with that of PGMQ."""
        text = assemble(self._folder)
        bundled = (importlib.resources.files("pgmq") / "sql" / "pgmq.sql").read_text(encoding="utf-8")
        if _BUNDLED_QUOTE in bundled:
            raise ConfigurationError(
                f"the SQL of the package pgmq must not contain {_BUNDLED_QUOTE}: install another release of it"
            )
        if bundled.count(_BUNDLED_SCHEMA[0]) != 1:
            raise ConfigurationError(
                f"the SQL of the package pgmq must contain {_BUNDLED_SCHEMA[0]} once: install another release of it"
            )
        return text.replace(_BUNDLED_MARKER, bundled.replace(*_BUNDLED_SCHEMA))

    def owner(self, role: str | None) -> str:
        """The SQL that decides who owns the schema, and becomes that role. None: `mqpg_owner` if possible."""
        return self._naming("owner", role)

    def trusted(self, role: str | None) -> str:
        """The SQL that raises for a schema mqpg whose functions must not be called. `role` as for `owner`."""
        return self._naming("trusted", role)

    @cached_property
    def privileges(self) -> str:
        """The SQL that takes away what PostgreSQL lets everybody do with new objects."""
        return self._install("privileges") + self._install("asker")

    def _naming(self, name: str, role: str | None) -> str:
        return self._install(name).replace(_OWNER_MARKER, (role or "").replace("'", "''"))

    def _install(self, name: str) -> str:
        return (self._folder / "install" / f"{name}.sql").read_text(encoding="utf-8")

    @cached_property
    def code(self) -> tuple[Object, ...]:
        """The functions, views and triggers, in install order."""
        paths = (path for path in manifest(self._folder) if path.split("/", 1)[0] in _CODE)
        return tuple(_object(path, self._folder.joinpath(path).read_text(encoding="utf-8")) for path in paths)

    @cached_property
    def checksum(self) -> str:
        """The SHA-256 of the code. A database with the same one needs no replacement."""
        digest = hashlib.sha256()
        for item in self.code:
            digest.update("\0".join((item.kind, item.schema, item.name, item.definition, item.comments, "")).encode())
        digest.update(self.privileges.encode())
        return digest.hexdigest()


@cache
def packaged() -> Source:
    """The source that this package was installed with."""
    return Source(importlib.resources.files("mqpg.sql"))


def _object(path: str, text: str) -> Object:
    kind, schema = _CODE[path.split("/", 1)[0]]
    name = path.rsplit("/", 1)[1].removesuffix(".sql")
    if kind == "function":
        text = re.sub(r"^create function ", "create or replace function ", described(text), flags=re.M)
        return Object(kind, schema, name, text, "")
    definition, mark, comments = (described(text) if kind == "view" else text).partition("\ncomment on ")
    definition = definition[re.search(rf"^create {kind} ", definition, re.M).start() :]  # type: ignore[union-attr]
    definition = definition.replace(f"create {kind} ", f"create or replace {kind} ", 1).strip()
    return Object(kind, schema, name, definition, f"{mark}{comments}".strip())
