"""Install and upgrade the schema: `upgrade`, `status`, `script`, `check`.

The schema is defined by the SQL files of `mqpg.sql`. An alembic revision is a thin wrapper around a numbered migration,
so that people with their own migration tool can use `script()` and nothing else.
"""

from __future__ import annotations

import importlib.resources
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import sqlalchemy
from psycopg.rows import tuple_row

from mqpg import errors
from mqpg.sql.assemble import assemble

if TYPE_CHECKING:
    import alembic.config

__all__ = [
    "Status",
    "adopt",
    "check",
    "check_connection",
    "head",
    "migration",
    "revisions",
    "script",
    "status",
    "upgrade",
    "verify",
]

# Concurrent migrators wait for each other on this transaction-level lock.
LOCK = "select pg_advisory_xact_lock(1836150836, 0)"
_FIRST = "0001"
VERSION_TABLE = "mqpg.alembic_version"
_VERSION_COMMENT = f"comment on table {VERSION_TABLE} is 'Version of the installed schema (alembic)'"
_BUNDLED_MARKER = "/* mqpg: bundled PGMQ SQL */"
_BUNDLED_QUOTE = "$mqpg_pgmq_bundled$"


@dataclass(frozen=True, slots=True)
class Status:
    """`current` is None where mqpg is not installed; `head` is what this release brings."""

    current: str | None
    head: str

    @property
    def up_to_date(self) -> bool:
        """Whether the database has exactly this release's schema."""
        return self.current == self.head


def upgrade(dsn: str) -> Status:
    """Bring the database to this release's schema, in one transaction; waits for a concurrent migrator.

    Raises ConnectionFailed, SchemaTooNew (nothing is changed), or the server's error, translated.
    """
    # Every start of a client or a command passes through this module; only this step needs alembic, which is slow.
    import alembic.command

    engine = _engine(dsn)
    try:
        with engine.begin() as connection:
            raw = _driver_connection(connection)
            raw.execute(LOCK)
            current = _current(raw)
            if current is not None and current not in revisions():
                raise errors.SchemaTooNew(_too_new(current))
            raw.execute("create schema if not exists mqpg")
            config = _config()
            config.attributes["connection"] = connection
            alembic.command.upgrade(config, "head")
            raw.execute(_VERSION_COMMENT)
    except (psycopg.Error, sqlalchemy.exc.SQLAlchemyError) as error:
        raise errors.translate(error) from error
    finally:
        engine.dispose()
    return status(dsn)


def adopt(dsn: str, *, same_xids: bool = False) -> str:
    """Make a restored, promoted or recovered copy a broker again, before anybody writes; returns what was done.

    same_xids: the transaction ids came along (pg_upgrade). Raises ConnectionFailed, SchemaError, RestoredCluster
    (they did not), LockTimeout (somebody is at work).
    """
    check(dsn)
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            row = connection.execute("select mqpg.adopt(%s)", [same_xids]).fetchone()
    except psycopg.Error as error:
        raise errors.translate(error) from error
    return str(row[0]) if row else ""


def status(dsn: str) -> Status:
    """What is installed and what this release brings. Raises ConnectionFailed."""
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            return Status(_current(connection), head())
    except psycopg.Error as error:
        raise errors.translate(error) from error


def check(dsn: str) -> None:
    """Raise SchemaMissing, SchemaTooOld or SchemaTooNew unless database and release fit."""
    verify(status(dsn).current)


def check_connection(connection: psycopg.Connection[Any]) -> None:
    """`check` on an open connection."""
    verify(_current(connection))


def verify(current: str | None) -> None:
    """`check` for a version number read elsewhere (None: no version table)."""
    if current is None:
        raise errors.SchemaMissing("mqpg is not installed in this database: run mqpg migrate")
    if current not in revisions():
        raise errors.SchemaTooNew(_too_new(current))
    if current != head():
        raise errors.SchemaTooOld(
            f"the schema of this database is version {current}, this release of mqpg needs {head()}: run mqpg migrate"
        )


