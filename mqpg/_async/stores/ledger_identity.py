"""The identity of a ledger table: a row of it that shows whether a half message was prepared for it.

The row is in the table itself, so what takes the table's rows away takes it away, too: DROP, TRUNCATE,
DELETE, a new table under the old name. It lists the identities that processes gave the table, newest
first, each with its time. Each process adds one when it begins to use the ledger, and then each hour, and
`prepare` stores it with each half message. A ledger that was restored from an older copy, or is
another node's, lacks the identity of the half message, and gives no verdict on what it has no row of.

The row also says where it was written: in PostgreSQL by which transaction of which database, in SQLite
in which file. In a copy that differs, and the identities in it count for nothing.
"""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any

from sqlalchemy import Select, Text, cast, insert, literal_column, select, text, update

from mqpg._async._acompat import Connection
from mqpg._async.stores.database import ConstraintViolated, UserDatabase, begin_immediate
from mqpg.user_tables.tables import IDENTITY, clock, ledger

__all__ = ["LedgerIdentity"]

_AGE = 3600.0  # seconds after which a process gives the table another identity
_MOST = 1000  # identities in the row; the oldest ones go
_LATE = timedelta(seconds=2 * _AGE)  # from an identity's time to the last half message that is prepared with it
# When an earlier release made the table, so that nobody knows its age.
_UNKNOWN = datetime(1970, 1, 1, tzinfo=UTC)
_MINE = ledger.c.handle == IDENTITY
_ROW = select(ledger.c.payload, ledger.c.created_at).where(_MINE)
_DATABASE = "(select d.oid from pg_catalog.pg_database d where d.datname = current_database())"
# Where the row of the table was written, and where one would be written now. A row that a restore
# wrote again has another xmin.
_XMIN = select(cast(literal_column("xmin"), Text)).select_from(ledger).where(_MINE).scalar_subquery()
_WRITTEN = select(_XMIN.concat(text(f"'.' || {_DATABASE}")))
_WRITES = select(text(f"txid_current() % 4294967296 || '.' || {_DATABASE}"))
# Processes of an earlier release list identities without times, and find theirs among others' times.
_IDENTITY = re.compile(r"([^\s@]+)(?: @(\d+))?")
_FILE = text("select file from pragma_database_list where name = :schema")


class LedgerIdentity:
    """The identity row of one ledger table, and the identity that this process gave it."""

    def __init__(self, database: UserDatabase) -> None:
        self._database = database
        self._current: str | None = None
        self._opened = 0.0

    async def get(self) -> str:
        """The identity for `prepare`. The first call adds it, and one each hour renews it."""
        if self._current is None:
            return await self.add()
        if time.monotonic() - self._opened > _AGE:
            # Calls at the same time go on with the old one, and one tries again if this fails.
            self._opened = time.monotonic() - _AGE + 60.0
            return await self.add()
        return self._current

    async def refresh(self) -> bool:
        """Whether the table still has the identity of this process. If not, or if it is old, add one."""
        if self._current is None:
            return True
        async with self._database.connect() as conn:
            kept = self._current in (await self.read(conn))[0]
        await (self.get() if kept else self.add())
        return kept

    async def add(self, *, new_table: bool = False) -> str:
        """Give the table one more identity, and return it. `new_table`: its age is known."""
        while True:
            try:
                async with self._database.begin() as conn:
                    if self._database.dialect == "sqlite":
                        await begin_immediate(conn)
                    self._current = await self._write(conn, new_table)
                self._opened = time.monotonic()
                return self._current
            except ConstraintViolated:
                continue  # another process has inserted the row

    async def read(self, conn: Connection, *, lock: bool = False) -> tuple[dict[str, str], datetime | None]:
        """The identities in the row with their times, and when the table was made. Empty, None: there is no row.

        Empty with a time: it is not the row that was written, but a copy of it.
        """
        row: Any = (await self._database.execute(conn, _ROW.with_for_update() if lock else _ROW)).first()
        if row is None:
            return {}, None
        written, _, listed = row[0].partition(" ")
        if written != await self._where(conn, _WRITTEN):
            listed = ""
        return dict(_IDENTITY.findall(listed)), _aware(row[1])

    async def _where(self, conn: Connection, postgresql: Select[Any]) -> str:
        """Where the row was written, or with _WRITES where it is written now."""
        if self._database.dialect == "postgresql":
            return str((await self._database.execute(conn, postgresql)).scalar())
        if self._database.dialect == "sqlite":
            file = (await conn.execute(_FILE, {"schema": self._database.schema or "main"})).scalar()
            return str(os.stat(file).st_ino) if file else "-"
        return "-"

    async def doubt(self, conn: Connection, identity: str | None, born_at: datetime | None) -> str | None:
        """Why the table may lack the row of a half message with this identity. None: it cannot."""
        identities, made = await self.read(conn)
        if identity is None:
            younger = born_at is not None and made is not None and made > born_at
            return "the ledger was made after the half message" if younger else None
        if identity in identities:
            return None
        if len(identities) >= _MOST:
            oldest = list(identities.values())[-1]
            # If it is from before the oldest one, it may have been one that went.
            if not oldest or born_at is None or born_at - _LATE < datetime.fromtimestamp(int(oldest), UTC):
                return None
        what = "has lost its rows" if made is None else "was made again, or restored from a copy"
        return f"the ledger {what} since the half message was prepared: its identity is not {identity} any more"

    async def _write(self, conn: Connection, new_table: bool) -> str:
        identities, made = await self.read(conn, lock=True)
        identity = token_hex(4)
        now = _aware((await conn.execute(select(clock()))).scalar_one())
        listed = list(({identity: str(int(now.timestamp()))} | identities).items())[:_MOST]
        words = [f"{one} @{at}" if at else one for one, at in listed]
        payload = " ".join([await self._where(conn, _WRITES), *words])
        if made is None:
            values = {"handle": IDENTITY, "entry": "fence", "payload": payload}
            row = insert(ledger).values(**values, created_at=clock() if new_table else _UNKNOWN)
            await self._database.execute(conn, row)
        else:
            await self._database.execute(conn, update(ledger).where(_MINE).values(payload=payload))
        return identity


def _aware(at: datetime) -> datetime:
    """A time of the database, which is in UTC if it does not say."""
    return at if at.tzinfo else at.replace(tzinfo=UTC)
