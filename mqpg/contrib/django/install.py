"""What the setting `MQPG` names, installed through Django's connections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.operations.base import Operation

from mqpg import migrate, tables
from mqpg.user_tables.printed_ddl import ddl
from mqpg.user_tables.tables import FAMILIES

__all__ = ["Install", "dsn", "install", "read_setting"]

_BROKER = "broker"
_EXAMPLE = '{"default": ["broker"], "shop": ["ledger"]}'


def read_setting() -> Mapping[str, list[str]]:
    """The setting `MQPG`: what mqpg has in which database. Raises ImproperlyConfigured."""
    found = getattr(settings, "MQPG", None)
    if not isinstance(found, Mapping):
        raise ImproperlyConfigured(f"MQPG must say what mqpg has in which database, such as MQPG = {_EXAMPLE}")
    known = [_BROKER, *FAMILIES]
    for alias, names in found.items():
        if alias not in settings.DATABASES:
            raise ImproperlyConfigured(f"MQPG names {alias!r}, which is not among DATABASES")
        if not isinstance(names, (list, tuple)) or not {*names} <= {*known}:
            raise ImproperlyConfigured(f"MQPG[{alias!r}] must be a list of {', '.join(known)}, not {names!r}")
        if _BROKER in names and connections[alias].vendor != "postgresql":
            raise ImproperlyConfigured(f"MQPG[{alias!r}] has the broker, which needs PostgreSQL")
    return found


def dsn(using: str = "default") -> str:
    """Give the address of a database of Django, for `mqpg.connect`.

    Args:
        using: The alias in `DATABASES`; its engine is Django's for PostgreSQL, with psycopg 3.

    Returns:
        The address in libpq notation, with the password. In tests it is that of the test database.
    """
    from psycopg import pq
    from psycopg.conninfo import make_conninfo

    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    given = connections[using].get_connection_params()
    return make_conninfo(**{name: value for name, value in given.items() if name in known})


def install(connection: BaseDatabaseWrapper) -> None:
    """Install or upgrade what the setting names for the database of a connection. What is there already stays."""
    names = read_setting().get(connection.alias, ())
    if _BROKER in names:
        migrate.upgrade(dsn(connection.alias))
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        for statement in _tables(connection.vendor, names, without=connection.introspection.table_names(cursor)):
            cursor.execute(statement)


def _tables(vendor: str, names: Iterable[str], without: Iterable[str] = ()) -> list[str]:
    """The statements that create the user tables among `names`."""
    families: dict[str, Any] = dict.fromkeys((name for name in names if name != _BROKER), True)
    if not families:  # metadata() would choose all
        return []
    chosen = tables.metadata(**families)
    for name in {*without} & {*chosen.tables}:
        chosen.remove(chosen.tables[name])
    return ddl(chosen, vendor)


class Install(Operation):
    """A step of a migration: the installation of `mqpg migrate`, and the tables that are missing."""

    reversible = False  # it would drop the proof of transactions; `mqpg uninstall` drops a broker
    reduces_to_sql = True

    def state_forwards(self, app_label: str, state: Any) -> None:
        """Nothing: there are no models."""

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        connection = schema_editor.connection
        if not schema_editor.collect_sql:
            return install(connection)
        names = read_setting().get(connection.alias, ())
        if _BROKER in names:
            schema_editor.collected_sql.append(migrate.script())
        for statement in _tables(connection.vendor, names):
            schema_editor.execute(statement)
        return None

    def describe(self) -> str:
        return "Install what the setting MQPG names"
