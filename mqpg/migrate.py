"""Installing and upgrading the schema: `upgrade`, `status`, `script`, `check`.

The schema is in the numbered SQL files of `mqpg.sql`, and each alembic revision only runs one of
them. With a migration tool of your own you need nothing but the text that `script()` returns.
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
from mqpg._first_migration import assemble

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

# Migrators that run at the same time wait for each other on this transaction-level lock.
LOCK = "select pg_advisory_xact_lock(1836150836, 0)"
_FIRST = "0001"
VERSION_TABLE = "mqpg.alembic_version"
_VERSION_COMMENT = f"comment on table {VERSION_TABLE} is 'Version of the installed schema (alembic)'"
_OWNER_MARKER = "/* mqpg: owner */"
# An owner who may not create schemas finds the schema made, but IF NOT EXISTS would ask for the right.
_BUNDLED_SCHEMA = (
    "CREATE SCHEMA IF NOT EXISTS pgmq;",
    "IF to_regnamespace('pgmq') IS NULL THEN CREATE SCHEMA pgmq; END IF;",
)
_BUNDLED_MARKER = "/* mqpg: bundled PGMQ SQL */"
_BUNDLED_QUOTE = "$mqpg_pgmq_bundled$"


@dataclass(frozen=True, slots=True)
class Status:
    """The version of an installed schema, beside the one that this release needs.

    Attributes:
        current: The installed version. None: mqpg is not installed.
        head: The version that this release needs.
    """

    current: str | None
    head: str

    @property
    def up_to_date(self) -> bool:
        """Whether the installed version is the one that this release needs."""
        return self.current == self.head


def upgrade(dsn: str, *, owner: str | None = None) -> Status:
    """Install the schema, or upgrade it to this release, in one transaction.

    Another migrator that runs at the same time is waited for.

    Args:
        dsn: The database in libpq notation.
        owner: The role that owns a new schema; it is made where it is missing. None: `mqpg_owner`,
            or the migrating role itself where that may neither create nor become `mqpg_owner`. A
            schema that is installed keeps its owner.

    Returns:
        What is installed afterwards.

    Raises:
        ConnectionFailed: The server does not answer.
        ConfigurationError: The encoding of the database is not UTF8. Nothing was changed.
        SchemaTooNew: The schema is of a newer release. Nothing was changed.
        DatabaseError: The server refused a statement, for instance because the migrating role may
            not become the owner. Nothing was changed.
    """
    # Every start of a client or a command imports this module. Only this function needs alembic,
    # which is slow to import.
    import alembic.command

    engine = _engine(dsn)
    try:
        with engine.begin() as connection:
            raw = _driver_connection(connection)
            _require_utf8(raw)
            # A role may have switched it off, and then PGMQ's SQL would be read in another way.
            raw.execute("set local standard_conforming_strings = on")
            raw.execute(LOCK)
            raw.execute("set local search_path = pg_catalog, pg_temp")
            current = _current(raw)
            if current is not None and current not in revisions():
                raise errors.SchemaTooNew(_too_new(current))
            raw.execute(_owner(owner))
            config = _config()
            config.attributes["connection"] = connection
            alembic.command.upgrade(config, "head")
            raw.execute(_VERSION_COMMENT)
            raw.execute(_install("privileges"))
    except (psycopg.Error, sqlalchemy.exc.SQLAlchemyError) as error:
        raise errors.translate(error) from error
    finally:
        engine.dispose()
    return status(dsn)


def adopt(dsn: str, *, same_xids: bool = False) -> str:
    """Make a restored, promoted or recovered copy of a broker a broker again.

    Call it before anything else writes to the copy.

    Args:
        dsn: The database in libpq notation.
        same_xids: Whether the copy has the transaction ids of the original, as after pg_upgrade.

    Returns:
        One line that says what was done.

    Raises:
        ConnectionFailed: The server does not answer.
        SchemaError: The schema is missing or of another version.
        RestoredCluster: `same_xids` is True, and the transaction ids are not those of the original.
        LockTimeout: Another session writes to the copy.
    """
    check(dsn)
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            row = connection.execute("select mqpg.adopt(%s)", [same_xids]).fetchone()
    except psycopg.Error as error:
        raise errors.translate(error) from error
    return str(row[0]) if row else ""


def status(dsn: str) -> Status:
    """Read the version of the installed schema.

    Args:
        dsn: The database in libpq notation.

    Returns:
        The version, beside the one that this release needs.

    Raises:
        ConnectionFailed: The server does not answer.
        DatabaseError: The version cannot be read.
    """
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            return Status(_current(connection), head())
    except psycopg.Error as error:
        raise errors.translate(error) from error


def check(dsn: str) -> None:
    """Require that the installed schema is of this release. The versions must match exactly.

    Args:
        dsn: The database in libpq notation.

    Raises:
        SchemaMissing: mqpg is not installed.
        SchemaTooOld: The schema is of an older release.
        SchemaTooNew: The schema is of a newer release.
        ConnectionFailed: The server does not answer.
    """
    verify(status(dsn).current)


def check_connection(connection: psycopg.Connection[Any]) -> None:
    """Require, as `check` does, that the schema of a connection's database is of this release.

    Args:
        connection: An open connection to the database.

    Raises:
        SchemaMissing: mqpg is not installed.
        SchemaTooOld: The schema is of an older release.
        SchemaTooNew: The schema is of a newer release.
    """
    verify(_current(connection))


def verify(current: str | None) -> None:
    """Require that a version that was read elsewhere is the one of this release.

    Args:
        current: The installed version. None: mqpg is not installed.

    Raises:
        SchemaMissing: mqpg is not installed.
        SchemaTooOld: The schema is of an older release.
        SchemaTooNew: The schema is of a newer release.
    """
    if current is None:
        raise errors.SchemaMissing("mqpg is not installed in this database: run mqpg migrate")
    if current not in revisions():
        raise errors.SchemaTooNew(_too_new(current))
    if current != head():
        raise errors.SchemaTooOld(
            f"the schema of this database is version {current}, this release of mqpg needs {head()}: run mqpg migrate"
        )


def script(*, owner: str | None = None) -> str:
    """Build the script that installs the schema with psql, in one transaction.

    Args:
        owner: The role that will own the schema, as for `upgrade`.

    Returns:
        The script.

    Raises:
        ConfigurationError: The package pgmq cannot be built in.
    """
    parts = [_SCRIPT_HEAD, _owner(owner), _SCRIPT_VERSIONS]
    for revision in revisions():
        parts.append(f"\n-- migration {revision}\n{migration(revision).strip()}\n")
    parts.append(f"\ninsert into {VERSION_TABLE} (version_num) values ('{head()}');\n\n")
    parts.append(f"{_install('privileges')}\ncommit;\n")
    return "".join(parts)


@cache
def revisions() -> tuple[str, ...]:
    """List this release's migrations.

    Returns:
        Their numbers, ascending.
    """
    return tuple(sorted({_FIRST, *_files()}))


def head() -> str:
    """Name the version that this release needs.

    Returns:
        The last of `revisions`.
    """
    return revisions()[-1]


def migration(revision: str) -> str:
    """Read the SQL of one migration, with that of PGMQ in the place of its marker.

    Args:
        revision: One of `revisions`.

    Returns:
        The SQL.

    Raises:
        ConfigurationError: The package pgmq cannot be built in.
    """
    text = _text(revision)
    if _BUNDLED_MARKER not in text:
        return text
    bundled = (importlib.resources.files("pgmq") / "sql" / "pgmq.sql").read_text(encoding="utf-8")
    if _BUNDLED_QUOTE in bundled:
        raise errors.ConfigurationError(
            f"the SQL of the package pgmq must not contain {_BUNDLED_QUOTE}: install another release of it"
        )
    if bundled.count(_BUNDLED_SCHEMA[0]) != 1:
        raise errors.ConfigurationError(
            f"the SQL of the package pgmq must contain {_BUNDLED_SCHEMA[0]} once: install another release of it"
        )
    return text.replace(_BUNDLED_MARKER, bundled.replace(*_BUNDLED_SCHEMA))


_SCRIPT_HEAD = f"""\
-- mqpg: installs the whole schema into the current database, in one transaction.
--   psql -v ON_ERROR_STOP=1 -f this-file
begin;
set local standard_conforming_strings = on;
{LOCK};

