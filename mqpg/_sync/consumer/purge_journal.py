# Generated from mqpg/_async/consumer/purge_journal.py by tools/async_to_sync.py: change that file.
"""Deleting what journal and inbox of a consumer have about messages that the broker has dropped."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from sqlalchemy import URL, ColumnElement, Table, and_, delete, false, func, not_, or_, select

from mqpg._sync._acompat import Connection, Engine
from mqpg._sync.client.client import Client
from mqpg._sync.stores.database import UserDatabase
from mqpg.user_tables.dialects import chunks
from mqpg.user_tables.tables import applied, clock, inbox
from mqpg.values.arguments import exactly_before
from mqpg.values.errors import InvalidArgument, LedgerError, shown

__all__ = ["purge_journal"]

_PAGE = 10_000


def purge_journal(
    mq: Client,
    database: str | URL | Engine,
    group: str,
    topic: str,
    *,
    older_than: timedelta = timedelta(days=1),
    schema: str | None = None,
) -> int:
    """Delete rows of `mqpg_applied` and `mqpg_inbox` whose messages the broker has dropped.

    A row stays while the broker has the message's body or its place in a queue, so that no consumer
    needs it any more, and an audit finds nothing missing. The newest row of each queue stays, too.

    Args:
        mq: The broker.
        database: The SQLAlchemy URL or engine of the database with the tables.
        group: The consumer group.
        topic: The topic.
        older_than: How old a row must be at least; a day by default. Keep rows for longer than a
            standby of the broker may lag behind.
        schema: The schema of the tables. None: where the connection looks for them.

    Returns:
        How many rows were deleted.

    Raises:
        InvalidArgument: `older_than` is negative.
        UnknownSubscription: The group does not read the topic.
        ConnectionFailed: The broker does not answer, or the database does not.
        LedgerError: The database has neither table.
    """
    if older_than < timedelta(0):
        raise InvalidArgument(f"older_than must not be negative, not {shown(older_than)}")
    mq.queries.require_subscription(group, topic)
    own = UserDatabase(database, schema)
    try:
        return _Purge(mq, own, group, topic).run(older_than)
    finally:
        own.close()


class _Purge:
    """One call of `purge_journal`."""

    def __init__(self, mq: Client, database: UserDatabase, group: str, topic: str) -> None:
        self._mq, self._database, self._group, self._topic = mq, database, group, topic

    def run(self, older_than: timedelta) -> int:
        age = self._mq.queries.queues_age(self._group, self._topic)
        broker_id = (self._mq.info()).broker_id
        with self._database.engine.connect() as conn:
            tables = [table for table in (applied, inbox) if self._database.has_in(conn, table)]
            now = (conn.execute(select(clock()))).scalar_one()
        if not tables:
            raise LedgerError(f"{self._database.describe()} has neither mqpg_applied nor mqpg_inbox")
        if age is None:
            return 0
        until = exactly_before(now, max(older_than, timedelta(seconds=age)))
        return sum([self._purge(table, broker_id, until) for table in tables])

    def _purge(self, table: Table, broker_id: str, until: Any) -> int:
        at = applied.c.applied_at if table is applied else inbox.c.updated_at
        old = and_(
            table.c.consumer_group == self._group,
            table.c.topic == self._topic,
            or_(table.c.broker == broker_id, table.c.broker.is_(None)),
            at <= until,
        )
        if table is applied:
            with self._database.engine.connect() as conn:
                old = and_(old, not_(self._is_newest(conn, old)))
        deleted = 0
        for ids in self._pages(table, old):
            dropped = self._mq.queries.dropped_among(self._group, self._topic, ids)
            for some in chunks(sorted(dropped)):
                with self._database.engine.begin() as conn:
                    gone = delete(table).where(old, table.c.message_id.in_(some))
                    deleted += int((self._database.execute(conn, gone)).rowcount)
        return deleted

    def _is_newest(self, conn: Connection, old: ColumnElement[bool]) -> ColumnElement[bool]:
        """The newest row of each queue says that the journal is kept, if the broker loses its end."""
        newest = select(applied.c.queue_id, func.max(applied.c.queue_offset)).where(old).group_by(applied.c.queue_id)
        rows = (self._database.execute(conn, newest)).all()
        return or_(false(), *(and_(applied.c.queue_id == q, applied.c.queue_offset == offset) for q, offset in rows))

    def _pages(self, table: Table, old: ColumnElement[bool]) -> Iterator[list[int]]:
        last = -1
        while True:
            query = select(table.c.message_id).distinct().where(old, table.c.message_id > last)
            with self._database.engine.connect() as conn:
                found = self._database.execute(conn, query.order_by(table.c.message_id).limit(_PAGE))
                ids = [int(row[0]) for row in found]
            if not ids:
                return
            yield ids
            last = ids[-1]
