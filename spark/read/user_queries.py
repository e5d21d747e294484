"""The SQL behind each frame that is read from a PostgreSQL database of consumers or producers."""

from __future__ import annotations

from datetime import datetime

from psycopg.sql import SQL, Identifier, Literal

from . import schemas
from .queries import Query, literal_text

__all__ = ["applied_query", "deferred_query", "ledger_query", "local_commits_query", "offsets_query"]

_HANDLE = r"^[^.]+\.[0-9]+\.[0-9]{1,18}\.[0-9a-f]{32}$"


def ledger_query(label: str, table: tuple[str, str], broker_id: str) -> Query:
    """Return the query for the rows of a ledger that belong to one broker.

    Args:
        label: The value of the column `ledger`.
        table: Schema and name of the table: mqpg.audit_ledger, or an mqpg_ledger in any schema.
        broker_id: The broker's id. Rows of other brokers are left out.

    Returns:
        The query.
    """
    times = "x.at as created_at, null::timestamptz as done_at" if table[0] == "mqpg" else "x.created_at, x.done_at"
    columns = (
        literal_text(
            SQL(
                "{} as ledger, split_part(x.handle, '.', 3)::bigint as message_id, "
                "split_part(x.handle, '.', 4) as nonce, x.entry::text as entry, "
            ).format(Literal(label))
        )
        + times
    )
    origin = literal_text(
        SQL("{} x where case when x.handle ~ {} then split_part(x.handle, '.', 1) = {} else false end").format(
            Identifier(*table), Literal(_HANDLE), Literal(broker_id)
        )
    )
    return Query(f"ledger {label}", columns, origin, schemas.LEDGER, "(hashtext(x.handle) & 2147483647)")


def local_commits_query(label: str, table: tuple[str, str], broker_id: str, before: datetime) -> Query:
    """Return the query for the committed rows of a ledger that are old enough.

    Args:
        label: The value of the column `ledger`.
        table: Schema and name of the table: mqpg.audit_ledger, or an mqpg_ledger in any schema.
        broker_id: The broker's id. Rows of other brokers are left out.
        before: Rows written later are left out.

    Returns:
        The query.
    """
    columns = literal_text(
        SQL(
            "{} as ledger, x.handle::text as handle, split_part(x.handle, '.', 3)::bigint as message_id, "
            "split_part(x.handle, '.', 4) as nonce"
        ).format(Literal(label))
    )
    written = SQL("x.at" if table[0] == "mqpg" else "x.created_at")
    origin = SQL(
        "{} x where case when x.handle ~ {} then split_part(x.handle, '.', 1) = {} else false end "
        "and x.entry = 'local' and {} <= {}"
    ).format(Identifier(*table), Literal(_HANDLE), Literal(broker_id), written, Literal(before))
    key = "(hashtext(x.handle) & 2147483647)"
    return Query(f"ledger {label}", columns, literal_text(origin), schemas.LOCAL_COMMITS, key)


def applied_query(label: str, table: tuple[str, str], groups: list[str], topics: list[str] | None) -> Query:
    """Return the query for the journal rows of some consumer groups.

    Args:
        label: What the query's name ends in.
        table: Schema and name of mqpg_applied.
        groups: The consumer groups.
        topics: Only these topics. None means all.

    Returns:
        The query.
    """
    columns = "x.consumer_group, x.topic, x.queue_id, x.queue_offset, x.message_id, x.applied_at"
    return Query(f"applied {label}", columns, _of_groups(table, groups, topics), schemas.APPLIED, "x.message_id")


def deferred_query(label: str, table: tuple[str, str], groups: list[str], topics: list[str] | None) -> Query:
    """Return the query for messages that groups deferred and have not applied yet.

    Args:
        label: What the query's name ends in.
        table: Schema and name of mqpg_inbox.
        groups: The consumer groups.
        topics: Only these topics. None means all.

    Returns:
        The query.
    """
    origin = _of_groups(table, groups, topics) + " and x.state = 'deferred'"
    return Query(f"deferred {label}", "x.consumer_group, x.topic, x.message_id", origin, schemas.DEFERRED)


def offsets_query(
    label: str, table: tuple[str, str], groups: list[str], topics: list[str] | None, broker_id: str
) -> Query:
    """Return the query for the positions that consumer groups store in their own database.

    Args:
        label: What the query's name ends in.
        table: Schema and name of mqpg_offsets.
        groups: The consumer groups.
        topics: Only these topics. None means all.
        broker_id: The broker's id. Positions on other brokers are left out.

    Returns:
        The query.
    """
    columns = "x.consumer_group, x.topic, x.queue_id, x.next_offset"
    ours = literal_text(SQL(" and x.broker = {}").format(Literal(broker_id)))
    return Query(f"offsets {label}", columns, _of_groups(table, groups, topics) + ours, schemas.OFFSETS)


def _of_groups(table: tuple[str, str], groups: list[str], topics: list[str] | None) -> str:
    condition = SQL("{} x where x.consumer_group = any({}::text[])").format(Identifier(*table), Literal(groups))
    if topics is not None:
        condition += SQL(" and x.topic = any({}::text[])").format(Literal(topics))
    return literal_text(condition)