def script() -> str:
    """One script for psql that installs everything from nothing, in one transaction."""
    parts = [_SCRIPT_HEAD]
    for revision in revisions():
        parts.append(f"\n-- migration {revision}\n{migration(revision).strip()}\n")
    parts.append(f"\ninsert into {VERSION_TABLE} (version_num) values ('{head()}');\n\ncommit;\n")
    return "".join(parts)


@cache
def revisions() -> tuple[str, ...]:
    """The numbers of this release's migrations, ascending."""
    return tuple(sorted({_FIRST, *_files()}))


def head() -> str:
    """The newest of `revisions`."""
    return revisions()[-1]


def migration(revision: str) -> str:
    """The SQL of one migration, complete: the SQL of PGMQ put in where the file has its marker."""
    text = _text(revision)
    if _BUNDLED_MARKER not in text:
        return text
    bundled = (importlib.resources.files("pgmq") / "sql" / "pgmq.sql").read_text(encoding="utf-8")
    if _BUNDLED_QUOTE in bundled:
        raise errors.ConfigurationError(
            f"the SQL of the package pgmq contains {_BUNDLED_QUOTE}: use another release of it"
        )
    return text.replace(_BUNDLED_MARKER, bundled)


_SCRIPT_HEAD = f"""\
-- mqpg: installs the whole schema into the current database, in one transaction.
--   psql -v ON_ERROR_STOP=1 -f this-file
begin;
{LOCK};
create schema if not exists mqpg;
create table {VERSION_TABLE} (
    version_num varchar(32) not null,
    constraint alembic_version_pkc primary key (version_num)
);
{_VERSION_COMMENT};
"""


def _text(revision: str) -> str:
    """The SQL of one migration as its file has it; the first one is assembled where it is no file yet."""
    files = _files()
    if revision in files:
        return files[revision].read_text(encoding="utf-8")
    if revision != _FIRST:
        raise KeyError(revision)
    return assemble(importlib.resources.files("mqpg.sql"))


def _files() -> dict[str, Traversable]:
    """The numbered files. A wheel has all of them; a checkout lacks the first one before it is released."""
    folder = importlib.resources.files("mqpg.sql") / "migrations"
    files = (entry for entry in folder.iterdir() if re.fullmatch(r"\d{4}_\w+\.sql", entry.name))
    return {entry.name[:4]: entry for entry in files}


def _current(connection: psycopg.Connection[Any]) -> str | None:
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute("select to_regclass(%s)", [VERSION_TABLE]).fetchone()
        if row is None or row[0] is None:
            return None
        row = cursor.execute(f"select version_num from {VERSION_TABLE}").fetchone()
        return None if row is None else str(row[0])


def _too_new(current: str) -> str:
    return f"the schema of this database is version {current}, newer than this release of mqpg ({head()}): upgrade mqpg"


def _engine(dsn: str) -> sqlalchemy.Engine:
    # The DSN may be anything libpq takes, so psycopg reads it, not SQLAlchemy. READ COMMITTED, whatever the
    # server's default: after waiting for the lock the next statement must see what the other migrator did.
    def connect() -> psycopg.Connection[Any]:
        connection = psycopg.connect(dsn)
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection

    return sqlalchemy.create_engine("postgresql+psycopg://", creator=connect, poolclass=sqlalchemy.NullPool)


def _driver_connection(connection: sqlalchemy.Connection) -> psycopg.Connection[Any]:
    raw = connection.connection.driver_connection
    if not isinstance(raw, psycopg.Connection):
        raise TypeError(f"a psycopg connection was expected, not {type(raw).__name__}")
    return raw


def _config() -> alembic.config.Config:
    import alembic.config

    config = alembic.config.Config()
    # ConfigParser would read a percent sign in the path as interpolation.
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config
