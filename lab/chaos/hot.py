"""Whether a row of a hot table was ever updated or deleted.

PostgreSQL's statistics cannot tell. An INSERT … ON CONFLICT that meets an insert of another session
at the same moment takes its own row back, and the statistics count that as a deletion. A trigger
sees UPDATE and DELETE only. It counts by a sequence, which no rollback and no crash takes back.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from tests.support.broker import HOT_TABLES

__all__ = ["changes", "watch"]

_COUNTER = """
create sequence public.hot_change;
create function public.note_hot_change() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform nextval('public.hot_change');
    return case tg_op when 'DELETE' then old else new end;
end
$$
"""
_TRIGGER = """
create trigger hot_change before update or delete on mqpg.{} for each row execute function public.note_hot_change()
"""
_CHANGES = "select case when is_called then last_value else 0 end from public.hot_change"


def watch(conn: psycopg.Connection[Any]) -> None:
    """Begin to count."""
    conn.execute(_COUNTER)
    for table in HOT_TABLES:
        conn.execute(sql.SQL(_TRIGGER).format(sql.Identifier(table)))


def changes(conn: psycopg.Connection[Any]) -> int:
    """Return how many rows were updated or deleted; after a server's crash perhaps 32 more.

    Where none was, the result is always 0.
    """
    (found,) = conn.execute(_CHANGES).fetchone() or (0,)
    return int(found)
