"""What is in a database's schemas mqpg, mqpg_audit and pgmq, as comparable rows: a pg_dump without needing pg_dump."""

from pathlib import Path
from typing import Any

import psycopg

__all__ = ["FROZEN", "catalog", "comparable", "undocumented"]

FROZEN = sorted((Path(__file__).parent / "frozen").glob("*.sql.gz"))
"""The schemas of releases, with messages in every state."""

_HERE = "in ('mqpg'::regnamespace, to_regnamespace('mqpg_audit'), 'pgmq'::regnamespace)"

# (kind, name, definition); names of time-dependent partitions are the same in two runs of one test, their bounds are
# not where an hour or a day ends between the two.
_QUERIES = {
    "relation": f"""
        select c.oid::regclass::text,
            concat_ws(' ', c.relkind, c.relpersistence, c.relreplident, c.reloptions::text, pg_get_partkeydef(c.oid),
                case when c.oid::regclass::text ~ '^mqpg[.](dedup|delayed)_' then 'a time' else
                    pg_get_expr(c.relpartbound, c.oid) end)
        from pg_class c where c.relnamespace {_HERE}
    """,
    "column": f"""
        select a.attrelid::regclass || '.' || a.attname,
            concat_ws(' ', a.attnum, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
                a.attgenerated, a.attstorage, a.attcompression, pg_get_expr(d.adbin, d.adrelid))
        from pg_attribute a
        join pg_class c on c.oid = a.attrelid
        left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where c.relnamespace {_HERE} and a.attnum > 0 and not a.attisdropped
    """,
    "constraint": f"""
        select coalesce(nullif(conrelid, 0)::regclass::text, '') || '.' || conname, pg_get_constraintdef(oid)
        from pg_constraint where connamespace {_HERE}
    """,
    "index": f"""
        select i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
        from pg_index i join pg_class c on c.oid = i.indexrelid where c.relnamespace {_HERE}
    """,
    "function": f"""
        select oid::regprocedure::text, pg_get_functiondef(oid)
        from pg_proc where pronamespace {_HERE} and prokind in ('f', 'p')
    """,
    "view": f"""
        select oid::regclass::text, pg_get_viewdef(oid) from pg_class where relkind = 'v' and relnamespace {_HERE}
    """,
    "enum": f"""
        select t.oid::regtype::text, string_agg(e.enumlabel, ',' order by e.enumsortorder)
        from pg_type t join pg_enum e on e.enumtypid = t.oid where t.typnamespace {_HERE} group by t.oid
    """,
    "trigger": f"""
        select t.tgname, pg_get_triggerdef(t.oid)
        from pg_trigger t join pg_class c on c.oid = t.tgrelid where c.relnamespace {_HERE} and not t.tgisinternal
    """,
    "comment": """
        select identity.type || ' ' || identity.identity, d.description
        from pg_description d, pg_identify_object(d.classoid, d.objoid, d.objsubid) identity
        where identity.schema in ('mqpg', 'mqpg_audit', 'pgmq') or identity.identity in ('mqpg', 'mqpg_audit', 'pgmq')
    """,
    # A dump leaves out what is the default, so that a restored object has no list of its own.
    "privilege": f"""
        select o.name, (select string_agg(a::text, ' ' order by a::text) from unnest(o.acl) a) from (
            select oid::regclass::text, coalesce(
                relacl, acldefault(case relkind when 'S' then 's' else 'r' end::"char", relowner))
            from pg_class where relnamespace {_HERE} and relkind in ('r', 'p', 'v', 'm', 'S')
            union all
            select oid::regprocedure::text, coalesce(proacl, acldefault('f', proowner))
            from pg_proc where pronamespace {_HERE}
            union all
            select nspname, coalesce(nspacl, acldefault('n', nspowner)) from pg_namespace where oid {_HERE}
        ) as o (name, acl)
    """,
    "owner": f"""
        select oid::regclass::text, pg_get_userbyid(relowner) from pg_class where relnamespace {_HERE}
        union all
        select oid::regprocedure::text, pg_get_userbyid(proowner) from pg_proc where pronamespace {_HERE}
        union all
        select nspname, pg_get_userbyid(nspowner) from pg_namespace where oid {_HERE}
    """,
    "setting": "select name, value::text from mqpg.settings",
    "version": "select 'version', concat_ws(' ', migration, breaking, release, checksum) from mqpg.schema_version()",
}

# Row types and array types belong to their tables; partitions to their parents.
_UNDOCUMENTED = """
    select kind || ' ' || name from (
        select 'relation', oid::regclass::text, obj_description(oid, 'pg_class') from pg_class
        where relnamespace in ('mqpg'::regnamespace, 'mqpg_audit'::regnamespace)
            and relkind in ('r', 'p', 'v', 'm', 'S') and not relispartition
            and not exists (select from pg_depend where objid = pg_class.oid and deptype = 'i')
        union all
        select 'function', oid::regprocedure::text, obj_description(oid, 'pg_proc') from pg_proc
        where pronamespace = 'mqpg'::regnamespace
        union all
        select 'type', t.oid::regtype::text, obj_description(t.oid, 'pg_type')
        from pg_type t left join pg_class c on c.oid = t.typrelid
        where t.typnamespace = 'mqpg'::regnamespace and t.typcategory <> 'A' and coalesce(c.relkind, 'c') = 'c'
    ) object (kind, name, comment)
    where comment is null
    order by 1
"""


def catalog(dsn: str) -> list[tuple[str, str, str]]:
    """Everything in the three schemas, sorted."""
    found = []
    with psycopg.connect(dsn) as connection:
        for kind, query in _QUERIES.items():
            rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
            found += [(kind, str(name), str(definition)) for name, definition in rows]
    return sorted(found)


def comparable(dsn: str) -> list[tuple[str, str, str]]:
    """The catalog without what depends on the data or the server: partitions, lz4, applied migrations."""
    with psycopg.connect(dsn) as connection:
        parts = connection.execute(
            "select oid::regclass::text as name from pg_class where relispartition"
            " and relnamespace = 'mqpg'::regnamespace"
        ).fetchall()
    partitions = {name for (name,) in parts}
    found = []
    for kind, name, text in catalog(dsn):
        table = name.rsplit(".", 1)[0] if kind in ("column", "constraint") else name
        if table in partitions or name in partitions or kind == "setting":
            continue
        if kind == "column":  # without its position, storage and compression
            words = text.split(" ")
            text = " ".join(word for word in words[1:] if word not in ("", "x", "e", "l", "p", "m"))
        found.append((kind, name, text))
    return found


def undocumented(connection: psycopg.Connection[Any]) -> list[str]:
    """Objects of mqpg without a comment."""
    return [row[0] for row in connection.execute(_UNDOCUMENTED)]
