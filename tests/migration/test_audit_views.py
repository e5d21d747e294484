"""The views that the audit reads: each has the columns of its table, but not the secret ones."""

from __future__ import annotations

from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

_READS = "what applications wrote: reading it needs the right to receive"
_RIGHTS = "copies of the rights: the view `rights` shows them"

# The columns of a table that its view leaves out, and why.
LEFT_OUT = {
    "commit_log": dict.fromkeys(["keys", "tags", "headers", "payloads"], _READS),
    "held": dict.fromkeys(["key", "tag", "headers", "payload"], _READS),
    "topic": dict.fromkeys(["senders", "readers"], _RIGHTS),
    "producer_group": {"producers": _RIGHTS},
    "subscription": {"receivers": _RIGHTS},
}
# The columns that a view has and its table has not, and why.
ADDED: dict[str, dict[str, str]] = {}

_COLUMNS = """
    select c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'mqpg'::regnamespace and (
        case when %(views)s then c.relkind = 'v' and starts_with(c.relname, 'audit_') else c.relkind in ('r', 'p') end)
"""


def columns(db: Connection, *, views: bool) -> dict[str, dict[str, str]]:
    """Name and type of the columns of each audit_ view, or of each table."""
    found: dict[str, dict[str, str]] = {}
    for relation, column, kind in db.execute(_COLUMNS, {"views": views}):
        found.setdefault(relation, {})[column] = kind
    return found


def test_each_view_has_the_columns_of_its_table(db: Connection) -> None:
    views, tables = columns(db, views=True), columns(db, views=False)
    assert len(views) > 10
    found = {name: set(kinds.items()) for name, kinds in views.items()}
    expected = {name: set(tables[name.removeprefix("audit_")].items()) for name in views}
    differences = {
        view: ({name for name, _ in expected[view] - found[view]}, {name for name, _ in found[view] - expected[view]})
        for view in views
        if found[view] != expected[view]
    }
    listed = {
        f"audit_{table}": (set(LEFT_OUT.get(table, {})), set(ADDED.get(table, {}))) for table in {*LEFT_OUT, *ADDED}
    }
    assert differences == listed
