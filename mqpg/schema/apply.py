"""Running the revisions of a release, while producers and consumers work, or writing them as a script."""

from __future__ import annotations

import io
import logging
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import psycopg
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from mqpg.connection.backoff import Backoff
from mqpg.connection.options import FORMATS, UNLIMITED, set_for_session, transport
from mqpg.schema.compatibility import LOCK, read, require_compatible
from mqpg.schema.doctor import missing
from mqpg.schema.source import Source
from mqpg.values import errors
from mqpg.values.translation import translate

__all__ = ["apply", "write"]

logger = logging.getLogger("mqpg")

# SQLAlchemy calls functions without their schema, so before it does, nothing that others have made may be found.
# Others queue behind a migration that waits for a lock, so it waits briefly and tries again. After it has waited for
# another migrator, the next statement must see what that one did.
_SESSION = {
    **FORMATS,
    "search_path": "pg_catalog, pg_temp",
    "lock_timeout": "200ms",
    "default_transaction_isolation": "read committed",
}
_BUSY = ("55P03", "40P01")  # lock_not_available, deadlock_detected
# Also during steps outside of a transaction, until the end of the session.
_LOCK = LOCK.replace("_xact", "")
_OWNER = """
select set_config('role', pg_get_userbyid(n.nspowner), true) from pg_namespace n where n.nspname = 'mqpg'
"""
_BEGIN = """\
-- mqpg: brings the schema of the current database to mqpg {}.
--   psql -v ON_ERROR_STOP=1 -f this-file"""


def apply(dsn: str, source: Source, patience: float, owner: str | None = None) -> None:
    """Run the revisions that a database does not have, and try for `patience` seconds to get the locks.

    A newer schema that the release works with is left alone.
    """
    deadline, backoff = time.monotonic() + patience, Backoff(0.1, 1.0)
    engine = create_engine("postgresql+psycopg://", creator=partial(_connect, dsn), poolclass=NullPool)
    while True:
        try:
            with engine.connect() as connection:
                context = MigrationContext.configure(connection, opts=_options(source, owner))
                with context.begin_transaction():
                    connection.exec_driver_sql(_LOCK)
                    connection.exec_driver_sql(source.trusted(owner), execution_options={"no_parameters": True})
                    for revision in _pending(connection.connection.driver_connection, source):
                        revision.module.upgrade(context)
            return
        except (DBAPIError, psycopg.Error, errors.Error) as error:
            failure = translate(error)
            if failure.sqlstate not in _BUSY or time.monotonic() > deadline:
                raise failure from (error if isinstance(error, psycopg.Error) else error.__cause__)
            pause = backoff.next()
            logger.info("migration waits for a lock: %s, again in %.1f s", failure, pause)
            time.sleep(pause)


def write(source: Source, current: int, owner: str | None = None) -> str:
    """Write the revisions after `current` as a script, by Alembic's offline mode."""
    script = io.StringIO()
    options = {**_options(source, owner), "as_sql": True, "output_buffer": script}
    context = MigrationContext.configure(dialect_name="postgresql", opts=options)
    context.impl.static_output(_BEGIN.format(source.release))
    with context.begin_transaction():
        context.impl.static_output("set local statement_timeout = 0;")
        for revision in _revisions(source)[current:]:
            context.impl.static_output(f"-- Running upgrade {revision.down_revision or ''} -> {revision.revision}")
            revision.module.upgrade(context)
    return script.getvalue()


def _options(source: Source, owner: str | None) -> dict[str, Any]:
    return {"mqpg_source": source, "mqpg_owner": owner}


def _connect(dsn: str) -> psycopg.Connection[Any]:
    connection = psycopg.connect(dsn, autocommit=True, **transport(dsn))
    _require_utf8(connection)
    connection.execute(set_for_session(_SESSION).encode())
    connection.execute(UNLIMITED)
    connection.autocommit = False
    return connection


def _pending(connection: Any, source: Source) -> Sequence[Script]:
    _mend(connection, source)
    installed, revisions = read(connection), _revisions(source)
    if installed is None:
        return revisions
    if installed.is_newer_than(source):
        require_compatible(installed, source)
        logger.info("the schema is of mqpg %s already", installed.release)
        return []
    if installed.matches(source):
        return []
    return revisions[installed.migration :] or revisions[-1:]  # the last one replaces the code


def _mend(connection: psycopg.Connection[Any], source: Source) -> None:
    """If functions or views of this release are missing, let the last revision make all of them again."""
    gone = missing(connection, source)
    if "function mqpg.schema_version" in gone and "table mqpg.installation" not in gone:
        version = next(one for one in source.code if one.name == "schema_version")
        _as_owner(connection, version.definition)
    installed = read(connection)
    if installed is not None and installed.matches(source) and any(not name.startswith("table ") for name in gone):
        logger.warning("made again: %s", ", ".join(gone))
        _as_owner(connection, "update mqpg.installation set checksum = 'incomplete'")


def _as_owner(connection: psycopg.Connection[Any], statement: str) -> None:
    before = connection.execute("select current_setting('role')").fetchone()
    connection.execute(_OWNER)
    connection.execute(statement.encode())
    connection.execute("select set_config('role', %s, true)", before)


def _revisions(source: Source) -> list[Script]:
    folder = str(source.revisions)
    return list(ScriptDirectory(folder, version_locations=[folder]).walk_revisions())[::-1]


def _require_utf8(connection: psycopg.Connection[Any]) -> None:
    # Not by a query: in an SQL_ASCII database psycopg returns text as bytes.
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        name = connection.info.dbname
        raise errors.ConfigurationError(
            f"mqpg needs a database with encoding UTF8, and {name} has {encoding}: "
            "create one with: create database NAME encoding 'UTF8' template template0"
        )
