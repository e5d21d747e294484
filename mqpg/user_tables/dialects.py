"""What differs between the databases of users: it looks at their tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from sqlalchemy import Table, inspect, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import NoSuchTableError

from mqpg.user_tables.upgrades import upgrade_statements
from mqpg.values.errors import LedgerError

__all__ = [
    "MYSQL",
    "chunks",
    "has",
    "verify",
]

MYSQL = ("mysql", "mariadb")
Id = TypeVar("Id", int, str)

_DEFERRABLE = text(
    "select exists (select from pg_constraint where conrelid = cast(:name as regclass)"
    " and contype = 'p' and condeferrable)"
)
_PERSISTENCE = text("select cast(relpersistence as text) from pg_class where oid = cast(:name as regclass)")
_MINE = "where table_schema = coalesce(:schema, database()) and table_name = :name"
_ENGINE = text(f"select engine from information_schema.tables {_MINE}")
_PREFIXED = text(
    f"select count(*) from information_schema.statistics {_MINE} and index_name = 'PRIMARY' and sub_part is not null"
)

# Journals of SQLite with which a commit to several files is atomic. A database in memory has "memory".
_ON_DISK = ("delete", "truncate", "persist")

# Every database takes that many parameters.
_CHUNK = 500


def chunks(ids: Iterable[Id]) -> Iterator[list[Id]]:
    """Ids or handles in order, in lists that fit into one statement of any database."""
    ordered = sorted(ids)
    return (ordered[start : start + _CHUNK] for start in range(0, len(ordered), _CHUNK))


def has(conn: Connection, table: Table) -> bool:
    """Whether a table of this name exists."""
    return inspect(conn).has_table(table.name, schema=table.schema)


def verify(conn: Connection, table: Table) -> None:
    """Raise LedgerError unless the table exists with all columns and exactly its primary key.

    Each of these would break the protocols:

    - Without the key both of two processes could insert their row.
    - A deferrable key would refuse the second row only at the commit.
    - A key on the first letters would confuse two handles.
    - An engine without transactions would not undo a row.
    - An unlogged table loses in a crash what was committed.
    - READ UNCOMMITTED would show rows that are rolled back later.
    - In an attached file a row may be committed without its effect in the other file.
    """
    catalog = inspect(conn)
    where = f"table {table.fullname} in {_where(conn)}"
    try:
        found = {column["name"]: column["type"] for column in catalog.get_columns(table.name, schema=table.schema)}
    except NoSuchTableError:
        raise LedgerError(f"no {where}: create it first") from None
    remedy = "".join(f"; {one}" for one in upgrade_statements(conn, table))
    if remedy:
        remedy = f". Its owner can upgrade it: {remedy.removeprefix('; ')}"
    missing = sorted({column.name for column in table.columns} - set(found))
    if missing:
        raise LedgerError(f"{where} lacks the columns {', '.join(missing)}{remedy}")
    wanted = {column.name for column in table.primary_key}
    key = set(catalog.get_pk_constraint(table.name, schema=table.schema)["constrained_columns"])
    if key != wanted:
        has = f"({', '.join(sorted(key))})" if key else "none"
        raise LedgerError(f"{where} must have the primary key ({', '.join(sorted(wanted))}), but has {has}{remedy}")
    for column in table.columns:
        length, least = (getattr(kind, "length", None) for kind in (found[column.name], column.type))
        if length is not None and least is not None and length < least:
            raise LedgerError(f"column {column.name} of {where} must hold {least} characters, not {length}")
    if conn.dialect.name == "postgresql":
        _verify_postgresql(conn, table, where)
    if conn.dialect.name in MYSQL:
        _verify_mysql(conn, table, where)
    if conn.dialect.name == "sqlite" and table.schema is not None:
        _verify_attached(conn, table.schema, where)


def _verify_postgresql(conn: Connection, table: Table, where: str) -> None:
    name = conn.dialect.identifier_preparer.format_table(table)
    if conn.execute(_DEFERRABLE, {"name": name}).scalar():
        raise LedgerError(f"the primary key of {where} must not be deferrable")
    kept = conn.execute(_PERSISTENCE, {"name": name}).scalar()
    if kept != "p":
        kind = "unlogged" if kept == "u" else "temporary"
        raise LedgerError(f"{where} must be an ordinary table, not {kind}: a crash must not empty it")


def _verify_mysql(conn: Connection, table: Table, where: str) -> None:
    values = {"name": table.name, "schema": table.schema}
    engine = str(conn.execute(_ENGINE, values).scalar())
    if engine.lower() != "innodb":
        raise LedgerError(f"{where} must be in the engine InnoDB, not {engine}, which has no transactions")
    if conn.execute(_PREFIXED, values).scalar():
        raise LedgerError(f"the primary key of {where} must be on whole columns, not on their first letters")
    if conn.get_isolation_level() == "READ UNCOMMITTED":
        raise LedgerError(f"the engine of {where} must not read what others have not committed (READ UNCOMMITTED)")


def _verify_attached(conn: Connection, schema: str, where: str) -> None:
    """SQLite commits to two files at once only if both have a rollback journal on disk."""
    files = {name.lower(): file for _, name, file in conn.exec_driver_sql("pragma database_list")}
    main, attached = files["main"], files.get(schema.lower())
    if main == attached:  # the same one, or both in memory
        return
    quoted = conn.dialect.identifier_preparer.quote_identifier(schema)
    for place in ("main", quoted):
        mode = str(conn.exec_driver_sql(f"pragma {place}.journal_mode").scalar()).lower()
        if mode not in _ON_DISK:
            raise LedgerError(
                f"{where} is in an attached file, and with journal_mode={mode} of {place} a crash may commit to one "
                "file without the other: use journal_mode=delete in both, or one file"
            )


def _where(conn: Connection) -> str:
    from mqpg.connection.dsn import describe

    return describe(conn.engine.url)
