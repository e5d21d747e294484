# Generated from mqpg/_async/stores/offsets.py by tools/async_to_sync.py: change that file.
"""A consumer's offsets and inbox in its own database (protocol C2)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import case, insert, select, update

from mqpg._sync._acompat import Connection
from mqpg._sync.stores.create_tables import ensure_tables
from mqpg._sync.stores.database import UserDatabase
from mqpg._sync.stores.durability import DURABLE_COMMIT
from mqpg.user_tables.dialects import MYSQL, chunks
from mqpg.user_tables.tables import FAMILIES, clock, inbox, offsets
from mqpg.values.errors import DatabaseError
from mqpg.values.messages import BrokerInfo, Message

__all__ = ["Offsets", "Position"]


@dataclass(frozen=True, slots=True)
class Position:
    """How far one queue is applied: the next offset, and the id of the message before it.

    `realigned`: messages from there on may have been applied before. `first_offset`: where this
    database began with the queue.
    """

    next_offset: int
    last_message_id: int | None
    incarnation: int
    realigned: bool = False
    first_offset: int | None = None


_POSITION = (
    offsets.c.next_offset, offsets.c.last_message_id, offsets.c.incarnation, offsets.c.realigned_at.is_not(None),
    offsets.c.first_offset,
)  # fmt: skip

# Whether a database has every character, and its session can send it. SQLite has and can.
_EVERY_CHARACTER = {
    "postgresql": "select current_setting('server_encoding') = 'UTF8' and current_setting('client_encoding') = 'UTF8'"
} | dict.fromkeys(MYSQL, "select @@character_set_client = 'utf8mb4'")


class Offsets:
    """The rows of one consumer group and topic, at any broker.

    Every call but `ensure` belongs to the transaction on `conn`, and to the topic of one broker.
    `consumer`: the name of the one that writes them.
    """

    def __init__(self, database: UserDatabase, group: str, topic: str, consumer: str | None = None) -> None:
        self._database, self._consumer = database, consumer
        self._mine = {"consumer_group": group, "topic": topic}

    def ensure(self) -> None:
        """Create the tables that are missing, once.

        Raises LedgerError for a table that is not as it must be.
        """
        ensure_tables(self._database, *FAMILIES["consumer"])

    def position(self, conn: Connection, broker_id: str, queue_id: int, *, lock: bool) -> Position | None:
        """How far this queue is applied. None: nothing of it was applied yet.

        `lock` keeps other processes of the same name out until the transaction ends.
        """
        query = select(*_POSITION).where(*self._where(offsets, broker_id), offsets.c.queue_id == queue_id)
        row = (self._database.execute(conn, query.with_for_update() if lock else query)).first()
        return None if row is None else _position(row)

    def positions(self, conn: Connection, broker_id: str) -> dict[int, Position]:
        """How far each queue is applied."""
        query = select(offsets.c.queue_id, *_POSITION).where(*self._where(offsets, broker_id))
        rows = self._database.execute(conn, query.order_by(offsets.c.queue_id))
        return {row[0]: _position(row[1:]) for row in rows}

    def consumers(self, conn: Connection, broker_id: str) -> set[str | None]:
        """The names of the consumers that had this database. None: one of an earlier release."""
        query = select(offsets.c.consumer).distinct().where(*self._where(offsets, broker_id))
        return {row[0] for row in self._database.execute(conn, query)}

    def realign(self, conn: Connection, broker_id: str, queue_id: int, position: Position) -> None:
        """Put a queue's position where the broker and this database agree."""
        values = {
            "next_offset": position.next_offset,
            "last_message_id": position.last_message_id,
            "incarnation": position.incarnation,
            "updated_at": clock(),
            "realigned_at": clock(),
        }
        where = (*self._where(offsets, broker_id), offsets.c.queue_id == queue_id)
        self._database.execute(conn, update(offsets).where(*where).values(**values))

    def begin(self, conn: Connection, first: Message, info: BrokerInfo) -> Position:
        """Note that this database begins a queue with that message.

        If two processes do it at the same time, the primary key lets only one of them continue.
        """
        values = {
            "queue_id": first.queue_id,
            "next_offset": first.queue_offset,
            "incarnation": info.incarnation,
            "updated_at": clock(),
            "first_offset": first.queue_offset,
            "consumer": self._consumer,
        }
        self._database.execute(conn, insert(offsets).values(**self._mine, broker=info.broker_id, **values))
        return Position(first.queue_offset, None, info.incarnation, first_offset=first.queue_offset)

    def move(self, conn: Connection, last: Message, known: Position, info: BrokerInfo) -> None:
        """Move the position behind `last`: everything up to it is applied or deferred.

        Raises DatabaseError where the row that this transaction has locked is gone, and the transaction with it.
        """
        values = {
            "next_offset": last.queue_offset + 1,
            "last_message_id": last.message_id,
            # `info` may be from before an adoption that `known` is from.
            "incarnation": max(info.incarnation, known.incarnation),
            "updated_at": clock(),
            "consumer": self._consumer,
        }
        where = (*self._where(offsets, info.broker_id), offsets.c.queue_id == last.queue_id)
        moved = self._database.execute(conn, update(offsets).where(*where).values(**values))
        if moved.rowcount == 0:
            raise DatabaseError(f"database {self._database.describe()}: the transaction was rolled back by the server")

    def states(
        self, conn: Connection, broker_id: str, messages: Sequence[Message]
    ) -> dict[int, tuple[str, str | None]]:
        """State and reason of each message that has an inbox row, by message id.

        The rows are locked.
        """
        return self.states_by_id(conn, broker_id, {message.message_id for message in messages})

    def states_by_id(
        self, conn: Connection, broker_id: str, message_ids: Collection[int]
    ) -> dict[int, tuple[str, str | None]]:
        """`states` of messages that the broker may no longer have."""
        query = select(inbox.c.message_id, inbox.c.state, inbox.c.reason).where(*self._where(inbox, broker_id))
        query = query.order_by(inbox.c.message_id).with_for_update()
        found: dict[int, tuple[str, str | None]] = {}
        for ids in chunks(message_ids):
            found |= {
                row[0]: (row[1], row[2])
                for row in self._database.execute(conn, query.where(inbox.c.message_id.in_(ids)))
            }
        return found

    def defer(self, conn: Connection, broker_id: str, message: Message, reason: str) -> None:
        """Note that the offset skips this message. Only a retry may apply it, under this row.

        It has a row already where it failed before, and the offset was moved back for a replay. If this database
        might not take all characters of the reason, they are escaped.
        """
        if not reason.isascii() and not self._takes_every_character(conn):
            reason = reason.encode("ascii", "backslashreplace").decode()
        values = {"state": "deferred", "reason": reason, "updated_at": clock()}
        where = (*self._where(inbox, broker_id), inbox.c.message_id == message.message_id)
        if (self._database.execute(conn, update(inbox).where(*where).values(**values))).rowcount == 0:
            key = self._mine | {"broker": broker_id, "message_id": message.message_id}
            self._database.execute(conn, insert(inbox).values(**key, **values))

    def _takes_every_character(self, conn: Connection) -> bool:
        query = _EVERY_CHARACTER.get(self._database.dialect)
        return query is None or bool((conn.exec_driver_sql(query)).scalar())

    def mark_applied(self, conn: Connection, broker_id: str, messages: Sequence[Message]) -> None:
        """Note that deferred messages have been applied. The commit waits for the disk.

        The log gives what is lost behind an offset again, but nothing gives a retry again once it is acknowledged.
        """
        ids = [message.message_id for message in messages]
        where = (*self._where(inbox, broker_id), inbox.c.message_id.in_(ids))
        durable = self._database.dialect == "postgresql"
        now = case((DURABLE_COMMIT.is_not(None), clock())) if durable else clock()
        self._database.execute(conn, update(inbox).where(*where).values(state="applied", updated_at=now))

    def _where(self, table: Any, broker_id: str) -> tuple[Any, ...]:
        columns = self._mine | {"broker": broker_id}
        return tuple(table.c[name] == value for name, value in columns.items())


def _position(row: Sequence[Any]) -> Position:
    return Position(row[0], row[1], row[2], bool(row[3]), row[4])
