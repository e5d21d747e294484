# Generated from mqpg/_async/stores/create_tables.py by tools/async_to_sync.py: change that file.
"""Creating and upgrading mqpg's tables in a database of the user's, and in that of the queue."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from psycopg.errors import InsufficientPrivilege
from sqlalchemy import Table, inspect
from sqlalchemy.engine import Connection
from sqlalchemy.schema import CreateIndex, CreateTable

from mqpg._sync._acompat import PgConnection, run_sync
from mqpg._sync.stores.database import UserDatabase, begin_immediate
from mqpg._sync.stores.statements import POSTGRESQL
from mqpg.user_tables.tables import by_hand, located
from mqpg.user_tables.upgrades import UNIDENTIFIED, identify, quoted, upgrade, upgrade_statements
from mqpg.values.errors import DatabaseError, Error, LedgerError

__all__ = ["create_beside_queue", "create_tables", "ensure_tables"]

_COLUMNS = b"select attname from pg_attribute where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped"
# `if not exists` alone lets two processes that start at the same moment collide.
_LOCK = b"select pg_advisory_xact_lock(hashtext(%s))"


def create_tables(database: UserDatabase, *tables: Table) -> None:
    """Create the tables that are missing in a user's database, and upgrade those of earlier releases.

    Raises ConnectionFailed, DatabaseError, and LedgerError if it may not. The tables are created one
    by one. If DDL is not part of a transaction, another process may create each of them first.
    """
    if not database.creates_tables:
        with database.connect() as conn:
            database.verify(conn, *tables)
        return
    for one in tables:
        table = located(one, database.schema)
        try:
            with database.begin() as conn:
                is_new = run_sync(conn, _create, table)
            if is_new:  # to look for what an upgrade would change takes longer than to create it
                continue
            with database.begin() as conn:
                if run_sync(conn, upgrade_statements, table):
                    if database.dialect == "sqlite":
                        begin_immediate(conn)
                    run_sync(conn, upgrade, table)
        except Error:
            if not database.has(one):
                raise


def ensure_tables(database: UserDatabase, *tables: Table) -> None:
    """Create the tables that are missing and verify all of them, once. Raises LedgerError."""
    if database.knows(*tables):
        return
    # One connection at a time, because the caller's engine may have no other one.
    with database.connect() as conn:
        try:
            database.verify(conn, *tables)
            return
        except LedgerError:
            if not database.creates_tables:
                raise
    # If this fails, another process was faster or a right is missing; the verification
    # shows which.
    with suppress(DatabaseError):
        create_tables(database, *tables)
    with database.connect() as conn:
        database.verify(conn, *tables)


def create_beside_queue(conn: PgConnection, table: Table, schema: str | None, allowed: bool) -> None:
    """Create a table in the broker's database where it is missing, with its indexes.

    A table of an earlier release gets the columns that it lacks. Raises LedgerError if that is needed, and
    not `allowed` or not possible.
    """
    one = located(table, schema)
    name = POSTGRESQL.identifier_preparer.format_table(one)
    refusal = ""
    if allowed:
        try:
            with conn.transaction():
                conn.execute(_LOCK, [name])
                conn.execute(_compiled(CreateTable(one, if_not_exists=True)))
                for index in one.indexes:
                    conn.execute(_compiled(CreateIndex(index, if_not_exists=True)))
        except InsufficientPrivilege as error:  # also where everything is there already
            allowed, refusal = False, f" ({error.diag.message_primary})"
    found = {row[0] for row in (conn.execute(_COLUMNS, [name])).fetchall()}
    missing = [column for column in one.columns if column.name not in found]
    if missing:
        names = ", ".join(column.name for column in missing)
        added = ", ".join(f"add column {column.name} {column.type.compile(dialect=POSTGRESQL)}" for column in missing)
        statement = f"alter table {name} {added}"
        if not allowed:
            problem = (
                f"table {name} lacks the columns {names}" if found else f"no table {name} in the broker's database"
            )
            raise LedgerError(f"{problem}{refusal}; {by_hand('postgresql', table, schema)}")
        try:
            conn.execute(statement.encode())
        except InsufficientPrivilege as error:
            raise LedgerError(
                f"table {name} lacks the columns {names}, and only its owner can upgrade it: {statement}"
            ) from error
    unidentified = UNIDENTIFIED.format(name).encode()
    if allowed and not one.primary_key.columns and (conn.execute(unidentified)).fetchone():
        try:
            with conn.transaction():
                conn.execute(identify(name).encode())
        except InsufficientPrivilege:  # only its owner can, and only a publication needs it
            return


def _create(conn: Connection, table: Table) -> bool:
    """Create a table unless it exists. Returns whether it is new."""
    if inspect(conn).has_table(table.name, schema=table.schema):
        return False
    table.create(conn, checkfirst=False)
    if conn.dialect.name == "postgresql" and not table.primary_key.columns:
        conn.exec_driver_sql(identify(quoted(conn, table)))
    return True


def _compiled(ddl: Any) -> bytes:
    return str(ddl.compile(dialect=POSTGRESQL)).encode()
