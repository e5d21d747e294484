"""Databases that are copied from a template, such as those of tests."""

from __future__ import annotations

from typing import Any

import psycopg

__all__ = ["settle_in"]

_SETTLE_IN = """
do $$
begin
    if to_regclass('mqpg.broker') is not null then
        update mqpg.broker set database_oid = (select d.oid from pg_database d where d.datname = current_database());
    end if;
end $$
"""


def settle_in(connection: psycopg.Connection[Any]) -> None:
    """Let the broker in a copied database, if there is one, work there under the identity of its original.

    Only for a template that never works itself. For any other copy there is `mqpg.adopt()`, which makes
    a broker of its own out of it.
    """
    connection.execute(_SETTLE_IN)
