"""The producer's ledger of handles, beside its business tables (protocols T2 and T3)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg.errors import UniqueViolation
from sqlalchemy import ARRAY, URL, Text, any_, bindparam, case, delete, func, insert, or_, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError

from mqpg._async._acompat import Connection, Engine
from mqpg._async.closing import AsyncClosing
from mqpg._async.stores.create_tables import create_tables
from mqpg._async.stores.database import ConstraintViolated, UserDatabase
from mqpg._async.stores.durability import DURABLE_COMMIT, XID, flush_with_commit, wait_until_flushed
from mqpg._async.stores.ledger_identity import LedgerIdentity
from mqpg._async.stores.ledger_messages import LedgerMessages
from mqpg._async.stores.statements import StoreStatement, bare_connection
from mqpg.user_tables.dialects import chunks
from mqpg.user_tables.drivers import is_denied, is_locked, is_operational, is_read_only
from mqpg.user_tables.tables import IDENTITY, clock, ledger
from mqpg.values.arguments import exactly_before
from mqpg.values.choices import LedgerEntry
from mqpg.values.errors import ConnectionFailed, DatabaseError, Fenced, LedgerError
from mqpg.values.messages import Json, Verdict

__all__ = ["AsyncLedger", "Finding", "OpenRow", "is_transient"]

logger = logging.getLogger("mqpg")

_INSERT = insert(ledger).values(
    handle=bindparam("new_handle"), entry=bindparam("new_entry"), topic=bindparam("new_topic"), created_at=clock()
)
# The half message becomes visible right after the local commit, so that commit must be on disk
# before. The setting is never null, and in a value it costs less than in a row that is returned.
_INSERT_DURABLE = StoreStatement(_INSERT.values(created_at=case((DURABLE_COMMIT.is_not(None), clock()))).returning(XID))
_ROWS = select(ledger.c.handle, ledger.c.entry, ledger.c.payload, ledger.c.created_at)
_ENTRY = select(ledger.c.entry).where(ledger.c.handle == bindparam("one"))
# By many handles. In PostgreSQL they are one parameter, so that one prepared statement serves any number of them.
_CHOSEN = ledger.c.handle.in_(bindparam("chosen", expanding=True))
_CHOSEN_IN_ARRAY = ledger.c.handle == any_(bindparam("chosen", type_=ARRAY(Text)))
_SURVIVING = select(ledger.c.handle, ledger.c.payload).where(ledger.c.entry == "local")
_SURVIVING_BY_LIST, _SURVIVING_BY_ARRAY = _SURVIVING.where(_CHOSEN), _SURVIVING.where(_CHOSEN_IN_ARRAY)
_DONE = update(ledger).where(ledger.c.done_at.is_(None)).values(done_at=clock())
_DONE_BY_LIST, _DONE_BY_ARRAY = _DONE.where(_CHOSEN), _DONE.where(_CHOSEN_IN_ARRAY)


@dataclass(frozen=True, slots=True)
class OpenRow:
    """A ledger row that is not marked done, so the broker may not have its decision yet."""

    handle: str
    entry: LedgerEntry  # "local" for a local transaction, "fence" for a check-back's ruling that it rolls back
    payload: Json | None  # the final payload that the commit must carry; None keeps the prepared one
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check-back found in the ledger. `reason` says why the verdict is WAIT.

    `lost`: the table may lack rows, so that it never gives another verdict.
    """

    verdict: Verdict
    reason: str | None = None
    lost: bool = False


