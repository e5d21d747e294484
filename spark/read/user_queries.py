"""The SQL behind each frame that is read from a PostgreSQL database of consumers or producers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.sql import SQL, Composed, Identifier, Literal

from mqpg.audit.handles import IS_HANDLE, OF_BROKER

from . import schemas
from .queries import Query, literal_text

__all__ = [
    "UserTable",
    "applied_query",
    "deferred_query",
    "journal_groups_query",
    "ledger_query",
    "local_commits_query",
    "of_broker",
    "offsets_query",
    "outbox_query",
]


@dataclass(frozen=True)
class UserTable:
    """A table of mqpg in a user's database, by schema and name. One of an earlier release has fewer columns."""

    name: tuple[str, str]
    columns: frozenset[str]


def ledger_query(label: str, table: tuple[str, str], broker_id: str) -> Query:
    """The query for the rows of a ledger that belong to one broker.

    The table is mqpg.audit_ledger, or an mqpg_ledger in any schema. `label` is the value of the column
    `ledger`.
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
        SQL("{} x where " + OF_BROKER.format("x.handle", "{}")).format(Identifier(*table), Literal(broker_id))
    )
    return Query(f"ledger {label}", columns, origin, schemas.LEDGER, table=table)


def local_commits_query(label: str, table: tuple[str, str], broker_id: str, before: datetime) -> Query:
    """The query for the committed rows of a ledger that were written before a time. Else as `ledger_query`."""
    columns = literal_text(
        SQL(
            "{} as ledger, x.handle::text as handle, split_part(x.handle, '.', 3)::bigint as message_id, "
            "split_part(x.handle, '.', 4) as nonce"
        ).format(Literal(label))
    )
    written = SQL("x.at" if table[0] == "mqpg" else "x.created_at")
    origin = SQL("{} x where " + OF_BROKER.format("x.handle", "{}") + " and x.entry = 'local' and {} <= {}").format(
        Identifier(*table), Literal(broker_id), written, Literal(before)
    )
    return Query(f"ledger {label}", columns, literal_text(origin), schemas.LOCAL_COMMITS, table=table)


def applied_query(label: str, table: UserTable, groups: list[str], topics: list[str] | None, broker_id: str) -> Query:
    """The query for the journal rows of some consumer groups, without those of other brokers.

    Its name ends in `label`.
    """
    columns = "x.consumer_group, x.topic, x.queue_id, x.queue_offset, x.message_id, x.applied_at, "
    columns += "x.subscription_id" if "subscription_id" in table.columns else "null::int as subscription_id"
    origin = _of_groups(table.name, groups, topics) + of_broker(table, broker_id)
    return Query(f"applied {label}", columns, origin, schemas.APPLIED, table=table.name)


def of_broker(table: UserTable, broker_id: str) -> str:
    """A condition that begins with "and" on the rows of a user's table that belong to one broker.

    A row without a broker was written by an earlier release, and belongs to it.
    """
    if "broker" not in table.columns:
        return ""
    return literal_text(SQL(" and coalesce(x.broker, {0}) = {0}").format(Literal(broker_id)))


def journal_groups_query(table: UserTable, topics: list[str] | None, broker_id: str) -> Composed:
    """The query that counts the journal rows of every group: consumer_group and journal_rows.

    Rows of other brokers are left out.
    """
    counted = SQL("select x.consumer_group, count(*) as journal_rows from {} x where true").format(
        Identifier(*table.name)
    )
    if topics is not None:
        counted += SQL(" and x.topic = any({}::text[])").format(Literal(topics))
    if "broker" in table.columns:
        counted += SQL(" and coalesce(x.broker, {0}) = {0}").format(Literal(broker_id))
    return counted + SQL(" group by 1")


def deferred_query(label: str, table: UserTable, groups: list[str], topics: list[str] | None, broker_id: str) -> Query:
    """The query for messages of a broker that groups deferred and have not applied yet."""
    origin = _of_groups(table.name, groups, topics) + " and x.state = 'deferred'" + of_broker(table, broker_id)
    return Query(f"deferred {label}", "x.consumer_group, x.topic, x.message_id", origin, schemas.DEFERRED)


def offsets_query(
    label: str, table: tuple[str, str], groups: list[str], topics: list[str] | None, broker_id: str
) -> Query:
    """The query for the positions that consumer groups store in their own database.

    Positions on other brokers are left out.
    """
    columns = "x.consumer_group, x.topic, x.queue_id, x.next_offset"
    ours = literal_text(SQL(" and x.broker = {}").format(Literal(broker_id)))
    return Query(f"offsets {label}", columns, _of_groups(table, groups, topics) + ours, schemas.OFFSETS)


def outbox_query(label: str, table: tuple[str, str], broker_id: str) -> Query:
    """The query for the rows of an outbox that belong to one broker, without their payloads."""
    columns = SQL(
        "{} as ledger, encode(sha256(convert_to(x.id, 'UTF8')), 'hex') as dedup_hash, x.state::text as state, "
        "case when "
        + IS_HANDLE.format("x.handle")
        + " then split_part(x.handle, '.', 3)::bigint end as handle_id, x.topic, x.created_at"
    ).format(Literal(label))
    origin = SQL("{} x where x.broker = {}").format(Identifier(*table), Literal(broker_id))
    return Query(f"outbox {label}", literal_text(columns), literal_text(origin), schemas.OUTBOX)


def _of_groups(table: tuple[str, str], groups: list[str], topics: list[str] | None) -> str:
    condition = SQL("{} x where x.consumer_group = any({}::text[])").format(Identifier(*table), Literal(groups))
    if topics is not None:
        condition += SQL(" and x.topic = any({}::text[])").format(Literal(topics))
    return literal_text(condition)
