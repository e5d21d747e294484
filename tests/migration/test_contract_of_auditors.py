"""The contract of schema mqpg_audit: views, columns and types do not change under one version.

contract.json lists them. Add new views there, and new columns at the end of their view. If you
remove one or change what it means, raise `contract` in mqpg_audit.version too.
"""

import json
from pathlib import Path
from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

CONTRACT = json.loads(Path(__file__).with_name("contract.json").read_text("utf-8"))
_COLUMNS = """
select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum),
    obj_description(c.oid, 'pg_class')
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
where c.relnamespace = 'mqpg_audit'::regnamespace
order by c.relname, a.attnum
"""
# Types that JDBC and the tools above it know. xid8, "char" and composite types are none of them.
KNOWN = {
    "bigint",
    "boolean",
    "integer",
    "interval",
    "text",
    "timestamp with time zone",
    "bigint[]",
    "integer[]",
    "text[]",
}


def test_views_columns_and_types_are_those_of_the_contract(db: Connection) -> None:
    found: dict[str, dict[str, str]] = {}
    for view, column, kind, _, _ in db.execute(_COLUMNS):
        found.setdefault(view, {})[column] = kind
    (version,) = db.execute("select contract from mqpg_audit.version").fetchone() or (None,)
    # Also in this order: a tool may read columns by their number.
    assert json.dumps({"contract": version, "views": found}) == json.dumps(CONTRACT)


def test_every_type_is_one_that_jdbc_knows(db: Connection) -> None:
    assert {kind for _, _, kind, _, _ in db.execute(_COLUMNS)} <= KNOWN


def test_every_view_and_every_column_has_a_comment(db: Connection) -> None:
    assert [(view, column) for view, column, _, comment, _ in db.execute(_COLUMNS) if not comment] == []


def test_there_is_nothing_else_in_the_schema(db: Connection) -> None:
    kinds = db.execute("select distinct relkind::text from pg_class where relnamespace = 'mqpg_audit'::regnamespace")
    assert kinds.fetchall() == [("v",)]
    assert db.execute("select from pg_proc where pronamespace = 'mqpg_audit'::regnamespace").rowcount == 0
