"""Removing mqpg from a database."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from mqpg.schema.compatibility import LOCK, read
from mqpg.values.errors import SchemaMissing, TopicInUse

__all__ = ["remove", "require_nothing_left", "unfinished"]

# What would be lost, in words. What no tick has seen is not in subscription_lag: messages that were
# just sent or committed, and delayed messages and retries that are not yet due.
_UNFINISHED = """
with newest as materialized (select t.* from mqpg.tick t order by t.tick_id desc limit 1),
fresh (messages) as (
    select c.n::bigint from newest t, mqpg.commit_log c
    where c.kind = 'n' and c.xid >= pg_snapshot_xmin(t.snapshot) and not pg_visible_in_snapshot(c.xid, t.snapshot)
    union all
    select 1 from newest t, mqpg.op_log o
    where o.op = 'c' and o.visible_at is null
        and o.xid >= pg_snapshot_xmin(t.snapshot) and not pg_visible_in_snapshot(o.xid, t.snapshot)
),
later as (
    select d.* from newest t, mqpg.delayed d
    where d.visible_at > t.due_until
        or (d.xid >= pg_snapshot_xmin(t.snapshot) and not pg_visible_in_snapshot(d.xid, t.snapshot))
),
waiting (messages) as (
    select count(*) from (
        select d.first_id + i from later d cross join lateral generate_series(0, d.n - 1) as i
        where d.subscription_id = 0
        except
        select o.message_id from mqpg.op_log o where o.stage = 1
    ) as m
    union all
    select d.n from later d join mqpg.subscription s on s.subscription_id = d.subscription_id
    where not coalesce(s.retries_from > d.written_at, false)
)
select array_remove(array[
    (select nullif(coalesce(sum(l.lag), 0), 0) || ' undelivered messages' from mqpg.subscription_lag l),
    (select nullif(coalesce(sum(f.messages), 0), 0) || ' messages not yet appended' from fresh f),
    (select nullif(coalesce(sum(w.messages), 0), 0) || ' messages not yet due' from waiting w),
    (select nullif(count(*), 0) || ' undecided half messages' from mqpg.half_pending),
    (select nullif(count(*), 0) || ' parked half messages' from mqpg.half_parked),
    (select nullif(count(*), 0) || ' dead letters' from mqpg.dead_letter),
    (
        select nullif(count(*), 0) || ' running workers' from mqpg.worker_status w
        where w.alive and w.pid > 0 and w.role <> 'audit'
    )
], null)
"""
# Senders and deciders wait while it is counted, and then find that mqpg is gone.
_STOP = "lock table only mqpg.commit_log, only mqpg.op_log, only mqpg.delayed in share mode"
# A role that logs in may have made the schema pgmq itself, before mqpg came. So it remains there.
_OURS = """
select to_regclass('pgmq.q_mqpg_oplog') is not null, case
        when exists (select from pg_extension e where e.extname = 'pgmq') then 'it is an extension'
        when m.others > 0 then m.others || ' other queues'
        when n.nspowner <> o.oid or o.rolcanlogin
            then format('it belongs to %s and may have been there before', n.nspowner::regrole)
    end, o.rolname, o.rolcanlogin
from (select count(*) as others from pgmq.meta m where m.queue_name <> 'mqpg_oplog') as m,
    pg_namespace n, pg_namespace s join pg_roles o on o.oid = s.nspowner
where n.nspname = 'pgmq' and s.nspname = 'mqpg'
"""
_VIEWS_ARE_OURS = """
select from pg_namespace a join pg_namespace n on n.nspowner = a.nspowner
where a.nspname = 'mqpg_audit' and n.nspname = 'mqpg'
"""
# What install/owner.sql granted to an owner that does not own the schema pgmq.
_UNGRANT = (
    "revoke all on all tables in schema pgmq from {}",
    "revoke all on all sequences in schema pgmq from {}",
    "revoke all on schema pgmq from {}",
)
_ROLES = "select r.rolname from pg_roles r where r.rolname like 'mqpg%' order by 1"


def unfinished(connection: psycopg.Connection[Any]) -> list[str]:
    """Say what an uninstallation would lose, for instance `["12 undelivered messages"]`."""
    if read(connection) is None:
        raise SchemaMissing("mqpg is not installed in this database")
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_UNFINISHED).fetchone()
    return list(row[0]) if row else []


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
    done = []
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_OURS).fetchone()
        queue, stays, owner, logs_in = row if row else (False, "it is not there", "", True)
        views = cursor.execute(_VIEWS_ARE_OURS).rowcount
        cursor.execute("drop schema mqpg cascade")  # its views read the queue
        cursor.execute("drop schema if exists mqpg_retired cascade")
        done.append("dropped the schema mqpg")
        if views:
            cursor.execute("drop schema mqpg_audit cascade")
            done.append("dropped the schema mqpg_audit")
        if queue:
            cursor.execute("select pgmq.drop_queue(text 'mqpg_oplog')")
            done.append("dropped the queue mqpg_oplog of pgmq")
        if stays:
            done.append(f"the schema pgmq remains: {stays}")
        else:
            cursor.execute("drop schema pgmq cascade")
            done.append("dropped the schema pgmq, which had no other queue")
        _release(cursor, owner, logs_in=logs_in)
        roles = [name for (name,) in cursor.execute(_ROLES)]
    if roles:
        done.append(f"these roles remain, because other databases may use them: {', '.join(roles)}")
    done.append("tables of mqpg in other schemas and databases remain: mqpg_ledger, mqpg_applied, mqpg_inbox, …")
    return done


def require_nothing_left(left: list[str], *, force: bool) -> None:
    """Raise `TopicInUse` if something is left (see `unfinished`) and `force` is False."""
    if left and not force:
        raise TopicInUse(f"there are {', '.join(left)}: nothing was dropped")


def _release(cursor: psycopg.Cursor[Any], owner: str, *, logs_in: bool) -> None:
    """Undo what keeps the owner of the schema from being dropped."""
    role = sql.Identifier(owner)
    if not logs_in:
        cursor.execute(
            sql.SQL("alter default privileges for role {} grant execute on functions to public").format(role)
        )
    granted = "select from pg_namespace n where n.nspname = 'pgmq' and pg_get_userbyid(n.nspowner) <> %s"
    if cursor.execute(granted, [owner]).rowcount:
        for revoke in _UNGRANT:
            cursor.execute(sql.SQL(revoke).format(role))
