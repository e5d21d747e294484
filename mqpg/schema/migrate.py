"""Installing and upgrading the schema: `upgrade`, `status`, `script`, `check`.

With a migration tool of your own you need nothing but the text that `script()` returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg

from mqpg.connection.options import UNLIMITED, transport
from mqpg.schema import doctor
from mqpg.schema.compatibility import LOCK, Installed, read, require_compatible
from mqpg.schema.source import Source, packaged
from mqpg.values import errors
from mqpg.values.translation import translate

__all__ = [
    "LOCK",
    "Status",
    "adopt",
    "adopt_promoted",
    "check",
    "head",
    "script",
    "problems",
    "status",
    "upgrade",
]


@dataclass(frozen=True, slots=True)
class Status:
    """The version of an installed schema, beside the one of this release.

    Attributes:
        current: The number of the last migration that was applied. None: mqpg is not installed.
        head: The number of the last migration of this release.
        release: The release that the installed functions are of. None: mqpg is not installed.
        up_to_date: Whether `upgrade` would change nothing, neither tables nor functions.
    """

    current: int | None
    head: int
    release: str | None
    up_to_date: bool


def upgrade(dsn: str, *, owner: str | None = None, source: Source | None = None, patience: float = 60.0) -> Status:
    """Install the schema, or upgrade it to this release, in one transaction.

    Producers and consumers continue meanwhile. Another migrator that runs at the same time is
    waited for. If nothing differs, nothing is done. A schema of a newer release that this one
    works with is left as it is.

    Args:
        dsn: The database in libpq notation.
        owner: The role that owns a new schema; it is made if it is missing. None: `mqpg_owner`,
            or the migrating role itself if that may neither create nor become `mqpg_owner`. A
            schema that is installed keeps its owner.
        source: The SQL to install. None: that of this release.
        patience: How many seconds to try again while another session locks a table. Each attempt
            waits at most 0.2 s for a lock.

    Returns:
        What is installed afterwards.

    Raises:
        ConnectionFailed: The server does not answer.
        ConfigurationError: The encoding of the database is not UTF8. Nothing was changed.
        SchemaTooNew: The schema is too new for this release. Nothing was changed.
        SchemaTooOld: The schema is from before the first release. Nothing was changed.
        LockTimeout: `patience` is over. Nothing was changed.
        DatabaseError: The server refused a statement, for instance because the migrating role may
            not become the owner. Nothing was changed.
    """
    from mqpg.schema import apply  # with Alembic, which nothing else here needs

    apply.apply(dsn, source or packaged(), patience, owner)
    return status(dsn, source=source)


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
        SchemaError: The schema is missing, or this release cannot work with it.
        RestoredCluster: `same_xids` is True, and the transaction ids are not those of the original.
        LockTimeout: Another session writes to the copy.
    """
    return str(_adopt(dsn, "select mqpg.adopt(%s)", [same_xids]))


def adopt_promoted(dsn: str) -> str | None:
    """Make a promoted or recovered server a broker again, and leave any other one as it is.

    Args:
        dsn: The database in libpq notation.

    Returns:
        One line that says what was done. None: there was nothing to do.

    Raises:
        ConnectionFailed: The server does not answer.
        SchemaError: The schema is missing, or this release cannot work with it.
        LockTimeout: Another session writes to the server.
    """
    return _adopt(dsn, "select mqpg.adopt_promoted()", [])


def _adopt(dsn: str, call: LiteralString, values: list[bool]) -> str | None:
    check(dsn)
    try:
        with _connect(dsn) as connection:
            row = connection.execute(call, values).fetchone()
    except psycopg.Error as error:
        raise translate(error) from error
    return row[0] if row else None


def status(dsn: str, *, source: Source | None = None) -> Status:
    """Read the version of the installed schema.

    Args:
        dsn: The database in libpq notation.
        source: The SQL to compare with. None: that of this release.

    Returns:
        The version, beside the one of this release.

    Raises:
        ConnectionFailed: The server does not answer.
        SchemaTooOld: The schema is from before the first release.
        DatabaseError: The version cannot be read.
    """
    wanted = source or packaged()
    installed = _installed(dsn)
    if installed is None:
        return Status(None, wanted.head, None, False)
    return Status(installed.migration, wanted.head, installed.release, installed.matches(wanted))


def problems(dsn: str, *, if_allowed: bool = False) -> list[str]:
    """Say what is wrong with an installed schema: a restored copy, another owner, no compression.

    Args:
        dsn: The database in libpq notation.
        if_allowed: What to do for a role that can neither read the tables nor become their owner.
            True: look for nothing. False, the default: say so in a line.

    Returns:
        One line for each problem, with the command that mends it; empty if there is none.

    Raises:
        SchemaMissing: mqpg is not installed.
        SchemaTooOld: The schema is from before the first release.
        ConnectionFailed: The server does not answer.
        DatabaseError: The catalog cannot be read.
    """
    try:
        with _connect(dsn) as connection:
            installed = read(connection)
            if installed is None:
                raise errors.SchemaMissing("mqpg is not installed in this database: run mqpg migrate")
            owner = doctor.out_of_reach(connection)
            if owner is None:
                return doctor.problems(connection, installed, packaged())
            if if_allowed:
                return []
            return [f"{connection.info.user} may not look at the tables: check as a superuser or a member of {owner}"]
    except psycopg.Error as error:
        raise translate(error) from error


def check(dsn: str) -> None:
    """Require that this release works with the installed schema.

    It does if both are at most one minor release apart, and no breaking migration is unknown to
    this release.

    Args:
        dsn: The database in libpq notation.

    Raises:
        SchemaMissing: mqpg is not installed.
        SchemaTooOld: The schema is too old for this release.
        SchemaTooNew: The schema is too new for this release.
        ConnectionFailed: The server does not answer.
    """
    require_compatible(_installed(dsn), packaged())


def head() -> int:
    """Name the last migration of this release.

    Returns:
        Its number.
    """
    return packaged().head


def script(upgrade_from: int | None = None, *, owner: str | None = None, source: Source | None = None) -> str:
    """Write the script that installs or upgrades the schema with psql: Alembic's offline mode.

    It does what `upgrade` does, in one transaction, and leaves out what the database has already.

    Args:
        upgrade_from: The last migration that the database has (`mqpg migrate status`), to write
            only what comes after it. None: the script installs, or upgrades any release.
        owner: The role that will own the schema, as for `upgrade`. None: the default there.
        source: The SQL to install. None: that of this release.

    Returns:
        The script.

    Raises:
        ConfigurationError: The package pgmq cannot be built in, or this release has no such
            migration.
    """
    from mqpg.schema import apply

    wanted = source or packaged()
    if upgrade_from is not None and not 1 <= upgrade_from <= wanted.head:
        raise errors.ConfigurationError(f"mqpg {wanted.release} has migrations 1 to {wanted.head}, not {upgrade_from}")
    return apply.write(wanted, min(upgrade_from or 0, wanted.head - 1), owner)


def _installed(dsn: str) -> Installed | None:
    try:
        with _connect(dsn) as connection:
            return read(connection)
    except psycopg.Error as error:
        raise translate(error) from error


def _connect(dsn: str) -> psycopg.Connection[Any]:
    connection = psycopg.connect(dsn, autocommit=True, **transport(dsn))
    connection.execute(UNLIMITED)
    return connection
