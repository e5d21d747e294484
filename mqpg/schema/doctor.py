"""What is wrong with an installed schema, with the command that mends it."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import tuple_row

from mqpg.schema.compatibility import Installed
from mqpg.schema.source import Source

__all__ = ["missing", "out_of_reach", "problems"]

_BECOME = """
select set_config('role', r.rolname, false) from pg_namespace n join pg_roles r on r.oid = n.nspowner
where n.nspname = 'mqpg' and not pg_has_role(n.nspowner, 'usage')
"""
_REACH = """
select pg_get_userbyid(n.nspowner) from pg_namespace n
where n.nspname = 'mqpg' and not pg_has_role(n.nspowner, 'usage') and not pg_has_role(n.nspowner,
    case when current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end)
"""
_CLUSTER = """
select b.system_identifier <> (select c.system_identifier from pg_control_system() c), b.timeline <> t.now, b.timeline,
    t.now, to_jsonb(b) ->> 'database_oid' <> (
        select d.oid::text from pg_database d where d.datname = current_database())
from mqpg.broker b, (select left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) as now) t
"""
_COMPRESSION = """
select string_agg(a.attname, ', ' order by a.attnum) from pg_attribute a
where a.attrelid = 'mqpg.commit_log'::regclass and a.attname in ('payloads', 'headers', 'keys', 'tags')
    and a.attcompression <> 'l'
    and exists (select from pg_settings s where s.name = 'default_toast_compression' and 'lz4' = any(s.enumvals))
"""
_OWNERS = """
select count(*), min(pg_get_userbyid(o.owner)), pg_get_userbyid(n.nspowner)
from pg_namespace n, (
    select c.relowner, c.relnamespace from pg_class c where c.relkind in ('r', 'p', 'v', 'S')
    union all
    select p.proowner, p.pronamespace from pg_proc p
    where p.proname <> '_call_checker' or pg_get_userbyid(p.proowner) <> 'mqpg_asker'
    union all
    select a.nspowner, a.oid from pg_namespace a
) as o (owner, namespace)
where n.nspname = 'mqpg' and o.namespace in (n.oid, to_regnamespace('mqpg_audit')) and o.owner <> n.nspowner
group by n.nspowner
"""
# They hold for the owner, too, whom no policy lets see a row, unless it may pass by all of them.
_HIDDEN = """
select string_agg(c.oid::regclass::text, ', ' order by c.relname)
from pg_class c join pg_roles r on r.oid = c.relowner
where c.relnamespace = to_regnamespace('mqpg') and c.relrowsecurity and c.relforcerowsecurity
    and not (r.rolsuper or r.rolbypassrls)
"""
_IDS = "select last_value from mqpg.subscription_subscription_id_seq"
_LAST_ID = 2_097_150  # greatest id of a subscription; see _require_subscription_id()
_BATCHES = "select last_value * 1024 from mqpg.batch_id where last_value * 1024 > 0.8 * 2::numeric ^ 53"
_THERE = """
select case when c.relkind = 'v' then 'view' else 'table' end || ' ' || n.nspname || '.' || c.relname
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('mqpg', 'mqpg_audit') and c.relkind in ('r', 'p', 'v')
union all
select 'function mqpg.' || p.proname from pg_proc p where p.pronamespace = to_regnamespace('mqpg')
"""


def missing(connection: psycopg.Connection[Any], source: Source) -> list[str]:
    """The tables, functions and views of a release that the database does not have, such as "view mqpg.lag"."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        there = {name for (name,) in cursor.execute(_THERE)}
    wanted = {f"{one.kind} {one.schema}.{one.name}" for one in source.code if one.kind != "trigger"}
    return sorted((wanted | {f"table mqpg.{name}" for name in source.tables}) - there)


def out_of_reach(connection: psycopg.Connection[Any]) -> str | None:
    """The owner of the schema if the connection's role has too few rights for `problems`, else None."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(_REACH).fetchone()
    return None if row is None else str(row[0])


def problems(connection: psycopg.Connection[Any], installed: Installed, source: Source) -> list[str]:
    """Say in a line each what a restore, another owner or an interrupted upgrade left behind."""
    found = _lost(missing(connection, source)) if installed.matches(source) else []
    if any("tables are missing" in line for line in found):
        return found  # the others ask them
    with connection.cursor(row_factory=tuple_row) as cursor:
        # Only the owner of the schema reads its tables.
        cursor.execute(_BECOME)
        row = cursor.execute(_HIDDEN).fetchone()
        if row is not None and row[0] is not None:
            found.append(
                f"row level security hides the rows of {row[0]} from mqpg itself, as if they were not there: "
                "alter table NAME no force row level security"
            )
        row = cursor.execute(_CLUSTER).fetchone()
        if row is not None and row[0]:
            found.append("the data come from another cluster, so append() refuses: run mqpg migrate adopt")
        elif row is not None and row[4]:
            found.append(
                "this database is a copy of a broker on the same server, so append() refuses and no ledger is asked: "
                "run mqpg migrate adopt"
            )
        elif row is not None and row[1]:
            found.append(
                f"the server was promoted or recovered (timeline {row[2]}, now {row[3]}), so append() refuses: "
                "run mqpg migrate adopt"
            )
        row = cursor.execute(_COMPRESSION).fetchone()
        if row is not None and row[0] is not None:
            found.append(
                f"this server has lz4 and the columns {row[0]} of mqpg.commit_log do not use it, as after a restore "
                "with --no-toast-compression: alter table mqpg.commit_log alter column NAME set storage extended, "
                "alter column NAME set compression lz4"
            )
        row = cursor.execute(_OWNERS).fetchone()
        if row is not None:
            found.append(
                f"{row[0]} objects belong to {row[1]} and the schema mqpg to {row[2]}: run mqpg migrate as owner"
            )
        row = cursor.execute(_IDS).fetchone()
        if row is not None and row[0] > 0.8 * _LAST_ID:
            found.append(
                f"{row[0]:,} of {_LAST_ID:,} ids of subscriptions are used up, and each new member of a broadcast "
                "group takes one: give consumers names that they keep over restarts, and plan to move to a new broker"
            )
        row = cursor.execute(_BATCHES).fetchone()
        if row is not None:
            found.append(
                f"message ids have come to {row[0]:,}, and JavaScript's numbers are exact up to {2**53:,}: "
                "there select message_id::text"
            )
    if not installed.matches(source) and not installed.is_newer_than(source):
        found.append(f"the schema is of mqpg {installed.release}, and this is {source.release}: run mqpg migrate")
    return found


def _lost(names: list[str]) -> list[str]:
    """A line for each kind of what is missing."""
    found = []
    for kind in ("table", "function", "view"):
        some = [name.removeprefix(f"{kind} ") for name in names if name.startswith(f"{kind} ")]
        if some:
            remedy = "restore a backup" if kind == "table" else "run mqpg migrate, which makes them again"
            found.append(f"{len(some)} {kind}s are missing, such as {some[0]}: {remedy}")
    return found
