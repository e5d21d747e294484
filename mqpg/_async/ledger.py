"""The producer's ledger of handles, in the database of its business tables (protocols T2 and T3)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from sqlalchemy import URL, bindparam, delete, func, insert, or_, select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError

from mqpg._async._io import Connection, Engine
from mqpg._async.durable import flushed, write_something
from mqpg._async.local import LocalDatabase
from mqpg._dialects import is_denied, is_locked, is_read_only
from mqpg._tables import clock, ledger, ledger_metadata
from mqpg.errors import ConnectionFailed, Fenced, LedgerError, translate
from mqpg.message import Json, Verdict

__all__ = ["AsyncLedger", "Look", "OpenRow", "passing"]

logger = logging.getLogger("mqpg")

# The half message becomes visible right after the local commit, so that must be on disk before.
_DURABLE = func.set_config(
    "synchronous_commit",
    text(
        "case when current_setting('synchronous_commit') in ('off', 'local') then 'on' "
        "else current_setting('synchronous_commit') end"
    ),
    True,
)
_INSERT = insert(ledger).values(
    handle=bindparam("new_handle"), entry=bindparam("new_entry"), topic=bindparam("new_topic"), created_at=clock()
)
_INSERT_DURABLE = _INSERT.returning(_DURABLE)
_ENTRY = select(ledger.c.entry).where(ledger.c.handle == bindparam("one"))
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class OpenRow:
    """A ledger row whose decision the broker may not have yet; `entry` is local or fence."""

    handle: str
    entry: str
    payload: Json | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Look:
    """What a check-back found; `reason` says why it must wait."""

    verdict: Verdict
    reason: str | None = None


class AsyncLedger:
    """Table `mqpg_ledger` in any database that SQLAlchemy reaches: a URL, or an engine of the caller's.

    Methods raise LedgerError where the table is missing or lacks a column or its primary key.
    """

    def __init__(self, database: str | URL | Engine) -> None:
        self.database = LocalDatabase(database)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def create(self) -> None:
        """Create the table where it is not there."""
        await self.database.create(ledger_metadata)

    async def close(self) -> None:
        """Close the connections, unless the engine is the caller's."""
        await self.database.close()

    async def begin(self, conn: Connection, handle: str, topic: str | None = None) -> None:
        """Write the handle, as the first statement of the local transaction on `conn` (T2 step 2).

        Raises Fenced when a check-back was faster: then the transaction must roll back.
        """
        values = {"new_handle": handle, "new_entry": "local", "new_topic": topic}
        try:
            await conn.execute(_INSERT_DURABLE if self.database.dialect == "postgresql" else _INSERT, values)
        except IntegrityError as error:
            raise Fenced(f"a check-back has ruled before that this transaction rolls back (handle {handle})") from error

    async def kept(self, conn: Connection, handles: Sequence[str]) -> dict[str, Json | None]:
        """Which of these the transaction on `conn` still has a row of, with their final payloads."""
        found: dict[str, Json | None] = {}
        for start in range(0, len(handles), _CHUNK):
            chosen = ledger.c.handle.in_(handles[start : start + _CHUNK])
            query = select(ledger.c.handle, ledger.c.payload).where(chosen, ledger.c.entry == "local")
            for handle, payload in await conn.execute(query):
                found[handle] = None if payload is None else Json(payload)
        return found

    async def set_payload(self, conn: Connection, handle: str, payload: str) -> None:
        """Keep the final payload with the row, so that whoever commits the half later has it too."""
        await conn.execute(update(ledger).where(ledger.c.handle == handle).values(payload=payload))

    async def verdict(self, handle: str, lock_timeout: float = 1.0) -> Verdict:
        """What became of the local transaction, made final by a fence (T3).

        COMMIT: it committed, and that is on disk. ROLLBACK: it did not and cannot any more. WAIT: it is still
        open, or the database does not answer within `lock_timeout` (seconds); ask again.
        """
        return (await self.look(handle, lock_timeout)).verdict

    async def look(self, handle: str, lock_timeout: float = 1.0) -> Look:
        """As `verdict`, with the reason of a WAIT."""
        try:
            await self.verified()
            fenced = await self._fence(handle, lock_timeout)
            # A new statement: the one that met the row waited for it and cannot have seen it.
            return fenced or await self._standing(handle, lock_timeout)
        except (SQLAlchemyError, ConnectionFailed) as error:
            known = self.database.failure(error)
            if not passing(error) or is_denied(error):
                raise LedgerError(f"ledger {self.database.describe()}: {known}") from error
            logger.info("ledger %s: no verdict on %s yet: %s", self.database.describe(), handle, known)
            return Look(Verdict.WAIT, f"the local transaction is open: {known}" if is_locked(error) else str(known))

    async def final_payload(self, handle: str) -> Json | None:
        """The payload that the commit of this handle must carry; None keeps the prepared one."""
        async with self.database.engine.connect() as conn:
            found = (await conn.execute(select(ledger.c.payload).where(ledger.c.handle == handle))).scalar()
        return None if found is None else Json(found)

    async def strangers(self, broker_id: str) -> str | None:
        """Another broker's id, where the table has handles of others and none of this one: a wrong URL?"""
        async with self.database.engine.connect() as conn:
            mine = select(ledger.c.handle).where(ledger.c.handle.startswith(f"{broker_id}.", autoescape=True)).limit(1)
            if (await conn.execute(mine)).first() is not None:
                return None
            found = (await conn.execute(select(ledger.c.handle).limit(1))).scalar()
        return None if found is None else str(found).partition(".")[0]

    async def mark_done(self, handles: Sequence[str]) -> None:
        """Note that the broker has these decisions. Losing the note costs a repeated decision, so no flush."""
        async with self.database.engine.begin() as conn:
            if self.database.dialect == "postgresql":
                await conn.exec_driver_sql("set local synchronous_commit = off")
            # Sorted: two that mark the same rows meet in one order.
            ordered = sorted(handles)
            for start in range(0, len(ordered), _CHUNK):
                chosen = ledger.c.handle.in_(ordered[start : start + _CHUNK])
                await conn.execute(update(ledger).where(chosen, ledger.c.done_at.is_(None)).values(done_at=clock()))

    async def open_rows(
        self,
        limit: int = 1000,
        older_than: timedelta = timedelta(0),
        *,
        broker_id: str | None = None,
        after: OpenRow | None = None,
    ) -> list[OpenRow]:
        """Rows not marked done, oldest first; of one broker, and behind `after`, where these are given."""
        query = select(ledger.c.handle, ledger.c.entry, ledger.c.payload, ledger.c.created_at)
        query = query.where(ledger.c.done_at.is_(None)).order_by(ledger.c.created_at, ledger.c.handle).limit(limit)
        if broker_id is not None:
            query = query.where(ledger.c.handle.startswith(f"{broker_id}.", autoescape=True))
        if after is not None:
            created, same = ledger.c.created_at > after.created_at, ledger.c.created_at == after.created_at
            query = query.where(or_(created, same & (ledger.c.handle > after.handle)))
        async with self.database.engine.connect() as conn:
            await self.database.verify(conn, ledger)
            if older_than:
                query = query.where(ledger.c.created_at <= await _now(conn) - older_than)
            rows = (await conn.execute(query)).all()
        return [OpenRow(row[0], row[1], None if row[2] is None else Json(row[2]), row[3]) for row in rows]

    async def purge(self, older_than: timedelta = timedelta(days=1)) -> int:
        """Delete rows that were marked done longer ago than this; returns how many."""
        async with self.database.engine.begin() as conn:
            before = await _now(conn) - older_than
            result = await conn.execute(delete(ledger).where(ledger.c.done_at <= before))
            return int(result.rowcount)

    async def verified(self) -> None:
        """Look once whether the table is right. Raises LedgerError."""
        if self.database.knows(ledger):
            return
        async with self.database.engine.connect() as conn:
            await self.database.verify(conn, ledger)

    async def settled(self, handle: str, lock_timeout: float = 5.0) -> None:
        """Have on disk what is committed here. Some databases show commits to others before; see docs/proof.md.

        Raises LedgerError where it takes too long.
        """
        async with self.database.short_transaction(lock_timeout) as conn:
            await write_something(conn, handle)
            await conn.commit()
            if not await flushed(conn):
                raise LedgerError(f"ledger {self.database.describe()}: its commits are not on disk yet")

    async def _fence(self, handle: str, lock_timeout: float) -> Look | None:
        """Insert the fence; None when a row stands there. Waits for an open local transaction's end."""
        values = {"new_handle": handle, "new_entry": "fence", "new_topic": None}
        try:
            async with self.database.short_transaction(lock_timeout) as conn:
                await conn.execute(_INSERT, values)
                await conn.commit()
                if await flushed(conn):
                    return Look(Verdict.ROLLBACK)
        except IntegrityError:
            return None
        return Look(Verdict.WAIT, "its fence is not on disk yet")

    async def _standing(self, handle: str, lock_timeout: float) -> Look:
        """What the row says. A fence is another checker's or an earlier one of ours: it may not be on disk either."""
        async with self.database.short_transaction(lock_timeout) as conn:
            entry = (await conn.execute(_ENTRY, {"one": handle})).scalar()
            if entry is None:
                return Look(Verdict.WAIT, "the ledger row went away: the next look sets a fence")
            await write_something(conn, handle)
            await conn.commit()
            if await flushed(conn):
                return Look(Verdict.COMMIT if entry == "local" else Verdict.ROLLBACK)
        return Look(Verdict.WAIT, f"its {'commit' if entry == 'local' else 'fence'} is not on disk yet")


async def _now(conn: Connection) -> Any:
    return (await conn.execute(select(clock()))).scalar_one()


def passing(error: BaseException) -> bool:
    """Whether an error of a ledger's database is about its connection or a lock, and goes away by itself."""
    return isinstance(error, (ConnectionFailed, OperationalError)) or (
        isinstance(error, DBAPIError)
        and (error.connection_invalidated or is_read_only(error) or isinstance(translate(error), ConnectionFailed))
    )
