"""The SQL sources of one release: tables, numbered migrations, and the code.

The code is every function, view and trigger. It is replaced as a whole. Everything else (tables,
types, indexes, settings) changes by numbered migrations only.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.resources
import importlib.util
import re
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources.abc import Traversable
from pathlib import Path

from mqpg.schema.assemble import assemble, described, manifest
from mqpg.values.errors import ConfigurationError

__all__ = ["RELEASE", "REVISIONS", "Migration", "Object", "Source", "packaged"]

RELEASE = importlib.metadata.version("mqpg")
"""The release of this package, from pyproject.toml."""

REVISIONS = Path(__file__).parent / "versions"
"""Alembic's modules of this release."""

# The folders of the code: what each file makes, and in which schema.
_CODE = {
    "functions": ("function", "mqpg"),
    "views": ("view", "mqpg"),
    "audit_views": ("view", "mqpg_audit"),
    "triggers": ("trigger", "mqpg"),
}
_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
_BREAKING = re.compile(r"^-- breaking: (yes|no)$", re.MULTILINE)
_OUTSIDE = re.compile(r"^-- transaction: no$", re.MULTILINE)
_STEP = re.compile(r"^-- step$", re.MULTILINE)
_MARKER = re.compile(r"/\* mqpg: (\w+) \*/")
_BUNDLED_MARKER = "/* mqpg: bundled PGMQ SQL */"
_BUNDLED_QUOTE = "$mqpg_pgmq_bundled$"
# What install/revision.sql and install/code.sql quote other texts with.
_TEXT, _ITEM = "$mqpg_text$", "$mqpg_item$"
# An owner who may not create schemas finds it made, but IF NOT EXISTS would ask for the right.
_BUNDLED_SCHEMA = (
    "CREATE SCHEMA IF NOT EXISTS pgmq;",
    "IF to_regnamespace('pgmq') IS NULL THEN CREATE SCHEMA pgmq; END IF;",
)


@dataclass(frozen=True, slots=True)
class Migration:
    """A numbered change of tables and data."""

    number: int
    name: str
    breaking: bool  # whether clients and workers that do not know it must stop
    sql: str  # what runs in the transaction of the upgrade
    # Statements that run outside of a transaction before, one by one. Each can be repeated after it was killed.
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Object:
    """A file of the code."""

    kind: str  # function, view or trigger
    schema: str  # mqpg, or mqpg_audit for the views of auditors
    name: str
    definition: str  # The statement that creates or replaces it. For a function, with its comments.
    comments: str  # the statements after the definition of a view or a trigger, or one that does nothing


