"""Table mqpg_applied: the journal of effects, in the database of the effects."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, insert

from mqpg._async._acompat import Connection, PgConnection
from mqpg._async.stores.statements import StoreStatement
from mqpg._tables import applied, clock
from mqpg.message import Message

__all__ = ["Journal"]

_COLUMNS = ("consumer_group", "topic", "queue_id", "queue_offset", "message_id", "broker", "subscription_id")
_WRITE = StoreStatement(insert(applied).values({name: bindparam(name) for name in _COLUMNS} | {"applied_at": clock()}))


class Journal:
    """The rows of one consumer group and topic."""

    def __init__(self, group: str, topic: str) -> None:
        self._group, self._topic = group, topic

    async def write(self, conn: PgConnection | Connection, messages: Sequence[Message], broker_id: str) -> None:
        """Write one row for each effect, in its transaction, for the audit to count.

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
        await _WRITE.execute_all(conn, rows)
