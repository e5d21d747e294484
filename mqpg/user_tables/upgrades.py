"""Upgrading tables that an earlier release made in its users' databases.

Both the library and the Alembic branch `mqpg_tables` upgrade by these statements.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import MetaData, Table, inspect
from sqlalchemy.engine import Connection
from sqlalchemy.schema import CreateIndex, CreateTable

from mqpg.user_tables.tables import FAMILIES, located, offsets

__all__ = ["UNIDENTIFIED", "identify", "quoted", "upgrade", "upgrade_found", "upgrade_statements"]

UNIDENTIFIED = "select true from pg_class where oid = to_regclass('{}') and relreplident = 'd'"
"""Asks PostgreSQL whether a table without a primary key has no replica identity either."""

# What a column of the primary key gets in rows that were written before it existed. An inbox row
# was written in one transaction with the offset that it explains.
_FILL = {
    ("mqpg_inbox", "broker"): "coalesce((select min(o.broker) from {offsets} o"
    " where o.consumer_group = {old}.consumer_group and o.topic = {old}.topic), '')"
}
# Indexes of earlier releases, which those of this one replace.
_REPLACED = {"mqpg_ledger": "mqpg_ledger_open"}
_MYSQL = ("mysql", "mariadb")


def upgrade(conn: Connection, table: Table) -> None:
    """Give an existing table the columns, the primary key and the indexes of this release.

    In SQLite the transaction must be open already.
    """
    for statement in upgrade_statements(conn, table):
        conn.exec_driver_sql(statement)


def upgrade_found(context: Any) -> None:
    """Upgrade what there is of mqpg's tables, in a migration context of Alembic.

    They are looked for where the connection looks, and in the schemas in which the environment's
    MetaData has them. Without a connection (`--sql`) nobody knows what they lack, and nothing is done.
    """
    if context.as_sql:
        return
    ours = [table for family in FAMILIES.values() for table in family]
    declared = context.opts.get("target_metadata") or ()
    known = [declared] if isinstance(declared, MetaData) else declared
    names = {table.name for table in ours}
    schemas = {table.schema for one in known for table in one.tables.values() if table.name in names}
    conn = context.connection
    if conn.dialect.name == "sqlite" and not conn.connection.driver_connection.in_transaction:
        conn.exec_driver_sql("begin immediate")
    for schema in sorted({None, *schemas}, key=str):
        for table in (located(one, schema) for one in ours):
            if inspect(conn).has_table(table.name, schema=schema):
                upgrade(conn, table)


def upgrade_statements(conn: Connection, table: Table) -> list[str]:
    """The statements that upgrade a table; empty if there is nothing that can be upgraded.

    Only columns are added, a primary key becomes longer, and an index is replaced. Anything else was
    not made by an earlier release, and `verify` reports it.
    """
    catalog, name = inspect(conn), quoted(conn, table)
    found = {column["name"] for column in catalog.get_columns(table.name, schema=table.schema)}
    key = catalog.get_pk_constraint(table.name, schema=table.schema)
    wanted = [column.name for column in table.primary_key]
    longer = bool(key["constrained_columns"]) and set(key["constrained_columns"]) < set(wanted)
    missing = [column.name for column in table.columns if column.name not in found]
    in_key = [column for column in missing if column in wanted]
    if any((table.name, column) not in _FILL for column in in_key) or (in_key and not longer):
        return []
    if longer and conn.dialect.name == "sqlite":
        return _rebuilt(conn, table, missing)
    statements = [f"alter table {name} add column {column} {_type(conn, table, column)}" for column in missing]
    statements += [f"update {name} set {column} = {_fill(conn, table, column, name)}" for column in in_key]
    if longer:
        dropped = "primary key" if conn.dialect.name in _MYSQL else f'constraint "{key["name"]}"'
        required = [_required(conn, table, column) for column in in_key]
        changes = [*required, f"drop {dropped}", f"add primary key ({', '.join(wanted)})"]
        statements.append(f"alter table {name} {', '.join(changes)}")
    without_key = conn.dialect.name == "postgresql" and not wanted
    if without_key and conn.exec_driver_sql(UNIDENTIFIED.format(name)).scalar():
        statements.append(identify(name))
    return statements + _replaced_index(conn, table)


def identify(name: str) -> str:
    """The statement that lets a table without a primary key be updated if a publication contains it."""
    return f"alter table {name} replica identity full"


def quoted(conn: Connection, table: Table) -> str:
    """The name of a table for a statement, with its schema."""
    return conn.dialect.identifier_preparer.format_table(table)


def _replaced_index(conn: Connection, table: Table) -> list[str]:
    old, schema = _REPLACED.get(table.name), table.schema
    if old is None:
        return []
    found = {index["name"] for index in inspect(conn).get_indexes(table.name, schema=schema)}
    if old not in found:
        return []
    made = [_ddl(conn, CreateIndex(index)) for index in table.indexes if index.name not in found]
    place = "" if schema is None else f"{conn.dialect.identifier_preparer.quote_schema(schema)}."
    return [*made, f"drop index {place}{old}"]


def _rebuilt(conn: Connection, table: Table, missing: list[str]) -> list[str]:
    """SQLite cannot change a primary key, so the rows are copied into a new table."""
    name = quoted(conn, table)
    before = f"{name}_before"
    names = [column.name for column in table.columns if column.name not in missing or column.primary_key]
    values = [_fill(conn, table, column, before) if column in missing else column for column in names]
    return [
        f"alter table {name} rename to {table.name}_before",
        _ddl(conn, CreateTable(table)),
        f"insert into {name} ({', '.join(names)}) select {', '.join(values)} from {before}",
        f"drop table {before}",
    ]


def _fill(conn: Connection, table: Table, column: str, old: str) -> str:
    beside = quoted(conn, located(offsets, table.schema))
    return _FILL[table.name, column].format(old=old, offsets=beside)


def _required(conn: Connection, table: Table, column: str) -> str:
    if conn.dialect.name in _MYSQL:
        return f"modify column {column} {_type(conn, table, column)} not null"
    return f"alter column {column} set not null"


def _type(conn: Connection, table: Table, column: str) -> str:
    return str(table.columns[column].type.compile(dialect=conn.dialect)).lower()


def _ddl(conn: Connection, element: CreateIndex | CreateTable) -> str:
    return str(element.compile(dialect=conn.dialect)).strip()
