# Generated from mqpg/_async/stores/durability.py by tools/async_to_sync.py: change that file.
"""The end of a local transaction: that it is still the same one, and on disk before its message is sent.

A block may end the transaction that it was given, and begin another one, by SQL that neither SQLAlchemy nor the driver
notices. In PostgreSQL the transaction's id tells.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from uuid import uuid4

from psycopg.errors import DivisionByZero
from psycopg.rows import tuple_row
from sqlalchemy import Text, bindparam, cast, delete, func, insert, select, text, update

from mqpg._sync._acompat import Connection, PgConnection, Returns, sleep
from mqpg._sync.stores.database import UserDatabase
from mqpg.user_tables.dialects import MYSQL
from mqpg.user_tables.drivers import has_failed
from mqpg.user_tables.tables import clock, ledger
from mqpg.values.errors import LedgerError, WrongState

__all__ = ["DURABLE_COMMIT", "XID", "checked_commit", "flush_with_commit", "is_still", "wait_until_flushed"]

# Makes the commit of this PostgreSQL transaction wait for the disk if the session would not.
DURABLE_COMMIT = func.set_config(
    text("'synchronous_commit'"),
    text(
        "case when current_setting('synchronous_commit') in ('off', 'local') then 'on' "
        "else current_setting('synchronous_commit') end"
    ),
    text("true"),
)
XID = cast(func.pg_current_xact_id(), Text)
_STILL = select(DURABLE_COMMIT, cast(func.pg_current_xact_id_if_assigned(), Text))
# One round trip. An error before the COMMIT leaves the transaction as it was at the savepoint.
_CHECKED = """
savepoint mqpg_commit;
select 1 / (pg_catalog.pg_current_xact_id() = '{}'
    and pg_catalog.current_setting('synchronous_commit') not in ('off', 'local'))::int;
COMMIT
"""

# Rewriting a row without a change makes this a transaction that PostgreSQL must flush, and all
# commits before it.
_REWRITE = update(ledger).where(ledger.c.handle == bindparam("one")).values(entry=ledger.c.entry)
# SQLite and InnoDB notice that such a row stays the same, write nothing and flush nothing. They
# need a real change.
_MARK = insert(ledger).values(handle=bindparam("mark"), entry="fence", created_at=clock())
_UNMARK = delete(ledger).where(ledger.c.handle == bindparam("mark"))

_SETTINGS = text("select @@global.innodb_flush_log_at_trx_commit, @@global.innodb_flush_log_at_timeout")
_AT_COMMIT = (1, 3)
_PATIENCE = 5  # seconds to wait for a flush, at most
_LOG = text(
    "show global status where variable_name in ('Innodb_lsn_current', 'Innodb_lsn_flushed',"
    " 'Innodb_redo_log_current_lsn', 'Innodb_redo_log_flushed_to_disk_lsn')"
)


def is_still(conn: Connection, xid: str) -> bool:
    """Make the commit of this PostgreSQL transaction wait for the disk, and say whether it is still that one."""
    _, found = (conn.execute(_STILL)).one()
    return bool(found == xid)


@contextmanager
def checked_commit(driver: PgConnection, xid: str, look: Callable[[], Returns[None]]) -> Generator[None]:
    """Let the COMMIT of psycopg's connection ask for both while the body runs, in its own round trip.

    Otherwise `look` comes first, and raises if this must not be committed. Raises WrongState if no COMMIT was sent.
    """
    sent = False

    def commit() -> None:
        nonlocal sent
        sent = True
        with driver.cursor(row_factory=tuple_row) as cursor:
            try:
                cursor.execute(_CHECKED.format(xid).encode(), prepare=False)
            except DivisionByZero:
                if not has_failed(driver):  # the COMMIT itself met the error, in a deferred trigger
                    raise
                cursor.execute("rollback to savepoint mqpg_commit")
                try:
                    look()
                except BaseException:
                    driver.rollback()
                    raise
                cursor.execute("COMMIT")

    driver.commit = commit  # type: ignore[method-assign]
    try:
        yield
    finally:
        del driver.commit
    if not sent:
        raise WrongState("the local commit did not reach the database: its session takes part in another transaction")


def flush_with_commit(database: UserDatabase, conn: Connection, handle: str) -> None:
    """Write in the open transaction, so that its commit flushes all earlier commits."""
    if conn.dialect.name == "postgresql":
        database.execute(conn, _REWRITE, {"one": handle})
        return
    mark = f"flush.{uuid4().hex}"
    database.execute(conn, _MARK, {"mark": mark})
    database.execute(conn, _UNMARK, {"mark": mark})


def wait_until_flushed(conn: Connection) -> bool:
    """Wait until the log is on disk as far as it goes now. Returns False if that takes too long.

    Only MySQL and MariaDB have a global setting, innodb_flush_log_at_trx_commit, with which no
    transaction flushes. The server then flushes at intervals and reports how far it has come.
    Raises LedgerError if the intervals are too long, or if the server does not report it.
    """
    if conn.dialect.name not in MYSQL:
        return True
    at_commit, every = (conn.execute(_SETTINGS)).one()
    if int(at_commit) in _AT_COMMIT:
        return True
    wanted, done = _log(conn)
    if wanted is None or int(every) > _PATIENCE:
        raise LedgerError(
            f"commits are not flushed (innodb_flush_log_at_trx_commit = {at_commit}): set it to 1, "
            f"or innodb_flush_log_at_timeout to at most {_PATIENCE} (it is {every}) "
            "on a server that reports how far it has flushed"
        )
    deadline = time.monotonic() + _PATIENCE + 1
    while done is None or done < wanted:
        if time.monotonic() > deadline:
            return False
        sleep(0.02)
        done = (_log(conn))[1]
    return True


def _log(conn: Connection) -> tuple[int | None, int | None]:
    """The end of the redo log and the part that is on disk.

    None if the server does not report it (before 8.0.30).
    """
    found = {name: int(value) for name, value in conn.execute(_LOG)}
    return (
        found.get("Innodb_lsn_current", found.get("Innodb_redo_log_current_lsn")),
        found.get("Innodb_lsn_flushed", found.get("Innodb_redo_log_flushed_to_disk_lsn")),
    )
