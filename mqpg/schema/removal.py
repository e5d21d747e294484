"""Removing mqpg from a database."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import tuple_row

from mqpg.schema.compatibility import LOCK, read
from mqpg.schema.source import packaged
from mqpg.values.errors import SchemaMissing, TopicInUse

__all__ = ["remove", "require_nothing_left", "unfinished"]

# Senders and deciders wait while it is counted, and then find that mqpg is gone.
_STOP = "lock table only mqpg.commit_log, only mqpg.op_log, only mqpg.delayed in share mode"
_THERE = """
select array(select n.nspname::text from pg_namespace n where n.nspname in ('mqpg', 'mqpg_audit', 'pgmq') order by 1),
    array(select r.rolname::text from pg_roles r where r.rolname like 'mqpg%' order by 1)
"""


def unfinished(connection: psycopg.Connection[Any]) -> list[str]:
    """Say what an uninstallation would lose, for instance `["12 undelivered messages"]`."""
    if read(connection) is None:
        raise SchemaMissing("mqpg is not installed in this database")
    return list(_row(connection, packaged().install("unfinished"))[0])


def remove(connection: psycopg.Connection[Any], *, force: bool) -> list[str]:
    """Drop the schemas mqpg and mqpg_audit, and what mqpg made in pgmq, in the current transaction.

    With `force` undelivered messages are dropped, too; without it they raise `TopicInUse`. Returns lines
    that say what was dropped and what remains.
    """
    connection.execute("set local search_path = pg_catalog, pg_temp")
    connection.execute(LOCK)
    if read(connection) is not None:
        connection.execute(_STOP)
    require_nothing_left(unfinished(connection), force=force)
    before, _ = _row(connection, _THERE)
    connection.execute(packaged().install("removal").encode())
    schemas, roles = _row(connection, _THERE)
    done = [f"dropped the schema {name}" for name in before if name not in schemas]
    if "pgmq" in schemas:
        done.append("the schema pgmq remains, because it has other queues or was not made by mqpg")
    if roles:
        done.append(f"these roles remain, because other databases may use them: {', '.join(roles)}")
    return [*done, "tables of mqpg in other schemas and databases remain: mqpg_ledger, mqpg_applied, mqpg_inbox, …"]


def require_nothing_left(left: list[str], *, force: bool) -> None:
    """Raise `TopicInUse` if something is left (see `unfinished`) and `force` is False."""
    if left and not force:
        raise TopicInUse(f"there are {', '.join(left)}: nothing was dropped (--force drops all)")


def _row(connection: psycopg.Connection[Any], query: str) -> tuple[Any, ...]:
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(query.encode()).fetchone()
    assert row is not None  # these queries return one
    return row
