"""How large an audit is, known before it starts and without a pass over any table but the ticks."""

from __future__ import annotations

from mqpg.audit.sql.postgresql_source import PostgresqlSource
from mqpg.audit.sql.sources import Source

__all__ = ["estimate_messages"]

# What ticks have appended, and rows of the log, which also has those that wait for the appender.
_BROKER = """
select greatest(
    (select coalesce(sum(t.messages), 0) from mqpg_audit.tick t),
    (select coalesce(sum(c.reltuples), 0)
     from pg_inherits i join pg_class c on c.oid = i.inhrelid and c.reltuples > 0
     where i.inhparent = 'mqpg.commit_log'::regclass))::bigint as messages
"""
# A row of a journal or ledger takes 100 to 150 bytes. to_regclass('mqpg.ledger') would be an error
# for a role that may not use the schema.
_TABLES = """
select coalesce(max(coalesce(pg_relation_size(c.oid), 0) + coalesce(p.size, 0)) / 120, 0)::bigint as messages
from (
    select to_regclass('mqpg_applied')
    union all select to_regclass('mqpg_ledger')
    union all select l.oid from pg_class l where l.relnamespace = to_regnamespace('mqpg') and l.relname = 'ledger'
) as c(oid)
cross join lateral (select sum(pg_relation_size(t.relid)) as size from pg_partition_tree(c.oid) t) p
"""
_READABLE = """
select exists (
    select from pg_class c
    where c.relnamespace = to_regnamespace('mqpg_audit') and c.relname = 'queue_row'
        and has_schema_privilege(c.relnamespace, 'usage') and has_table_privilege(c.oid, 'select')) as readable
"""


def estimate_messages(source: Source) -> int:
    """Estimate how many messages a database has: a broker, a ledger or a journal, or all of them.

    Returns the messages in its queues, or the rows of its largest table if these are more.
    """
    if not isinstance(source, PostgresqlSource):
        return max(source.count(table) for table in ("mqpg_applied", "mqpg_ledger"))
    found = [int(source.rows(_TABLES)[0]["messages"])]
    if source.rows(_READABLE)[0]["readable"]:
        found.append(int(source.rows(_BROKER)[0]["messages"]))
    return max(found)
