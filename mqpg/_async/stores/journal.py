"""Table mqpg_applied: the journal of effects, in the database of the effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, insert, or_, select, update

from mqpg._async._acompat import Connection, PgConnection
from mqpg._async.stores.statements import StoreStatement
from mqpg.user_tables.dialects import chunks
from mqpg.user_tables.tables import applied, clock, in_schema
from mqpg.values.messages import Message

__all__ = ["Journal"]

_COLUMNS = ("consumer_group", "topic", "queue_id", "queue_offset", "message_id", "broker", "subscription_id")
_WRITE = StoreStatement(insert(applied).values({name: bindparam(name) for name in _COLUMNS} | {"applied_at": clock()}))

_KEPT = StoreStatement(
    select(func.min(applied.c.message_id)).where(
        applied.c.consumer_group == bindparam("consumer_group"),
        applied.c.topic == bindparam("topic"),
        or_(applied.c.broker == bindparam("broker"), applied.c.broker.is_(None)),
    )
)


class Journal:
    """The rows of one consumer group and topic. `schema`: that of the table, or None."""

    def __init__(self, group: str, topic: str, schema: str | None = None) -> None:
        self._group, self._topic, self._schema = group, topic, schema

    async def write(self, conn: PgConnection | Connection, messages: Sequence[Message], broker_id: str) -> None:
        """Write one row for each effect, in its transaction. The audit counts them, and consumers look for them.

        The receipts of the messages say which subscription they were delivered to.
        """
        rows = [
            {
                "consumer_group": self._group,
                "topic": self._topic,
                "queue_id": message.queue_id,
                "queue_offset": message.queue_offset,
                "message_id": message.message_id,
                "broker": broker_id,
                "subscription_id": int(str(message.receipt).partition(".")[0]),
            }
            for message in messages
        ]
        await _WRITE.execute_all(conn, rows, self._schema)

    async def is_kept(self, conn: PgConnection | Connection, broker_id: str) -> bool:
        """Whether there is any row."""
        values = {"consumer_group": self._group, "topic": self._topic, "broker": broker_id}
        return await _KEPT.scalar(conn, values, self._schema) is not None

    async def recognise(self, conn: Connection, messages: Mapping[int, Message], broker_id: str) -> set[int]:
        """Which of these ids were applied, whatever offsets they had then.

        `messages` has the message that has an id now or had it before. The row of each gets the id and the
        offset under which the broker has the message now. A row that gets another id also gets the present
        time, because the audit holds it against the commit of that id, which came after the effect.
        """
        mine = self._mine(broker_id)
        query = select(applied.c.message_id).where(*mine)
        found: set[int] = set()
        for ids in chunks(messages):
            chosen = query.where(applied.c.message_id.in_(ids))
            found |= {row[0] for row in await conn.execute(in_schema(chosen, self._schema))}
        for one in sorted(found):
            message = messages[one]
            values: dict[str, Any] = {
                "message_id": message.message_id,
                "queue_id": message.queue_id,
                "queue_offset": message.queue_offset,
            }
            if message.message_id != one:
                values["applied_at"] = clock()
            moved = update(applied).where(*mine, applied.c.message_id == one).values(**values)
            await conn.execute(in_schema(moved, self._schema))
        return found

    async def has(self, conn: Connection, message_id: int, broker_id: str) -> bool:
        """Whether this message was applied."""
        query = select(applied.c.message_id).where(*self._mine(broker_id), applied.c.message_id == message_id)
        return (await conn.execute(in_schema(query.limit(1), self._schema))).first() is not None

    async def begins_before(self, conn: Connection, queue_id: int, offset: int, broker_id: str) -> bool:
        """Whether the journal of a queue was kept already when this offset was applied."""
        query = select(func.min(applied.c.queue_offset)).where(*self._mine(broker_id), applied.c.queue_id == queue_id)
        first = (await conn.execute(in_schema(query, self._schema))).scalar()
        return first is not None and int(first) <= offset

    def _mine(self, broker_id: str) -> tuple[ColumnElement[bool], ...]:
        of_broker = or_(applied.c.broker == broker_id, applied.c.broker.is_(None))
        return applied.c.consumer_group == self._group, applied.c.topic == self._topic, of_broker
