# Generated from mqpg/_async/offsets.py by tools/async_to_sync.py: change that file.
"""A consumer's own tables in its database (protocol C2): offsets, inbox, journal."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert, select, update

from mqpg._sync._io import Connection
from mqpg._sync.local import LocalDatabase
from mqpg._tables import applied, clock, consumer_metadata, inbox, offsets
from mqpg.errors import DatabaseError, LedgerError
from mqpg.message import BrokerInfo, Message

__all__ = ["Offsets", "Position"]

_TABLES = (offsets, inbox, applied)


@dataclass(frozen=True, slots=True)
class Position:
    """How far one queue is applied: `next_offset` comes next, `last_message_id` was the one before it."""

    next_offset: int
    last_message_id: int | None
    broker: str
    incarnation: int


class Offsets:
    """The rows of one consumer group and topic. Calls belong to the transaction on `conn`."""

    def __init__(self, database: LocalDatabase, group: str, topic: str) -> None:
        self._database = database
        self._mine = {"consumer_group": group, "topic": topic}

    def ensure(self) -> None:
        """Create what is not there, once. Raises LedgerError for a table that is not what it must be."""
        if self._database.knows(*_TABLES):
            return
        with self._database.engine.connect() as conn:
            try:
                self._database.verify(conn, *_TABLES)
                return
            except LedgerError:
                conn.rollback()
            # Another process was faster, or it is not allowed: the next look tells.
            with suppress(DatabaseError):
                self._database.create(consumer_metadata)
            self._database.verify(conn, *_TABLES)

    def position(self, conn: Connection, queue_id: int, *, lock: bool) -> Position | None:
        """Where this queue stands; `lock` keeps other processes of the same name out until the end."""
        query = select(offsets.c.next_offset, offsets.c.last_message_id, offsets.c.broker, offsets.c.incarnation)
        query = query.where(*self._where(offsets), offsets.c.queue_id == queue_id)
        row = (conn.execute(query.with_for_update() if lock else query)).first()
        return None if row is None else Position(*row)

    def move(self, conn: Connection, last: Message, known: Position | None, info: BrokerInfo) -> None:
        """Everything up to `last` is applied or deferred."""
        values = {
            "next_offset": last.queue_offset + 1,
            "last_message_id": last.message_id,
            "broker": info.broker_id,
            "incarnation": info.incarnation,
            "updated_at": clock(),
        }
        if known is None:
            # Two processes at once: the key lets one of them through.
            conn.execute(insert(offsets).values(**self._mine, queue_id=last.queue_id, **values))
            return
        where = (*self._where(offsets), offsets.c.queue_id == last.queue_id)
        conn.execute(update(offsets).where(*where).values(**values))

    def states(self, conn: Connection, messages: Sequence[Message]) -> dict[int, tuple[str, str | None]]:
        """Inbox state and reason by message id, locked."""
        ids = sorted(message.message_id for message in messages)
        query = select(inbox.c.message_id, inbox.c.state, inbox.c.reason)
        query = query.where(*self._where(inbox), inbox.c.message_id.in_(ids)).order_by(inbox.c.message_id)
        return {row[0]: (row[1], row[2]) for row in conn.execute(query.with_for_update())}

    def defer(self, conn: Connection, message: Message, reason: str) -> None:
        """The offset passes over this message; it is applied later, under this row, if at all."""
        values = {"message_id": message.message_id, "state": "deferred", "reason": reason, "updated_at": clock()}
        conn.execute(insert(inbox).values(**self._mine, **values))

    def settle(self, conn: Connection, messages: Sequence[Message]) -> None:
        """Deferred messages that have been applied."""
        ids = [message.message_id for message in messages]
        where = (*self._where(inbox), inbox.c.message_id.in_(ids))
        conn.execute(update(inbox).where(*where).values(state="applied", updated_at=clock()))

    def journal(self, conn: Connection, messages: Sequence[Message]) -> None:
        """One row per effect, for an audit."""
        rows: list[dict[str, Any]] = [
            self._mine
            | {"queue_id": message.queue_id, "queue_offset": message.queue_offset, "message_id": message.message_id}
            for message in messages
        ]
        if rows:
            conn.execute(insert(applied).values(applied_at=clock()), rows)

    def _where(self, table: Any) -> tuple[Any, Any]:
        return table.c.consumer_group == self._mine["consumer_group"], table.c.topic == self._mine["topic"]
