"""Which client works with which schema: neighbouring minor releases do, unless one is breaking."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from mqpg.schema.source import Source
from mqpg.values.errors import ConfigurationError, SchemaMissing, SchemaTooNew, SchemaTooOld

__all__ = [
    "EXIT_TOO_OLD",
    "FIND",
    "LOCK",
    "READ",
    "SKEW",
    "Installed",
    "is_there",
    "read",
    "release_numbers",
    "require_compatible",
]

SKEW = 1
"""How many minor releases a client and a schema may be apart."""

EXIT_TOO_OLD = 4
"""The exit status of a process whose release is too old for the schema. A restart cannot help."""

LOCK = "select pg_catalog.pg_advisory_xact_lock(1836150836, 0)"
"""Migrators wait for each other on this lock, until the end of the transaction."""

FIND = """
select to_regprocedure('mqpg.schema_version()') is not null, to_regclass('mqpg.broker') is not null,
    to_regclass('mqpg.installation') is not null
"""
"""Asks what `is_there` needs to know."""

READ = "select migration, breaking, release, checksum from mqpg.schema_version()"


@dataclass(frozen=True, slots=True)
class Installed:
    """The version of an installed schema, as `mqpg.schema_version()` gives it."""

    migration: int  # the number of the last migration
    breaking: int  # the number of the last breaking one; 0: none
    release: str  # the release of the functions and views
    checksum: str  # the checksum of the functions and views

    def matches(self, source: Source) -> bool:
        """Whether a release would change neither tables nor code."""
        return (self.migration, self.checksum) == (source.head, source.checksum)

    def is_newer_than(self, source: Source) -> bool:
        """Whether the schema has a migration, or a release number, that `source` is behind."""
        return self.migration > source.head or release_numbers(self.release) > release_numbers(source.release)


def is_there(found: Sequence[bool] | None) -> bool:
    """Whether a schema that has a version is installed, by the row that `FIND` gave."""
    has_version, has_broker, has_release = found or (False, False, False)
    if has_release and not has_version:
        raise SchemaTooOld("function mqpg.schema_version() is missing: run mqpg migrate, which makes functions again")
    if has_broker and not has_version:
        raise SchemaTooOld(
            "the schema of this database is from before mqpg 0.1.0 and cannot be upgraded: "
            "create a new database, or drop the schemas mqpg and pgmq with all messages"
        )
    return has_version


def read(connection: psycopg.Connection[Any]) -> Installed | None:
    """Read the version of the installed schema; None if mqpg is not installed."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        if not is_there(cursor.execute(FIND).fetchone()):
            return None
        row = cursor.execute(READ).fetchone()
        return None if row is None else Installed(*row)


def require_compatible(installed: Installed | None, source: Source) -> None:
    """Raise SchemaMissing, SchemaTooOld or SchemaTooNew unless `source` works with what is installed."""
    if installed is None:
        raise SchemaMissing("mqpg is not installed in this database: run mqpg migrate")
    if installed.breaking > source.head:
        raise SchemaTooNew(
            f"the schema of this database (mqpg {installed.release}) has migration {installed.breaking}, "
            f"which mqpg {source.release} cannot work with: upgrade mqpg"
        )
    theirs, ours = release_numbers(installed.release), release_numbers(source.release)
    if theirs[0] != ours[0] or abs(theirs[1] - ours[1]) > SKEW:
        newer = theirs > ours
        raise (SchemaTooNew if newer else SchemaTooOld)(
            f"the schema of this database is of mqpg {installed.release} and this is mqpg {source.release}, more than "
            f"one minor release apart: {'upgrade mqpg' if newer else 'run mqpg migrate'}"
        )


def release_numbers(release: str) -> tuple[int, int, int]:
    """The numbers of a release, to compare it with another one. `1.2rc1` counts as 1.2.0."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", release)
    if found is None:
        raise ConfigurationError(f"a release is named 1.2.3, not {release!r}")
    return int(found[1]), int(found[2]), int(found[3] or 0)
