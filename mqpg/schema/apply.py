"""Installing and upgrading, while producers and consumers work."""

from __future__ import annotations

import logging
import time
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from mqpg.connection.backoff import Backoff
from mqpg.connection.options import transport
from mqpg.schema import script
from mqpg.schema.source import Source
from mqpg.schema.versions import FIND, READ, Installed, is_there, require_compatible
from mqpg.values import errors
from mqpg.values.translation import translate

__all__ = ["apply", "read"]

logger = logging.getLogger("mqpg")

# Others queue behind a migration that waits for a lock, so it waits briefly and tries again.
_SHORT = "set local lock_timeout = '200ms'"
_BUSY = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
_DROP_PATIENCE = 2.0  # seconds to wait for older transactions before retired functions are left

_RETIRED = """
select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname = 'mqpg_retired'
"""
# When another role's transaction began is shown only to superusers and pg_read_all_stats. That it
# runs is shown to everybody, by the lock on its virtual transaction id.
_RUNNING = """
select l.virtualtransaction from pg_locks l join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'virtualxid' and l.granted and l.virtualxid = l.virtualtransaction
    and a.datname = current_database() and a.pid <> pg_backend_pid()
"""


def read(connection: psycopg.Connection[Any]) -> Installed | None:
    """Read the version of the installed schema; None if mqpg is not installed."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        if not is_there(cursor.execute(FIND).fetchone()):
            return None
        row = cursor.execute(READ).fetchone()
        return None if row is None else Installed(*row)


def apply(dsn: str, source: Source, patience: float, owner: str | None = None) -> None:
    """Install a release, or upgrade to it, in one transaction.

    A newer schema that the release works with is left alone.

    Args:
        patience: How many seconds to try to get the locks.
        owner: The role that owns a new schema. None: `mqpg_owner` if that is possible.
    """
    deadline, backoff = time.monotonic() + patience, Backoff(0.1, 1.0)
    while True:
        try:
            with psycopg.connect(dsn, **transport(dsn)) as connection:
                # After waiting for another migrator, the next statement must see what that one did.
                connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
                _once(connection, source, owner)
            break
        except _BUSY as error:
            if time.monotonic() > deadline:
                raise translate(error) from error
            pause = backoff.next()
            logger.info("migration waits for a lock: %s, again in %.1f s", error.diag.message_primary, pause)
            time.sleep(pause)
        except psycopg.Error as error:
            raise translate(error) from error
    _drop_retired(dsn)


def _once(connection: psycopg.Connection[Any], source: Source, owner: str | None) -> None:
    _require_utf8(connection)
    # A role may have switched it off, and then PGMQ's SQL would be read in another way.
    connection.execute("set local standard_conforming_strings = on")
    connection.execute("set local statement_timeout = 0")
    # Nothing that others have made may take the place of what is called from here on.
    connection.execute("set local search_path = pg_catalog, pg_temp")
    # Everybody can take this lock.
    connection.execute(_SHORT)
    connection.execute(script.LOCK)
    connection.execute(source.trusted(owner).encode())
    # If no schema was found, one that is made meanwhile must not be called.
    found = connection.execute("select current_setting('mqpg.trusted_schema') <> ''").fetchone()
    installed = read(connection) if found == (True,) else None
    if installed is None:
        connection.execute(script.install(source, owner).encode())
        return
    if installed.is_newer_than(source):
        require_compatible(installed, source)
        logger.info("the schema is of mqpg %s already", installed.release)
        return
    if installed.matches(source):
        return
    connection.execute(script.upgrade(source, installed.migration, owner).encode())


def _drop_retired(dsn: str) -> None:
    """Drop the functions that are gone, once no older transaction can call them.

    The next upgrade drops what is left.
    """
    deadline = time.monotonic() + _DROP_PATIENCE
    try:
        with psycopg.connect(dsn, autocommit=True, **transport(dsn)) as connection:
            names = [row[0] for row in connection.execute(_RETIRED)]
            there = connection.execute("select from pg_namespace where nspname = 'mqpg_retired'").rowcount
            if there and not names:
                connection.execute(f"drop schema {script.RETIRED}".encode())
            older = {row[0] for row in connection.execute(_RUNNING)} if names else set()
            while names and time.monotonic() < deadline:
                older &= {row[0] for row in connection.execute(_RUNNING)}
                if not older:
                    with connection.transaction():
                        for name in names:
                            connection.execute(f"drop function {name}".encode())
                        connection.execute(f"drop schema {script.RETIRED}".encode())
                    return
                time.sleep(0.1)
            if names:
                logger.info("%s old functions stay in schema %s until the next upgrade", len(names), script.RETIRED)
    except psycopg.Error as error:
        logger.warning("old functions are not dropped: %s", translate(error))


def _require_utf8(connection: psycopg.Connection[Any]) -> None:
    # Not by a query: in an SQL_ASCII database psycopg returns text as bytes.
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        name = connection.info.dbname
        raise errors.ConfigurationError(
            f"mqpg needs a database with encoding UTF8, and {name} has {encoding}: "
            "create one with: create database NAME encoding 'UTF8' template template0"
        )
