"""What a run leaves: the rows of the user's tables, the lines of files, and the messages."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from mqpg.user_tables.tables import FAMILIES

__all__ = ["Row", "Snapshot", "has_table", "take", "with_schemas"]

Row = dict[str, Any]
Snapshot = dict[str, list[Row]]

_READER = "mqpg-crashtest"
# What is the library's own. Users may have names that begin in the same way.
_OURS = {
    "schemas": ["information_schema", "mqpg", "mqpg_audit", "mqpg_retired", "pgmq"],
    "tables": [table.name for tables in FAMILIES.values() for table in tables],
}
_TABLES = """
select c.oid, n.nspname, c.relname
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not c.relispartition and n.nspname !~ '^pg_'
    and n.nspname <> all(%(schemas)s) and c.relname <> all(%(tables)s)
order by 2, 3
"""
_SCHEMAS = """
select distinct quote_ident(n.nspname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and c.relname = any(%(tables)s) and n.nspname !~ '^pg_'
    and n.nspname <> all(%(schemas)s) and n.nspname <> 'public'
"""
# A sequence does not roll back, so its numbers differ after a crash, and references to them too.
_GENERATED = """
with generated as (
    select a.attrelid, a.attnum from pg_attribute a
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attidentity <> '' or pg_get_expr(d.adbin, d.adrelid) ~ '^nextval\\('
)
select a.attname from pg_attribute a
where a.attrelid = %(table)s and (
    (a.attrelid, a.attnum) in (select g.attrelid, g.attnum from generated g)
    or exists (
        select from pg_constraint k, unnest(k.conkey, k.confkey) as p (mine, theirs)
        where k.contype = 'f' and k.conrelid = a.attrelid and p.mine = a.attnum
            and (k.confrelid, p.theirs) in (select g.attrelid, g.attnum from generated g)
    )
)
"""


def take(dsns: list[str], folder: Path) -> Snapshot:
    """Read everything that a run left, in the folder and in the databases, the broker's first.

    Returns the rows by table, without columns whose numbers a sequence gives.
    """
    found: Snapshot = {}
    for dsn, suffix in zip(dsns, ("", " (second database)"), strict=False):
        with psycopg.connect(dsn) as conn:
            found |= {f"table {name}{suffix}": rows for name, rows in _tables(conn)}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.endswith(("-wal", "-shm", "-journal")):
            found |= _file(path, path.relative_to(folder))
    with psycopg.connect(dsns[0]) as conn:
        found |= dict(_messages(conn))
        letters = conn.execute(
            "select consumer_group, topic, message_id from mqpg_audit.dead_letter where state = 'dead'"
        )
        for group, topic, message_id in letters:
            found.setdefault(f"dead letters of {group} in {topic}", []).append({"message": message_id})
    return found


def with_schemas(dsn: str) -> str:
    """The DSN of a database, so that mqpg's tables are found in whichever schemas they are."""
    with psycopg.connect(dsn) as conn:
        schemas = [row[0] for row in conn.execute(_SCHEMAS, _OURS)]
    path = ",".join(['"$user"', "public", *schemas])
    return make_conninfo(dsn, options="-csearch_path=" + re.sub(r"([\s\\])", r"\\\1", path)) if schemas else dsn


def has_table(dsn: str, table: str) -> bool:
    """Whether a database has a table of mqpg in it."""
    with psycopg.connect(dsn) as conn:
        return bool(conn.execute("select to_regclass(%s) is not null", [table]).fetchone() == (True,))


def _tables(conn: psycopg.Connection[Any]) -> Iterator[tuple[str, list[Row]]]:
    for oid, schema, name in conn.execute(_TABLES, _OURS).fetchall():
        left_out = {row[0] for row in conn.execute(_GENERATED, {"table": oid})}
        query = sql.SQL("select to_jsonb(t)::text from {} as t").format(sql.Identifier(schema, name))
        rows = [json.loads(row[0]) for row in conn.execute(query)]
        shown = name if schema == "public" else f"{schema}.{name}"
        yield shown, [{key: value for key, value in row.items() if key not in left_out} for row in rows]


def _file(path: Path, name: Path) -> Snapshot:
    with path.open("rb") as file:
        head = file.read(16)
    if head == b"SQLite format 3\0":
        return {f"table {table} in {name}": rows for table, rows in _sqlite(path)}
    text = path.read_text(encoding="utf-8", errors="replace")
    return {f"file {name}": [{"line": line} for line in text.splitlines()]}


def _sqlite(path: Path) -> Iterator[tuple[str, list[Row]]]:
    conn = sqlite3.connect(path)
    try:
        conn.row_factory = sqlite3.Row
        names = [row[0] for row in conn.execute("select name from sqlite_master where type = 'table' order by 1")]
        for name in names:
            if not name.startswith("sqlite_") and name not in _OURS["tables"]:
                quoted = name.replace('"', '""')
                yield name, [dict(row) for row in conn.execute(f'select * from "{quoted}"')]
    finally:
        conn.close()


def _messages(conn: psycopg.Connection[Any]) -> Iterator[tuple[str, list[Row]]]:
    """The messages that a new group would get. Nothing of this is committed."""
    topics = conn.execute("select topic from mqpg.topics where kind = 'normal' order by 1").fetchall()
    conn.commit()
    for (topic,) in topics:
        conn.execute("select mqpg.subscribe(%s, %s)", [_READER, topic])
        conn.commit()
        rows: list[Row] = []
        while got := conn.execute(
            "select payload::text, key, tag, headers::text from mqpg.receive(%s, %s, 10000)", [_READER, topic]
        ).fetchall():
            rows += [dict(zip(("payload", "key", "tag", "headers"), row, strict=True)) for row in got]
        conn.rollback()
        yield f"messages in topic {topic}", rows
    delayed = conn.execute(
        "select topic, count(*) from mqpg_audit.delayed where subscription_id is null and not is_due group by 1"
    )
    for topic, count in delayed.fetchall():
        yield f"delayed messages in topic {topic}", [{}] * count
