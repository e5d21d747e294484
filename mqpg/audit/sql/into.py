"""The anomalies of an audit as rows of a table at the broker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from mqpg.audit.report import Report
from mqpg.values.errors import ConfigurationError, NotGranted

from .workspace import Workspace

__all__ = ["check_table", "keep_findings"]

_COLUMNS: dict[str, LiteralString] = {
    "run_id": "uuid",
    "at": "timestamp with time zone",
    "kind": "text",
    "consumer_group": "text",
    "topic": "text",
    "queue_id": "integer",
    "queue_offset": "bigint",
    "message_id": "bigint",
    "evidence": "text",
}
_OWN = ("mqpg", "mqpg_audit", "pgmq")
_EXISTING = """
select a.attname as name, format_type(a.atttypid, a.atttypmod) as kind
from pg_attribute as a where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped
"""


def check_table(work: Workspace, into: str) -> None:
    """Create the table if there is none, and require that rows can be added, before the audit begins."""
    with _errors(into):
        name = _name(work, into)
        written = name.as_string(work.connection)
        existing = {row["name"]: row["kind"] for row in work.connection.execute(_EXISTING, (written,))}
        if existing and existing != _COLUMNS:
            expected = ", ".join(f"{column} {kind}" for column, kind in _COLUMNS.items())
            raise ConfigurationError(f"--into {into}: the table has other columns than {expected}")
        if not existing:
            columns = [sql.SQL("{} {}").format(sql.Identifier(one), sql.SQL(kind)) for one, kind in _COLUMNS.items()]
            work.connection.execute(sql.SQL("create table {} ({})").format(name, sql.SQL(", ").join(columns)))
        work.connection.execute(sql.SQL("explain insert into {} default values").format(name))


def keep_findings(work: Workspace, into: str, report: Report, found: list[dict[str, Any]]) -> None:
    """Add all anomalies to the table, with the run that found them, in one statement."""
    run = (report.run["run_id"], report.run["at"])
    with _errors(into), work.connection.cursor() as cursor:
        cursor.execute("reset synchronous_commit")
        columns = sql.SQL(", ").join(map(sql.Identifier, _COLUMNS))
        with cursor.copy(sql.SQL("copy {} ({}) from stdin").format(_name(work, into), columns)) as copy:
            for row in found:
                copy.write_row((*run, *(row[column] for column in list(_COLUMNS)[2:])))


def _name(work: Workspace, into: str) -> sql.Identifier:
    (row,) = work.connection.execute("select parse_ident(%s) as parts", (into,)).fetchall()
    parts = row["parts"] if len(row["parts"]) > 1 else ["public", *row["parts"]]
    if len(parts) > 2 or parts[0] in _OWN:
        raise ConfigurationError(f"--into {into}: it must be TABLE or SCHEMA.TABLE, in none of {', '.join(_OWN)}")
    return sql.Identifier(*parts)


@contextlib.contextmanager
def _errors(into: str) -> Iterator[None]:
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise NotGranted(f"--into {into}: {error.diag.message_primary}") from error
    except psycopg.errors.DatabaseError as error:
        raise ConfigurationError(f"--into {into}: {error.diag.message_primary or error}") from error
