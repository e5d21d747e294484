# Generated from mqpg/_async/stores/prepared.py by tools/async_to_sync.py: change that file.
"""Table mqpg_prepared: a relay topic's inbox, with each undecided half message (protocol T4)."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, insert, select

from mqpg._sync._acompat import Connection, PgConnection
from mqpg._sync.stores.statements import StoreStatement
from mqpg.user_tables.tables import clock, prepared
from mqpg.values.messages import Message

__all__ = ["PreparedMessages"]

_KEY = ("consumer_group", "topic", "handle")
_IS = tuple(prepared.c[name] == bindparam(f"wanted_{name}") for name in _KEY)
_COLUMNS = (*_KEY, "message_id", "queue_id", "payload")
_STORE = StoreStatement(
    insert(prepared).values({name: bindparam(name) for name in _COLUMNS} | {"prepared_at": clock()})
)
_READ = StoreStatement(select(prepared.c.payload).where(*_IS))
_DELETE = StoreStatement(delete(prepared).where(*_IS))


class PreparedMessages:
    """The rows of one consumer group and topic. Every call belongs to the transaction on `conn`."""

    def __init__(self, group: str, topic: str) -> None:
        self._group, self._topic = group, topic

    def store(self, conn: PgConnection | Connection, handle: str, message: Message) -> None:
        """Keep a PREPARE, in place of an earlier one of the same handle."""
        _DELETE.execute(conn, self._wanted(handle))
        values = {
            "consumer_group": self._group,
            "topic": self._topic,
            "handle": handle,
            "message_id": message.message_id,
            "queue_id": message.queue_id,
            "payload": message.raw,
        }
        _STORE.execute(conn, values)

    def take(self, conn: PgConnection | Connection, handle: str) -> str | None:
        """Delete the PREPARE of a handle and return its payload, or None if there is none."""
        payload: str | None = _READ.scalar(conn, self._wanted(handle))
        if payload is not None:
            _DELETE.execute(conn, self._wanted(handle))
        return payload

    def _wanted(self, handle: str) -> dict[str, str]:
        return {"wanted_consumer_group": self._group, "wanted_topic": self._topic, "wanted_handle": handle}
