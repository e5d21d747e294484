"""Table mqpg_ledger_message: what a ledger's half messages contained.

A broker may lose a half message whose local transaction has committed: an asynchronous standby was
promoted, or the broker was restored. With this table recovery prepares the message again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, insert, select, update

from mqpg._async._acompat import Connection
from mqpg._async.stores.create_tables import create_tables
from mqpg._async.stores.database import ConstraintViolated, UserDatabase
from mqpg._async.stores.durability import wait_until_flushed
from mqpg.user_tables.tables import ledger, ledger_message
from mqpg.values.draft import Draft
from mqpg.values.errors import LedgerError
from mqpg.values.messages import Json

__all__ = ["LedgerMessage", "LedgerMessages"]

_COLUMNS = ("producer_group", "topic", "payload", "message_key", "tag", "headers", "delay")
_LOCK_TIMEOUT = 5.0  # seconds to wait for a ledger row


@dataclass(frozen=True, slots=True)
class LedgerMessage:
    """A message as it was prepared, with everything as text."""

    producer_group: str
    topic: str
    payload: str
    message_key: str | None
    tag: str | None
    headers: str | None
    delay: str | None

    def draft(self, headers: str | None) -> Draft:
        """The message with these headers in place of its own."""
        sent = None if headers is None else Json(headers)
        return Draft(self.topic, Json(self.payload), self.message_key, self.tag, sent, self.delay)


class LedgerMessages:
    """The table, beside the ledger."""

    def __init__(self, database: UserDatabase) -> None:
        self._database = database

    async def create(self) -> None:
        """Create the table if it is missing."""
        await create_tables(self._database, ledger_message)

    async def verify(self) -> None:
        """Verify once that the table is as it must be. Raises LedgerError."""
        await self._database.verify_table(ledger_message)

    async def exists(self) -> bool:
        """Whether the ledger has such a table, so that its messages can be prepared again."""
        if self._database.knows(ledger_message):
            return True
        # A database that does not answer must not look like a ledger that keeps no messages.
        async with self._database.connect() as conn:
            return await self._database.has_in(conn, ledger_message)

    async def store(self, conn: Connection, group: str, drafts: Mapping[str, Draft]) -> None:
        """Keep messages under their handles, in the local transaction.

        Raises InvalidArgument for a payload that is not JSON.
        """
        rows = [{"handle": handle, "producer_group": group} | draft.columns() for handle, draft in drafts.items()]
        await self._database.execute(conn, insert(ledger_message), rows)

    async def read(self, handle: str) -> LedgerMessage | None:
        """The message of a handle. None if it was not kept."""
        columns = [ledger_message.c[name] for name in _COLUMNS]
        async with self._database.connect() as conn:
            row = (
                await self._database.execute(conn, select(*columns).where(ledger_message.c.handle == handle))
            ).first()
        return None if row is None else LedgerMessage(*row)

    async def replace_handle(self, handle: str, new: str, headers: str | None) -> bool:
        """Give a committed ledger row and its message a new handle, durably (protocol T2, step 2).

        False if another process was faster, or a check-back has fenced the new handle: then
        nothing has changed. Raises LedgerError if the commit does not reach the disk in time.
        The new half message must not be decided then. Recovery reads the ledger again.
        """
        try:
            async with self._database.short_transaction(_LOCK_TIMEOUT) as conn:
                mine = (ledger.c.handle == handle, ledger.c.entry == "local")
                # The key refuses a new handle that has a fence, as it does for a new row.
                if (
                    await self._database.execute(conn, update(ledger).where(*mine).values(handle=new, done_at=None))
                ).rowcount != 1:
                    return False
                moved = update(ledger_message).where(ledger_message.c.handle == handle)
                await self._database.execute(conn, moved.values(handle=new, headers=headers))
                await conn.commit()
                if await wait_until_flushed(conn):
                    return True
        except ConstraintViolated:
            return False
        raise LedgerError(f"ledger {self._database.describe()}: its commits are not on disk yet")

    async def purge(self, conn: Connection, old: ColumnElement[bool]) -> None:
        """Delete the messages of the ledger rows that fulfil a condition."""
        handles = select(ledger.c.handle).where(old)
        await self._database.execute(conn, delete(ledger_message).where(ledger_message.c.handle.in_(handles)))
