"""Table mqpg_prepared: each half message that a consumer holds until it is decided (protocol T4)."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import ColumnElement, bindparam, delete, insert, literal_column, select, update

from mqpg._async._acompat import Connection, DriverConnection, PgConnection, driver_connection
from mqpg._async.stores.statements import StoreStatement
from mqpg.user_tables.drivers import commits_each_statement
from mqpg.user_tables.tables import clock, prepared
from mqpg.values.arguments import exactly_before
from mqpg.values.errors import InvalidArgument, LedgerError

__all__ = ["PreparedMessages"]

# In place of the payload of a row that is remembered after its decision. No JSON is empty.
_DECIDED = ""
_EMPTY: ColumnElement[str] = literal_column("''")

_KEY = ("consumer_group", "topic", "handle")
_IS = tuple(prepared.c[name] == bindparam(f"wanted_{name}") for name in _KEY)
# Another transaction may have decided since the row was read. This one waits for its end.
_OPEN = (*_IS, prepared.c.payload != _EMPTY)
_COLUMNS = (*_KEY, "message_id", "queue_id", "payload")
_STORE = StoreStatement(
    insert(prepared)
    .values({name: bindparam(name) for name in _COLUMNS} | {"prepared_at": clock()})
    .execution_options(preserve_rowcount=True)
)
_REPLACE = StoreStatement(
    update(prepared)
    .where(*_OPEN)
    .values({name: bindparam(name) for name in _COLUMNS[len(_KEY) :]} | {"prepared_at": clock()})
)
_READ = StoreStatement(select(prepared.c.payload).where(*_IS))
_DELETE = StoreStatement(delete(prepared).where(*_OPEN))
_DECIDE = StoreStatement(update(prepared).where(*_OPEN).values(payload=_EMPTY, prepared_at=clock()))
_NOW = StoreStatement(select(clock()))
_FORGET = StoreStatement(
    delete(prepared).where(
        *_IS[:2], prepared.c.payload == _EMPTY, prepared.c.prepared_at <= bindparam("until", type_=clock.type)
    )
)


class PreparedMessages:
    """The rows of one consumer group and topic. Every call belongs to the transaction on `conn`.

    With `remembers` a decided row stays without its payload until `forget`, and a PREPARE that comes
    again is dropped. Without it the caller sees to it that no message comes again.
    """

    def __init__(self, group: str, topic: str, schema: str | None = None, *, remembers: bool = False) -> None:
        self._group, self._topic, self._schema, self._remembers = group, topic, schema, remembers

    async def store(
        self, conn: PgConnection | Connection, handle: str, payload: str, message_id: int = 0, queue_id: int = 0
    ) -> None:
        """Keep a PREPARE, in place of an earlier one of the same handle."""
        found = await self._read(conn, handle)
        values: dict[str, str | int] = {"message_id": message_id, "queue_id": queue_id, "payload": payload}
        if found is None:
            await self._insert(conn, handle, values)
        elif found != _DECIDED:
            await _REPLACE.execute(conn, values | self._wanted(handle), self._schema)

    async def has(self, conn: Connection, handle: str) -> bool:
        """Whether there is a PREPARE of a handle."""
        return await _READ.scalar(conn, self._wanted(handle), self._schema) is not None

    async def take(self, conn: PgConnection | Connection, handle: str) -> str | None:
        """Take out the PREPARE of a handle and return its payload, or None if there is none."""
        payload = await self._read(conn, handle)
        if payload is None or payload == _DECIDED:
            return None
        end = _DECIDE if self._remembers else _DELETE
        return payload if await end.execute(conn, self._wanted(handle), self._schema) else None

    async def drop(self, conn: PgConnection | Connection, handle: str) -> None:
        """Take out the PREPARE of a handle. If it is still to come, remember that it is decided."""
        if await self.take(conn, handle) is None and self._remembers and await self._read(conn, handle) is None:
            await self._insert(conn, handle, {"message_id": 0, "queue_id": 0, "payload": _DECIDED})

    async def forget(self, conn: PgConnection | Connection, older_than: timedelta) -> int:
        """Delete the rows that were decided so long ago. Returns how many there were."""
        until = exactly_before(await _NOW.scalar(conn, {}, None), older_than)
        wanted = self._wanted("")
        del wanted["wanted_handle"]
        return await _FORGET.execute(conn, wanted | {"until": until}, self._schema)

    async def _read(self, conn: PgConnection | Connection, handle: str) -> str | None:
        payload: str | None = await _READ.scalar(conn, self._wanted(handle), self._schema)
        if self._remembers:
            driver = conn if isinstance(conn, DriverConnection) else await driver_connection(conn)
            if commits_each_statement(driver):
                raise InvalidArgument("conn must be in a transaction, not in autocommit mode")
        return payload

    async def _insert(self, conn: PgConnection | Connection, handle: str, values: dict[str, str | int]) -> None:
        key = {"consumer_group": self._group, "topic": self._topic, "handle": handle}
        if await _STORE.execute(conn, key | values, self._schema) == 0:
            raise LedgerError("a trigger or rule of mqpg_prepared left out its row")

    def _wanted(self, handle: str) -> dict[str, str | int]:
        return {"wanted_consumer_group": self._group, "wanted_topic": self._topic, "wanted_handle": handle}
