"""Upgrading tables that an earlier release made in its users' databases."""

from __future__ import annotations

from sqlalchemy import Table, inspect
from sqlalchemy.engine import Connection
from sqlalchemy.schema import CreateTable

__all__ = ["UNIDENTIFIED", "identify", "upgrade", "upgrade_statements"]

UNIDENTIFIED = "select true from pg_class where oid = to_regclass('{}') and relreplident = 'd'"
"""Asks PostgreSQL whether a table without a primary key has no replica identity either."""

# What a column of the primary key gets in rows that were written before it existed. An inbox row
# was written in one transaction with the offset that it explains.
_FILL = {
    ("mqpg_inbox", "broker"): "coalesce((select min(o.broker) from mqpg_offsets o"
    " where o.consumer_group = {old}.consumer_group and o.topic = {old}.topic), '')"
}
_MYSQL = ("mysql", "mariadb")


def upgrade(conn: Connection, table: Table) -> None:
    """Give an existing table the columns and the primary key of this release.

    In SQLite the transaction must be open already.
    """
    for statement in upgrade_statements(conn, table):
        conn.exec_driver_sql(statement)


def upgrade_statements(conn: Connection, table: Table) -> list[str]:
    """The statements that upgrade a table; empty if there is nothing that can be upgraded.

    Only columns are added, and a primary key becomes longer. Anything else was not made by an
    earlier release, and `verify` reports it.
    """
    catalog = inspect(conn)
    found = {column["name"] for column in catalog.get_columns(table.name)}
    key = catalog.get_pk_constraint(table.name)
    wanted = [column.name for column in table.primary_key]
    longer = bool(key["constrained_columns"]) and set(key["constrained_columns"]) < set(wanted)
    missing = [column.name for column in table.columns if column.name not in found]
    in_key = [name for name in missing if name in wanted]
    if any((table.name, name) not in _FILL for name in in_key) or (in_key and not longer):
        return []
    if longer and conn.dialect.name == "sqlite":
        return _rebuilt(conn, table, missing)
    statements = [f"alter table {table.name} add column {name} {_type(conn, table, name)}" for name in missing]
    statements += [f"update {table.name} set {name} = {_fill(table, name, table.name)}" for name in in_key]
    if longer:
        dropped = "primary key" if conn.dialect.name in _MYSQL else f'constraint "{key["name"]}"'
        required = [_required(conn, table, name) for name in in_key]
        changes = [*required, f"drop {dropped}", f"add primary key ({', '.join(wanted)})"]
        statements.append(f"alter table {table.name} {', '.join(changes)}")
    without_key = conn.dialect.name == "postgresql" and not wanted
    if without_key and conn.exec_driver_sql(UNIDENTIFIED.format(table.name)).scalar():
        statements.append(identify(table))
    return statements


def identify(table: Table) -> str:
    """The statement that lets a table without a primary key be updated if a publication contains it."""
    return f"alter table {table.name} replica identity full"


def _rebuilt(conn: Connection, table: Table, missing: list[str]) -> list[str]:
    """SQLite cannot change a primary key, so the rows are copied into a new table."""
    before = f"{table.name}_before"
    names = [column.name for column in table.columns if column.name not in missing or column.primary_key]
    values = [_fill(table, name, before) if name in missing else name for name in names]
    return [
        f"alter table {table.name} rename to {before}",
        str(CreateTable(table).compile(dialect=conn.dialect)).strip(),
        f"insert into {table.name} ({', '.join(names)}) select {', '.join(values)} from {before}",
        f"drop table {before}",
    ]


def _fill(table: Table, name: str, old: str) -> str:
    return _FILL[table.name, name].format(old=old)


def _required(conn: Connection, table: Table, name: str) -> str:
    if conn.dialect.name in _MYSQL:
        return f"modify column {name} {_type(conn, table, name)} not null"
    return f"alter column {name} set not null"


def _type(conn: Connection, table: Table, name: str) -> str:
    return str(table.columns[name].type.compile(dialect=conn.dialect)).lower()