class AsyncLedger(AsyncClosing):
    """Table `mqpg_ledger` in any database that SQLAlchemy reaches.

    Every method raises LedgerError if the table is missing or not as it must be.

    Args:
        database: A SQLAlchemy URL, or an engine, which stays the caller's.
        schema: The schema of the table (MySQL: the database). None: where the connection looks for it.
        create_tables: False lets `create` raise LedgerError where the table is missing, instead of
            creating it.

    Raises:
        ConfigurationError: The URL cannot be used.
        InvalidArgument: `schema` is no name.
    """

    def __init__(self, database: str | URL | Engine, *, schema: str | None = None, create_tables: bool = True) -> None:
        self.database = UserDatabase(database, schema, create_tables)
        self.messages = LedgerMessages(self.database)
        self.identities = LedgerIdentity(self.database)

    async def create(self, *, keep_messages: bool = False, identify: bool = False) -> None:
        """Create the table if it is missing.

        Args:
            keep_messages: Create table mqpg_ledger_message too, for producers with `keep_messages`.
            identify: Write an identity into it, as a producer does that uses it.

        Raises:
            ConnectionFailed: The database does not answer.
            DatabaseError: The table cannot be created.
            LedgerError: With ``create_tables=False``: it is missing or not as it must be.
        """
        new_table = not await self.database.has(ledger)
        await create_tables(self.database, ledger)
        if keep_messages:
            await self.messages.create()
        if identify:
            await self.identities.add(new_table=new_table)

    async def close(self) -> None:
        """Close the connections, unless the engine is the caller's."""
        await self.database.close()

    async def verify(self) -> None:
        """Verify once that the table is as it must be.

        Raises:
            LedgerError: It is missing or not as it must be.
        """
        await self.database.verify_table(ledger)

    async def identity(self) -> str:
        """Return the identity that `prepare` stores with half messages whose rows are in this table.

        The first call in a process writes it into the table.

        Returns:
            Eight hexadecimal digits, for the argument `ledger` of `prepare`.

        Raises:
            LedgerError: The table is missing or not as it must be, or a right is missing.
            ConnectionFailed: The database does not answer.
        """
        await self.verify()
        return await self.identities.get()

    async def known_identities(self) -> list[str]:
        """Read the identities that the table has.

        Returns:
            The identities, newest first; empty for a table of an earlier release.
        """
        async with self.database.connect() as conn:
            return list((await self.identities.read(conn))[0])

    async def refresh(self) -> None:
        """Look whether the table still has the identity of this process, and give it one if not."""
        if not await self.identities.refresh():
            logger.error(
                "ledger %s was made again, restored or emptied: half messages prepared before, of which it has no row,"
                " are parked",
                self.database.describe(),
            )

    async def begin(self, conn: Connection, handle: str, topic: str | None = None) -> str | None:
        """Write the handle as the first statement of a local transaction (protocol T2, step 2).

        Args:
            conn: The local transaction.
            handle: The handle that `prepare` returned.
            topic: The topic of the half message, for reconciliation and audit. None: it is not known.

        Returns:
            In PostgreSQL the id of the transaction, as text, else None.

        Raises:
            Fenced: A check-back has already ruled that this transaction rolls back, and it must.
            LedgerError: A trigger of the table left the row out.
        """
        values = {"new_handle": handle, "new_entry": "local", "new_topic": topic}
        try:
            if self.database.dialect == "postgresql":
                xid = await _INSERT_DURABLE.scalar(await bare_connection(conn), values, self.database.schema)
                if xid is None:
                    raise LedgerError(f"a trigger of mqpg_ledger in {self.database.describe()} left out its row")
                return str(xid)
            await self.database.execute(conn, _INSERT, values)
        except (IntegrityError, UniqueViolation) as error:
            raise Fenced(
                f"a check-back has already ruled that this transaction rolls back (handle {handle})"
            ) from error
        return None

    async def surviving_rows(self, conn: Connection, handles: Sequence[str]) -> dict[str, Json | None]:
        """Find the handles whose rows the transaction on `conn` still has.

        Args:
            conn: The local transaction.
            handles: The handles that it wrote. A savepoint that was rolled back took its rows away.

        Returns:
            The final payload, or None, of each handle that has a row.
        """
        found: dict[str, Json | None] = {}
        query = _SURVIVING_BY_ARRAY if self.database.dialect == "postgresql" else _SURVIVING_BY_LIST
        for some in chunks(handles):
            for handle, payload in await self.database.execute(conn, query, {"chosen": some}):
                found[handle] = None if payload is None else Json(payload)
        return found

    async def set_payload(self, conn: Connection, handle: str, payload: str) -> None:
        """Keep the final payload with the row, for whichever process commits the half message.

        Args:
            conn: The local transaction.
            handle: The half message's handle.
            payload: The final payload as JSON text.
        """
        await self.database.execute(conn, update(ledger).where(ledger.c.handle == handle).values(payload=payload))

    async def verdict(self, handle: str, lock_timeout: float = 1.0, *, identity: str | None = None) -> Verdict:
        """Rule what became of a local transaction (protocol T3). A fence makes a ROLLBACK final.

        Args:
            handle: The half message's handle.
            lock_timeout: How many seconds to wait for the end of an open local transaction.
            identity: That of the ledger which the half message was prepared for. `due_checks` hands it
                out in the header `mqpg-ledger`. If this table does not have it, only a row that is
                there counts. None: the half message carries none.

        Returns:
            COMMIT if the transaction has committed, and that is on disk. ROLLBACK if it has
            not committed and no longer can. WAIT if it is still open or the database does not
            answer in time: ask again.

        Raises:
            LedgerError: The table is missing or not as it must be, or a right is missing.
        """
        return (await self._look_up(handle, lock_timeout, identity)).verdict

    async def _look_up(
        self, handle: str, lock_timeout: float = 1.0, identity: str | None = None, born_at: datetime | None = None
    ) -> Finding:
        """Rule as `verdict` does, and say why it is WAIT. Raises as it does.

        `born_at`: when it was prepared. A younger table, or one without its identity, rules on no missing row.
        """
        try:
            await self.verify()
            fenced = await self._fence(handle, lock_timeout, identity, born_at)
            # A new statement: the one that met the row waited for it, so it cannot have seen it.
            return fenced or await self._read_entry(handle, lock_timeout, identity, born_at)
        except (ConnectionFailed, DatabaseError) as error:
            cause = error.__cause__ or error
            transient = isinstance(error, ConnectionFailed) or is_transient(cause)
            if not transient or is_denied(cause):
                raise LedgerError(f"ledger: {error}") from error
            logger.info("ledger: no verdict on %s yet: %s", handle, error)
            reason = f"the local transaction is open: {error}" if is_locked(cause) else str(error)
            return Finding(Verdict.WAIT, reason)

    async def final_payload(self, handle: str) -> Json | None:
        """Read the payload that the commit of a half message must carry.

        Args:
            handle: The half message's handle.

        Returns:
            The final payload, or None if the prepared one is kept.
        """
        query = select(ledger.c.payload).where(ledger.c.handle == handle)
        async with self.database.connect() as conn:
            found = (await self.database.execute(conn, query)).scalar()
        return None if found is None else Json(found)

    async def _foreign_broker(self, broker_id: str, lock_timeout: float = 1.0) -> str | None:
        """Another broker's id if the table has handles of that one and none of `broker_id`: its URL is probably wrong.

        Raises the driver's error if the table stays locked for `lock_timeout` seconds.
        """
        async with self.database.short_transaction(lock_timeout) as conn:
            mine = select(ledger.c.handle).where(ledger.c.handle.startswith(f"{broker_id}.", autoescape=True)).limit(1)
            if (await self.database.execute(conn, mine)).first() is not None:
                return None
            others = select(ledger.c.handle).where(ledger.c.handle != IDENTITY).limit(1)
            found = (await self.database.execute(conn, others)).scalar()
        return None if found is None else str(found).partition(".")[0]

    async def mark_done(self, handles: Sequence[str]) -> None:
        """Note that the broker has the decisions over these handles (protocol T2, step 4).

        A note that is lost in a crash costs one repeated decision, so it is not flushed.

        Args:
            handles: The handles that were decided.
        """
        async with self.database.begin() as conn:
            statement = _DONE_BY_LIST
            if self.database.dialect == "postgresql":
                statement = _DONE_BY_ARRAY
                await conn.exec_driver_sql("set local synchronous_commit = off")
            # In order, so that two processes that mark the same rows cannot deadlock.
            for some in chunks(handles):
                await self.database.execute(conn, statement, {"chosen": some})

    async def _reopen(self, handle: str) -> None:
        """Note that the broker has lost this decision: recovery tries again, and `purge` keeps the row."""
        async with self.database.begin() as conn:
            mine = (ledger.c.handle == handle, ledger.c.entry == "local")
            await self.database.execute(conn, update(ledger).where(*mine).values(done_at=None))

    async def _open_rows(
        self,
        limit: int = 1000,
        older_than: timedelta = timedelta(0),
        *,
        broker_id: str | None = None,
        after: OpenRow | None = None,
    ) -> list[OpenRow]:
        """Rows that are not marked done, oldest first, of one broker or of any, from behind `after` on."""
        mine = (ledger.c.done_at.is_(None), ledger.c.handle != IDENTITY)
        # That of the index. Only PostgreSQL wants to have its first column named, which is null here.
        order = [ledger.c.done_at] if self.database.dialect == "postgresql" else []
        query = _ROWS.where(*mine).order_by(*order, ledger.c.created_at, ledger.c.handle).limit(limit)
        if broker_id is not None:
            query = query.where(ledger.c.handle.startswith(f"{broker_id}.", autoescape=True))
        if after is not None:
            created, same = ledger.c.created_at > after.created_at, ledger.c.created_at == after.created_at
            query = query.where(or_(created, same & (ledger.c.handle > after.handle)))
        async with self.database.connect() as conn:
            await self.database.verify(conn, ledger)
            if older_than:
                query = query.where(ledger.c.created_at <= exactly_before(await _now(conn), older_than))
            rows = (await self.database.execute(conn, query)).all()
        return [_open_row(*row) for row in rows]

    async def _rows_of_others(self, brokers: Collection[str], older_than: timedelta) -> dict[str, int]:
        """How many open rows of local transactions each broker has that is none of these."""
        named = func.substr(ledger.c.handle, 1, 12).label("named")  # an id has twelve characters
        mine = (ledger.c.done_at.is_(None), ledger.c.entry == "local", named.not_in(brokers))
        async with self.database.connect() as conn:
            query = select(named, func.count()).where(*mine).group_by(named)
            query = query.where(ledger.c.created_at <= exactly_before(await _now(conn), older_than))
            return {row[0]: row[1] for row in await self.database.execute(conn, query)}

    async def _topics(self, handles: Sequence[str]) -> dict[str, str | None]:
        """The topic of each handle that has a row; None if the row names none."""
        found: dict[str, str | None] = {}
        async with self.database.connect() as conn:
            for some in chunks(handles):
                query = select(ledger.c.handle, ledger.c.topic).where(ledger.c.handle.in_(some))
                found |= {row[0]: row[1] for row in await self.database.execute(conn, query)}
        return found

    async def _committed_before(self, broker_id: str, incarnation: int, after: str) -> list[OpenRow]:
        """The next 1000 committed rows, done or not, whose handles the broker issued in other incarnations."""
        query = _ROWS.where(
            ledger.c.entry == "local",
            ledger.c.handle.startswith(f"{broker_id}.", autoescape=True),
            ~ledger.c.handle.startswith(f"{broker_id}.{incarnation}.", autoescape=True),
            ledger.c.handle > after,
        )
        async with self.database.connect() as conn:
            await self.database.verify(conn, ledger)
            rows = (await self.database.execute(conn, query.order_by(ledger.c.handle).limit(1000))).all()
        return [_open_row(*row) for row in rows]

    async def purge(self, older_than: timedelta = timedelta(days=1)) -> int:
        """Delete rows that were marked done, and the messages that are kept with them.

        Args:
            older_than: How long ago they must have been marked; a day by default.

        Returns:
            How many rows were deleted.
        """
        keeps_messages = await self.messages.exists()
        async with self.database.begin() as conn:
            old = ledger.c.done_at <= exactly_before(await _now(conn), older_than)
            if keeps_messages:
                await self.messages.purge(conn, old)
            return int((await self.database.execute(conn, delete(ledger).where(old))).rowcount)

    async def _flush(self, handle: str) -> None:
        """Flush everything that is committed in this database, by rewriting the row of `handle`.

        Some databases show a commit to others before it is on disk; docs/testing/proof.md shows what could happen
        otherwise. Raises LedgerError if it takes too long.
        """
        async with self.database.short_transaction(5.0) as conn:
            await flush_with_commit(self.database, conn, handle)
            await conn.commit()
            if not await wait_until_flushed(conn):
                raise LedgerError(f"ledger {self.database.describe()}: its commits are not on disk yet")

    async def _fence(
        self, handle: str, lock_timeout: float, identity: str | None, born_at: datetime | None
    ) -> Finding | None:
        """Insert the fence, unless the table may lack the row of the local transaction.

        None if a row is there already. Waits for the end of an open local transaction.
        """
        values = {"new_handle": handle, "new_entry": "fence", "new_topic": None}
        try:
            async with self.database.short_transaction(lock_timeout) as conn:
                if self.database.dialect == "postgresql":
                    written = await _INSERT_DURABLE.scalar(conn, values, self.database.schema) is not None
                else:
                    written = (await self.database.execute(conn, _INSERT, values)).rowcount != 0
                if not written:  # a trigger left it out, perhaps because there is a row already
                    return None
                if doubt := await self.identities.doubt(conn, identity, born_at):
                    await conn.rollback()
                    return Finding(Verdict.WAIT, doubt, lost=True)
                await conn.commit()
                if await wait_until_flushed(conn):
                    return Finding(Verdict.ROLLBACK)
        except ConstraintViolated:
            return None
        return Finding(Verdict.WAIT, "its fence is not on disk yet")

    async def _read_entry(
        self, handle: str, lock_timeout: float, identity: str | None, born_at: datetime | None
    ) -> Finding:
        """Rule by the row that is there.

        A fence may be another checker's, or one of ours from before a crash, so it may not be on
        disk either. A local row is a proof in any table.
        """
        async with self.database.short_transaction(lock_timeout) as conn:
            entry = (await self.database.execute(conn, _ENTRY, {"one": handle})).scalar()
            if entry is None:
                return Finding(Verdict.WAIT, "the ledger row is gone or hidden, or a trigger leaves the fence out")
            if entry == "fence" and (doubt := await self.identities.doubt(conn, identity, born_at)):
                await conn.rollback()
                return Finding(Verdict.WAIT, doubt, lost=True)
            await flush_with_commit(self.database, conn, handle)
            await conn.commit()
            if await wait_until_flushed(conn):
                return Finding(Verdict.COMMIT if entry == "local" else Verdict.ROLLBACK)
        return Finding(Verdict.WAIT, f"its {'commit' if entry == 'local' else 'fence'} is not on disk yet")


def _open_row(handle: str, entry: LedgerEntry, payload: str | None, created_at: datetime) -> OpenRow:
    return OpenRow(handle, entry, None if payload is None else Json(payload), created_at)


async def _now(conn: Connection) -> Any:
    return (await conn.execute(select(clock()))).scalar_one()


def is_transient(error: BaseException) -> bool:
    """Whether an error concerns a connection or a lock only, and therefore ends by itself."""
    return isinstance(error, (ConnectionFailed, OperationalError)) or (
        isinstance(error, DBAPIError) and (error.connection_invalidated or is_read_only(error) or is_operational(error))
    )