"""
_SCRIPT_VERSIONS = f"""
create table {VERSION_TABLE} (
    version_num varchar(32) not null,
    constraint alembic_version_pkc primary key (version_num)
);
{_VERSION_COMMENT};
"""


def _install(name: str) -> str:
    """The SQL that runs around the migrations."""
    return (importlib.resources.files("mqpg.sql") / "install" / f"{name}.sql").read_text(encoding="utf-8")


def _owner(owner: str | None) -> str:
    return _install("owner").replace(_OWNER_MARKER, (owner or "").replace("'", "''"))


def _text(revision: str) -> str:
    """The SQL of one migration as its file has it.

    The first one is assembled where it has no file yet.
    """
    files = _files()
    if revision in files:
        return files[revision].read_text(encoding="utf-8")
    if revision != _FIRST:
        raise KeyError(revision)
    return assemble(importlib.resources.files("mqpg.sql"))


def _files() -> dict[str, Traversable]:
    """The numbered files.

    A wheel has all of them. A checkout has no first one until it is released.
    """
    folder = importlib.resources.files("mqpg.sql") / "migrations"
    files = (entry for entry in folder.iterdir() if re.fullmatch(r"\d{4}_\w+\.sql", entry.name))
    return {entry.name[:4]: entry for entry in files}


def _current(connection: psycopg.Connection[Any]) -> str | None:
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(
            "select has_table_privilege(c.oid, 'select') from to_regclass(%s) as c (oid) where c.oid is not null",
            [VERSION_TABLE],
        ).fetchone()
        if row is None:
            return None
        # Only the owner reads tables. Others ask a function.
        asked = f"select version_num from {VERSION_TABLE}" if row[0] else "select mqpg._schema_version()"
        row = cursor.execute(asked.encode()).fetchone()
        return None if row is None else str(row[0])


def _require_utf8(connection: psycopg.Connection[Any]) -> None:
    # Not by a query: in an SQL_ASCII database psycopg returns text as bytes.
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        name = connection.info.dbname
        raise errors.ConfigurationError(
            f"mqpg needs a database with encoding UTF8, and {name} has {encoding}: "
            "create one with: create database NAME encoding 'UTF8' template template0"
        )


def _too_new(current: str) -> str:
    return f"the schema of this database is version {current}, newer than this release of mqpg ({head()}): upgrade mqpg"


def _engine(dsn: str) -> sqlalchemy.Engine:
    # The DSN may be anything that libpq takes, so psycopg reads it, not SQLAlchemy. The transaction
    # is READ COMMITTED whatever the server's default is: after waiting for the lock the next
    # statement must see what the other migrator did.
    def connect() -> psycopg.Connection[Any]:
        connection = psycopg.connect(dsn, client_encoding="utf8")
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
    # ConfigParser would take a percent sign in the path for interpolation.
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config
