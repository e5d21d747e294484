"""Table mqpg_outbox: a producer's stored messages beside its business (FastMiniMQ's P1, P4, P7)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from secrets import randbelow, token_hex
from typing import Any, Literal
from uuid import uuid4

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from mqpg._async._acompat import Connection, Session
from mqpg._async.stores.create_tables import create_tables, ensure_tables
from mqpg._async.stores.database import ConstraintViolated, UserDatabase
from mqpg._async.stores.durability import DURABLE_COMMIT, XID, wait_until_flushed
from mqpg._async.stores.ledger import is_transient
from mqpg.tracing import add_context
from mqpg.user_tables.drivers import is_locked
from mqpg.user_tables.tables import FAMILIES, clock, outbox, outbox_count
from mqpg.values.arguments import exactly_before
from mqpg.values.draft import Draft
from mqpg.values.errors import ConnectionFailed, DatabaseError, Fenced, LedgerError
from mqpg.values.messages import Json

__all__ = ["Outbox", "OutboxEntry", "StoredMessage", "StoredState"]

StoredState = Literal["send", "stored", "commit", "rollback"]


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One row: a message, the broker that it is pinned to, and how far it has come.

    `state` is "send" (QoS 1), "stored" (PREPARE may be under way), or "commit" or "rollback"
    (decided here, and the broker may not know yet).
    """

    id: str
    state: StoredState
    broker: str
    handle: str | None
    topic: str
    payload: str
    message_key: str | None
    tag: str | None
    headers: str | None
    delay: str | None
    producer_group: str | None = None

    @classmethod
    def new(cls, state: StoredState, broker: str, group: str | None, draft: Draft) -> StoredMessage:
        """A row with a new id. Raises InvalidArgument for what no broker would take."""
        columns = replace(draft, headers=add_context(draft.headers)).columns()
        return cls(id=uuid4().hex, state=state, broker=broker, handle=None, producer_group=group, **columns)

    def send_options(self) -> dict[str, Any]:
        """Keyword arguments of `send` and `prepare`."""
        return {
            "key": self.message_key,
            "tag": self.tag,
            "headers": None if self.headers is None else Json(self.headers),
            "delay": self.delay,
            "dedup_id": self.id,
        }


_RULE_TIMEOUT = 0.2  # seconds to wait for the end of an open local transaction
_SLOTS = 16  # rows of a counter
_COUNT = (outbox_count.c.broker, outbox_count.c.topic, outbox_count.c.slot)
_COLUMNS = [outbox.c[name] for name in StoredMessage.__slots__]


