"""The tables that mqpg has in your databases, for Alembic and whatever else creates tables.

::

    from mqpg import tables

    tables.add_to(Base.metadata, ledger=True)

They are the tables that the library creates itself where it may.
"""

from __future__ import annotations

from sqlalchemy import MetaData

from mqpg.user_tables.tables import FAMILIES
from mqpg.values.arguments import schema_of
from mqpg.values.errors import InvalidArgument, shown

__all__ = ["add_to", "metadata"]


def metadata(
    *,
    ledger: bool = False,
    ledger_message: bool = False,
    outbox: bool = False,
    consumer: bool = False,
    prepared: bool = False,
    schema: str | None = None,
) -> MetaData:
    """Make a MetaData of the tables that are chosen. If none are chosen, it has all.

    Args:
        ledger: mqpg_ledger, of transactional producers.
        ledger_message: mqpg_ledger_message, of those with `keep_messages`.
        outbox: mqpg_outbox and mqpg_outbox_count, of outbox producers.
        consumer: mqpg_offsets, mqpg_inbox and mqpg_applied, of consumers with their own database or
            with a journal.
        prepared: mqpg_prepared, of inboxes and of consumers of relay topics.
        schema: The schema of the tables (MySQL: the database). None: where the connection looks for
            them.

    Returns:
        A new MetaData.

    Raises:
        InvalidArgument: `schema` is no name.
    """
    chosen = dict(locals())  # a copy: before Python 3.13 a debugger adds later variables
    made = MetaData()
    add_to(made, **chosen)
    return made


def add_to(
    metadata: MetaData,
    *,
    ledger: bool = False,
    ledger_message: bool = False,
    outbox: bool = False,
    consumer: bool = False,
    prepared: bool = False,
    schema: str | None = None,
) -> None:
    """Add the tables that are chosen to a MetaData of yours. If none are chosen, it gets all.

    Alembic's autogenerate then creates them.

    Args:
        metadata: Your MetaData, such as `Base.metadata`. It keeps those that it has already.
        ledger: See `mqpg.tables.metadata`.
        ledger_message: See `mqpg.tables.metadata`.
        outbox: See `mqpg.tables.metadata`.
        consumer: See `mqpg.tables.metadata`.
        prepared: See `mqpg.tables.metadata`.
        schema: The schema of the tables. None: that of `metadata`.

    Raises:
        InvalidArgument: `metadata` is no MetaData, or `schema` is no name.
    """
    if not isinstance(metadata, MetaData):
        raise InvalidArgument(f"metadata must be SQLAlchemy's MetaData, such as Base.metadata, not {shown(metadata)}")
    asked = (ledger, ledger_message, outbox, consumer, prepared)
    families = [family for family, wanted in zip(FAMILIES.values(), asked, strict=True) if wanted or not any(asked)]
    place = schema_of(schema) or metadata.schema
    for table in (table for family in families for table in family):
        if (f"{place}.{table.name}" if place else table.name) not in metadata.tables:
            table.to_metadata(metadata, schema=place)  # type: ignore[arg-type]  # None is documented