class Source:
    """The SQL of one release.

    Its folder is `sql` of a checkout, or the installed package `mqpg.sql`. `revisions` is the folder
    with Alembic's modules, one for each migration.
    """

    def __init__(self, folder: Traversable, release: str = RELEASE, revisions: Path = REVISIONS) -> None:
        if not re.fullmatch(r"[\w.+-]+", release):
            raise ConfigurationError(f"a release has letters, digits, dots and dashes, not {release!r}")
        self._folder = folder
        self.release = release
        self.revisions = revisions

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(sorted(entry.name.removesuffix(".sql") for entry in (self._folder / "tables").iterdir()))

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
            steps = tuple(step.strip() for step in _STEP.split(text)) if _OUTSIDE.search(text) else ()
            found.append(Migration(int(named[1]), named[2], marked[1] == "yes", "" if steps else text, steps))
        return tuple(found)

    @property
    def head(self) -> int:
        """The number of the last migration."""
        return self.migrations[-1].number

    @cached_property
    def whole(self) -> str:
        """The SQL that installs this release into an empty database, with that of PGMQ."""
        text = assemble(self._folder)
        bundled = _pgmq()
        if _BUNDLED_QUOTE in bundled:
            raise ConfigurationError(
                f"the SQL of the package pgmq must not contain {_BUNDLED_QUOTE}: install another release of it"
            )
        if bundled.count(_BUNDLED_SCHEMA[0]) != 1:
            raise ConfigurationError(
                f"the SQL of the package pgmq must contain {_BUNDLED_SCHEMA[0]} once: install another release of it"
            )
        return text.replace(_BUNDLED_MARKER, bundled.replace(*_BUNDLED_SCHEMA))

    def trusted(self, owner: str | None) -> str:
        """The SQL that raises for a schema mqpg whose functions must not be called.

        `owner` is the role that may own it. None: `mqpg_owner`, or the migrating role.
        """
        return self.install("trusted", role=_quoted(owner))

    def revision(self, number: int, owner: str | None, *, records: bool = True) -> str:
        """The statement that a revision runs (see install/revision.sql).

        `owner` is as for `trusted`. Without `records` Alembic itself writes `mqpg.alembic_version`.
        """
        migration, last = self.migrations[number - 1], number == self.head
        texts = {
            "trusted": self.trusted(owner),
            "owner": self.install("owner", role=_quoted(owner)),
            "whole": self.whole if number == 1 else "",
            "alembic_version": described(self._read("tables/alembic_version.sql")),
            "file": migration.sql,
            "code": self._code if last else "",
            "privileges": self.install("privileges"),
            "asker": self.install("asker"),
        }
        for name, text in texts.items():
            if _TEXT in text:
                raise ConfigurationError(f"the SQL of {name} must not contain {_TEXT}")
        breaking = max((known.number for known in self.migrations if known.breaking), default=0)
        return self.install(
            "revision",
            number=str(number),
            head=str(self.head),
            release=self.release,
            checksum=self.checksum,
            records=str(records),
            breaking=str(migration.breaking),
            last_breaking=str(breaking),
            **texts,
        )

    @property
    def _code(self) -> str:
        columns = ("kind", "schema", "name", "definition", "comments")
        return self.install(
            "code", **{column: ",\n".join(_item(getattr(item, column)) for item in self.code) for column in columns}
        )

    def install(self, file: str, /, **values: str) -> str:
        """A file of install/ by its name, with values in the place of its markers."""
        return _MARKER.sub(lambda marker: values[marker[1]], self._read(f"install/{file}.sql"))

    def _read(self, path: str) -> str:
        return self._folder.joinpath(path).read_text(encoding="utf-8")

    @cached_property
    def code(self) -> tuple[Object, ...]:
        """The functions, views and triggers, in install order."""
        paths = (path for path in manifest(self._folder) if path.split("/", 1)[0] in _CODE)
        return tuple(_object(path, self._read(path)) for path in paths)

    @cached_property
    def checksum(self) -> str:
        """The SHA-256 of the code. A database with the same one needs no replacement."""
        digest = hashlib.sha256()
        for item in self.code:
            digest.update("\0".join((item.kind, item.schema, item.name, item.definition, item.comments, "")).encode())
        digest.update((self.install("privileges") + self.install("asker")).encode())
        return digest.hexdigest()


@cache
def packaged() -> Source:
    """The source that this package was installed with."""
    return Source(importlib.resources.files("mqpg.sql"))


def _pgmq() -> str:
    """The SQL that the package pgmq bundles. It is not imported, because it imports all of SQLAlchemy's ORM."""
    try:
        found = Path(str(importlib.metadata.distribution("pgmq").locate_file("pgmq/sql/pgmq.sql")))
        if not found.exists() and (spec := importlib.util.find_spec("pgmq")) and spec.origin:  # it is editable
            found = Path(spec.origin).parent / "sql" / "pgmq.sql"
        return found.read_text(encoding="utf-8")
    except (importlib.metadata.PackageNotFoundError, OSError) as error:
        raise ConfigurationError(f"the package pgmq with its SQL is missing: pip install pgmq ({error})") from error


def _quoted(role: str | None) -> str:
    return (role or "").replace("'", "''")


def _item(text: str) -> str:
    if _ITEM in text:
        raise ConfigurationError(f"a file of the code must not contain {_ITEM}: {text[:60]!r}")
    return f"{_ITEM}{text}{_ITEM}"


def _object(path: str, text: str) -> Object:
    kind, schema = _CODE[path.split("/", 1)[0]]
    name = path.rsplit("/", 1)[1].removesuffix(".sql")
    if kind == "function":
        text = re.sub(r"^create (?=function|procedure)", "create or replace ", described(text), flags=re.M)
        return Object(kind, schema, name, text, "select")
    definition, mark, comments = (described(text) if kind == "view" else text).partition("\ncomment on ")
    definition = definition[re.search(rf"^create {kind} ", definition, re.M).start() :]  # type: ignore[union-attr]
    definition = definition.replace(f"create {kind} ", f"create or replace {kind} ", 1).strip()
    return Object(kind, schema, name, definition, f"{mark}{comments}".strip() or "select")
