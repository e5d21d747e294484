"""What autogenerate leaves alone: without these it writes `drop_table` for the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mqpg.user_tables.tables import FAMILIES

__all__ = ["include_name", "include_object"]

_SCHEMAS = ("mqpg", "mqpg_audit", "mqpg_retired", "pgmq")
_TABLES = {table.name for tables in FAMILIES.values() for table in tables}


def include_name(name: str | None, type_: str, parent_names: Mapping[str, str | None]) -> bool:
    """Leave the broker's schemas and PGMQ's out of what Alembic reads from the database.

    Args:
        name: The name of what is found there.
        type_: What it is, such as "schema".
        parent_names: Names of what it is in.

    Returns:
        False for these schemas. To combine it with a function of your own, call both.
    """
    return type_ != "schema" or name not in _SCHEMAS


def include_object(object: Any, name: str | None, type_: str, reflected: bool, compare_to: Any) -> bool:
    """Leave mqpg's tables alone, unless `mqpg.tables.add_to` has added them to your MetaData.

    Args:
        object: The table, column, index or constraint.
        name: Its name.
        type_: What it is, such as "table".
        reflected: Whether it was found in the database.
        compare_to: What it is compared with. None: the other side does not have it.

    Returns:
        False for tables in the broker's schemas and PGMQ's, and for tables of mqpg that only the
        database has. To combine it with a function of your own, call both.
    """
    if type_ != "table":
        return True
    only_in_database = reflected and compare_to is None
    return object.schema not in _SCHEMAS and not (only_in_database and name in _TABLES)
