"""Removing mqpg from a database."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import tuple_row

from mqpg.errors import SchemaMissing, TopicInUse
from mqpg.schema import apply, script

__all__ = ["remove", "unfinished"]

# What would be lost, in words.
_UNFINISHED = """
select array_remove(array[
    (select nullif(coalesce(sum(l.lag), 0), 0) || ' undelivered messages' from mqpg.subscription_lag l),
    (select nullif(count(*), 0) || ' undecided half messages' from mqpg.half_pending),
    (select nullif(count(*), 0) || ' parked half messages' from mqpg.half_parked),
    (select nullif(count(*), 0) || ' dead letters' from mqpg.dead_letter),
    (select nullif(count(*), 0) || ' running workers' from mqpg.worker_status w where w.alive)
], null)
"""
_OURS = """
select to_regclass('pgmq.q_mqpg_oplog') is not null,
    exists (select from pg_extension e where e.extname = 'pgmq'),
    (select count(*) from pgmq.meta m where m.queue_name <> 'mqpg_oplog')
"""
_ROLES = "select r.rolname from pg_roles r where r.rolname like 'mqpg%' order by 1"


def unfinished(connection: psycopg.Connection[Any]) -> list[str]:
    """Say what an uninstallation would lose.

    Args:
        connection: An open connection to the database.

    Returns:
        For instance `["12 undelivered messages"]`; empty where nothing is left to do.

    Raises:
        SchemaMissing: mqpg is not installed.
    """
    if apply.read(connection) is None:
        raise SchemaMissing("mqpg is not installed in this database")
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_UNFINISHED).fetchone()
    return list(row[0]) if row else []


def remove(connection: psycopg.Connection[Any], *, force: bool) -> list[str]:
    """Drop the schema mqpg, and what mqpg made in the schema pgmq, in the current transaction.

    Args:
        connection: A connection in a transaction.
        force: Whether to drop undelivered messages, too.

    Returns:
        Lines that say what was dropped and what remains.

    Raises:
        SchemaMissing: mqpg is not installed.
        TopicInUse: There are undelivered messages or running workers, and `force` is False.
    """
    connection.execute(script.LOCK)
    left = unfinished(connection)
    if left and not force:
        raise TopicInUse(f"there are {', '.join(left)}: nothing was dropped")
    done = []
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_OURS).fetchone()
        queue, extension, others = row if row else (False, False, 0)
        cursor.execute("drop schema mqpg cascade")  # its views read the queue
        cursor.execute("drop schema if exists mqpg_retired cascade")
        done.append("dropped the schema mqpg")
        if queue:
            cursor.execute("select pgmq.drop_queue('mqpg_oplog')")
            done.append("dropped the queue mqpg_oplog of pgmq")
        if extension or others:
            done.append(f"the schema pgmq remains: {'it is an extension' if extension else f'{others} other queues'}")
        else:
            cursor.execute("drop schema pgmq cascade")
            done.append("dropped the schema pgmq, which had no other queue")
        roles = [name for (name,) in cursor.execute(_ROLES)]
    if roles:
        done.append(f"these roles remain, because other databases may use them: {', '.join(roles)}")
    done.append("tables of mqpg in other schemas and databases remain: mqpg_ledger, mqpg_applied, mqpg_inbox, …")
    return done
