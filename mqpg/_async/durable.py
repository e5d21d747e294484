"""Making sure that what a checker saw committed is on disk, before its verdict counts (protocol T3)."""

from __future__ import annotations

import time
from uuid import uuid4

from sqlalchemy import bindparam, delete, insert, text, update

from mqpg._async._io import Connection, sleep
from mqpg._dialects import MYSQL
from mqpg._tables import clock, ledger
from mqpg.errors import LedgerError

__all__ = ["flushed", "write_something"]

# Rewriting the row as it is makes this a transaction that PostgreSQL must flush, and all before it.
_REWRITE = update(ledger).where(ledger.c.handle == bindparam("one")).values(entry=ledger.c.entry)
# SQLite and InnoDB see that such a row stays the same, write nothing and flush nothing: it takes a real change.
_MARK = insert(ledger).values(handle=bindparam("mark"), entry="fence", created_at=clock())
_UNMARK = delete(ledger).where(ledger.c.handle == bindparam("mark"))

_SETTINGS = text("select @@global.innodb_flush_log_at_trx_commit, @@global.innodb_flush_log_at_timeout")
_AT_COMMIT = (1, 3)
_PATIENCE = 5  # seconds; longer than that nobody waits for a flush
_LOG = text(
    "show global status where variable_name in ('Innodb_lsn_current', 'Innodb_lsn_flushed',"
    " 'Innodb_redo_log_current_lsn', 'Innodb_redo_log_flushed_to_disk_lsn')"
)


async def write_something(conn: Connection, handle: str) -> None:
    """Make the open transaction one whose commit is flushed, and with it everything committed before."""
    if conn.dialect.name == "postgresql":
        await conn.execute(_REWRITE, {"one": handle})
        return
    mark = f"flush.{uuid4().hex}"
    await conn.execute(_MARK, {"mark": mark})
    await conn.execute(_UNMARK, {"mark": mark})


async def flushed(conn: Connection) -> bool:
    """Wait until the log is on disk as far as it goes now; False when it takes too long.

    Only MySQL and MariaDB have a setting (innodb_flush_log_at_trx_commit, not of a session) that lets no
    transaction flush; then the server flushes now and then, and tells how far it has come. Raises LedgerError
    where it does so too seldom, or does not tell.
    """
    if conn.dialect.name not in MYSQL:
        return True
    at_commit, every = (await conn.execute(_SETTINGS)).one()
    if int(at_commit) in _AT_COMMIT:
        return True
    wanted, done = await _log(conn)
    if wanted is None or int(every) > _PATIENCE:
        raise LedgerError(
            f"commits are not flushed (innodb_flush_log_at_trx_commit = {at_commit}): set it to 1, "
            f"or innodb_flush_log_at_timeout to at most {_PATIENCE} (is {every}) on a server that tells how far it is"
        )
    give_up = time.monotonic() + _PATIENCE + 1
    while done is None or done < wanted:
        if time.monotonic() > give_up:
            return False
        await sleep(0.02)
        done = (await _log(conn))[1]
    return True


async def _log(conn: Connection) -> tuple[int | None, int | None]:
    """How far the redo log goes, and how far it is on disk; None where the server does not tell (before 8.0.30)."""
    found = {name: int(value) for name, value in await conn.execute(_LOG)}
    return (
        found.get("Innodb_lsn_current", found.get("Innodb_redo_log_current_lsn")),
        found.get("Innodb_lsn_flushed", found.get("Innodb_redo_log_flushed_to_disk_lsn")),
    )