class Outbox:
    """The table.

    Calls with `conn` belong to the caller's transaction; each other call is a transaction of its
    own.
    """

    def __init__(self, database: UserDatabase) -> None:
        self.database = database
        self._identity: str | None = None

    async def create(self) -> None:
        """Create the table if it is missing."""
        await create_tables(self.database, *FAMILIES["outbox"])

    async def verify(self) -> None:
        """Verify once that the tables are as they must be, or create them. Raises LedgerError."""
        await self.database.verify_table(outbox)
        await ensure_tables(self.database, *FAMILIES["outbox"])  # an outbox of an earlier release has no counters

    async def identity(self) -> str:
        """What `prepare` stores with half messages. No checker looks into an outbox, and without one no
        half message of it is rolled back: it waits for its producer, or for settle()."""
        while self._identity is None:
            query = select(outbox_count.c.broker).where(outbox_count.c.topic == "")
            async with self.database.begin() as conn:
                self._identity = (
                    await self.database.execute(conn, query.order_by(outbox_count.c.broker).limit(1))
                ).scalar()
                if self._identity is None:
                    row = {"broker": token_hex(4), "topic": "", "slot": 0, "sent": 0, "committed": 0}
                    await self.database.execute(conn, insert(outbox_count).values(**row))
        return self._identity

    async def store(self, conn: Connection | Session, row: StoredMessage) -> None:
        """Store a message in the caller's transaction (P1)."""
        values = {name: getattr(row, name) for name in StoredMessage.__slots__}
        row_of = insert(outbox).values(**values, created_at=clock()).execution_options(preserve_rowcount=True)
        if (await self.database.execute(conn, row_of)).rowcount == 0:
            raise LedgerError(f"a trigger or rule of mqpg_outbox in {self.database.describe()} left out its row")

    async def store_now(self, row: StoredMessage) -> None:
        """Store a message in a transaction of its own (P1)."""
        async with self.database.begin() as conn:
            await self.commit_durably(conn)
            await self.store(conn, row)

    async def commit_durably(self, conn: Connection) -> str | None:
        """Make the transaction's commit wait for the disk, because the broker acts on it.

        Returns its id in PostgreSQL, else None.
        """
        if self.database.dialect != "postgresql":
            return None
        return str((await conn.execute(select(XID, DURABLE_COMMIT))).scalar())

    async def move(self, conn: Connection, row: StoredMessage, state: StoredState, handle: str | None = None) -> bool:
        """Move a row from its state to another one.

        False if another transaction has moved it first.
        """
        values = {"state": state} if handle is None else {"state": state, "handle": handle}
        where = (outbox.c.id == row.id, outbox.c.state == row.state)
        return bool((await self.database.execute(conn, update(outbox).where(*where).values(**values))).rowcount == 1)

    async def rule_rollback(self, row: StoredMessage) -> bool:
        """Rule that a stored message is rolled back.

        False while its local transaction is open, or was committed.

        The local transaction moves the same row, so only one of the two can. No message is rolled
        back whose local transaction may still commit.
        """
        try:
            async with self.database.short_transaction(_RULE_TIMEOUT) as conn:
                moved = await self.move(conn, row, "rollback")
                await conn.commit()
                # A ruling that is not on disk yet counts when recovery runs again.
                return moved and await wait_until_flushed(conn)
        except (ConnectionFailed, DatabaseError) as error:
            if is_transient(error.__cause__ or error):
                return False
            raise

    async def flush(self) -> bool:
        """Flush everything that is committed in this database.

        False while another transaction keeps this one from writing, so that nothing is known to be
        on disk: one that locks the table, or in SQLite any writer. Raises LedgerError if the
        flush takes too long.

        Every database may show a commit to others before it is on disk, if the session or the
        server is set to that. docs/testing/proof.md shows what could happen.
        """
        # A row that comes and goes is a real write everywhere, and meets no lock on another row.
        mark = f"flush.{uuid4().hex}"
        row = {"id": mark, "state": "stored", "broker": "", "topic": "", "payload": "", "created_at": clock()}
        try:
            async with self.database.short_transaction(1.0) as conn:
                await self.database.execute(conn, insert(outbox).values(**row))
                await self.database.execute(conn, delete(outbox).where(outbox.c.id == mark))
                await conn.commit()
                if await wait_until_flushed(conn):
                    return True
        except DatabaseError as error:
            if is_locked(error.__cause__ or error):
                return False
            raise
        raise LedgerError(f"outbox in {self.database.describe()}: its commits are not on disk yet")

    async def store_handle(self, row: StoredMessage, handle: str) -> None:
        """Note the handle of a message that was prepared again."""
        async with self.database.begin() as conn:
            await self.database.execute(conn, update(outbox).where(outbox.c.id == row.id).values(handle=handle))

    async def delete(self, row: StoredMessage, counted: Literal["sent", "committed"] | None = None) -> None:
        """Delete a message that the broker has permanently (P7, or P4 of QoS 1), and count it.

        A row that another process has deleted is not counted again.
        """
        mine = {"broker": row.broker, "topic": row.topic, "slot": randbelow(_SLOTS)}
        where = [column == mine[column.name] for column in _COUNT]
        while True:
            try:
                async with self.database.begin() as conn:
                    gone = await self.database.execute(conn, delete(outbox).where(outbox.c.id == row.id))
                    if counted is None or gone.rowcount != 1:
                        return
                    counter = outbox_count.c[counted]
                    moved = await self.database.execute(
                        conn, update(outbox_count).where(*where).values({counter: counter + 1})
                    )
                    if moved.rowcount != 1:
                        values = mine | {"sent": 0, "committed": 0} | {counted: 1}
                        await self.database.execute(conn, insert(outbox_count).values(**values))
                    return
            except ConstraintViolated:
                continue  # another process has made the counter

    async def open_rows(self, broker: str, limit: int, older_than: timedelta, skip: int = 0) -> list[StoredMessage]:
        """Rows of one broker, oldest first, without the first `skip`."""
        query = select(*_COLUMNS).where(outbox.c.broker == broker).order_by(outbox.c.created_at, outbox.c.id)
        async with self.database.connect() as conn:
            if older_than:
                now: Any = (await conn.execute(select(clock()))).scalar_one()
                query = query.where(outbox.c.created_at <= exactly_before(now, older_than))
            return [StoredMessage(*row) for row in await self.database.execute(conn, query.limit(limit).offset(skip))]

    async def rows_of_others(self, brokers: Collection[str], older_than: timedelta) -> dict[str, int]:
        """How many rows each broker has that is none of these."""
        # A row without a broker is one of flush().
        query = select(outbox.c.broker, func.count()).where(outbox.c.broker.not_in([*brokers, ""]))
        async with self.database.connect() as conn:
            now: Any = (await conn.execute(select(clock()))).scalar_one()
            query = query.where(outbox.c.created_at <= exactly_before(now, older_than)).group_by(outbox.c.broker)
            return {row[0]: row[1] for row in await self.database.execute(conn, query)}


class OutboxEntry:
    """The row of one message, used in its local transaction as a ledger is (P4)."""

    def __init__(self, outbox: Outbox, row: StoredMessage, merged: bool) -> None:
        self.database = outbox.database
        self._outbox, self._row, self._merged = outbox, row, merged

    async def verify(self) -> None:
        """Verify once that the table is as it must be. Raises LedgerError."""
        await self._outbox.verify()

    async def identity(self) -> str:
        """See `Outbox.identity`."""
        return await self._outbox.identity()

    async def begin(self, conn: Connection, handle: str, topic: str | None = None) -> str | None:
        """Note that the message is committed if and only if this transaction is (P4).

        Returns the transaction's id in PostgreSQL, else None. Raises Fenced.
        """
        xid = await self._outbox.commit_durably(conn)
        if not self._merged:
            if not await self._outbox.move(conn, self._row, "commit", handle):
                raise Fenced(f"recovery has already ruled that this transaction rolls back (message {self._row.id})")
            return xid
        try:
            await self._outbox.store(conn, replace(self._row, state="commit", handle=handle))
        except IntegrityError as error:
            raise Fenced(f"message {self._row.id} is in the outbox already") from error
        return xid

    async def surviving_rows(self, conn: Connection, handles: Sequence[str]) -> dict[str, Json | None]:
        """The handle, if its row survives, with the payload if that was replaced."""
        query = select(outbox.c.handle, outbox.c.payload).where(outbox.c.id == self._row.id, outbox.c.state == "commit")
        rows = await self.database.execute(conn, query)
        return {handle: None if payload == self._row.payload else Json(payload) for handle, payload in rows}

    async def set_payload(self, conn: Connection, handle: str, payload: str) -> None:
        """Keep the final payload."""
        await self.database.execute(conn, update(outbox).where(outbox.c.id == self._row.id).values(payload=payload))
