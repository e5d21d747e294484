"""What differs between the drivers of users' databases: it reads their errors and states.

It does without SQLAlchemy, which takes 20 MB, because a consumer may need none.
"""

from __future__ import annotations

from typing import Any

import psycopg

from mqpg.values.errors import Error
from mqpg.values.translation import attribute_of

__all__ = [
    "block_depth",
    "commits_each_statement",
    "has_failed",
    "in_transaction",
    "is_answer",
    "is_autocommit",
    "is_busy",
    "is_denied",
    "is_full",
    "is_locked",
    "is_of_another",
    "is_operational",
    "is_out_of_reach",
    "is_read_only",
    "is_savepoint_gone",
    "is_unstorable",
    "knows_failures",
    "message_of",
    "was_deadlock",
    "will_autocommit",
]

# PostgreSQL: insufficient privilege, undefined table, invalid schema name, read-only transaction.
# MySQL: no right to the table, no such table, transaction is read only.
_OUT_OF_REACH, _OUT_OF_REACH_STATES = (1142, 1146, 1792), ("42501", "42P01", "3F000", "25006")
# MySQL: no right to the database, table, column, or statement.
_DENIED = (1044, 1045, 1142, 1143, 1227, 1370)
# MySQL: started with read_only, transaction is read only, server is in read only mode.
# PostgreSQL: 25006.
_READ_ONLY = (1290, 1792, 1836)
# MySQL: lock wait timeout, deadlock, lock not available. PostgreSQL: lock not available, deadlock.
_LOCKED, _LOCKED_STATES = (1205, 1213, 3572), ("55P03", "40P01")
# MySQL: incorrect string value, data too long. PostgreSQL: class 22, such as a character that its encoding has not.
_UNSTORABLE = (1366, 1406)
# PostgreSQL: the connection, a conflict, a lock, a time limit, resources. psycopg raises OperationalError for them.
_OPERATIONAL_STATES = ("08", "28", "3D000", "40", "53", "55", "57", "58")
# PostgreSQL: disk_full, io_error. MySQL: disk full, table is full. (53200, out of memory, is not
# among them, because one huge message can cause it.)
_FULL, _FULL_STATES = (1021, 1114), ("53100", "58030")
# MySQL: the victim of a deadlock is rolled back as a whole.
_ROLLED_BACK = (1213,)
# MySQL: there is no such savepoint, or no such procedure. The name is one that SQLAlchemy gives.
_GONE, _SAVEPOINTS = 1305, ("SAVEPOINT sa_savepoint_", "no such savepoint: sa_savepoint_")


def is_answer(error: BaseException) -> bool:
    """Whether the server itself refused, so that nothing was done.

    Otherwise it may or may not have happened.
    """
    if attribute_of(error, "connection_invalidated") is not False:  # no DBAPIError, or the connection is lost
        return False
    sqlstate = _sqlstate(error)
    if sqlstate is not None:
        return not sqlstate.startswith(("08", "57P", "40003"))
    if _number(error) is not None:
        return _number(error) in _ROLLED_BACK
    # SQLite: after these errors the transaction is still open. An I/O error may have done anything.
    message = message_of(attribute_of(error, "orig"))
    return "database is locked" in message or "constraint failed" in message


def is_denied(error: BaseException) -> bool:
    """Whether a right is missing.

    MySQL's drivers report that as an operational error, like a lost connection.
    """
    return _number(error) in _DENIED


def is_out_of_reach(error: BaseException) -> bool:
    """Whether a table is not found or may not be written, as after `set role`, `set search_path` or MySQL's `use`."""
    origin = attribute_of(error, "orig") or error
    if attribute_of(origin, "sqlstate") in _OUT_OF_REACH_STATES or _number(error) in _OUT_OF_REACH:
        return True
    return "attempt to write a readonly database" in message_of(origin)  # SQLite, after `pragma query_only`


def is_busy(error: BaseException) -> bool:
    """Whether asyncpg's connection still works on another statement, which somebody has not waited for."""
    return "another operation is in progress" in message_of(error)


def is_locked(error: BaseException) -> bool:
    """Whether another transaction holds the lock, as a rule the local one that is asked about."""
    if _sqlstate(error) in _LOCKED_STATES or _number(error) in _LOCKED:
        return True
    return "database is locked" in message_of(attribute_of(error, "orig"))


def is_operational(error: BaseException) -> bool:
    """Whether a driver such as asyncpg, whose errors have no class for it, reports an operational error."""
    return (_sqlstate(error) or "").startswith(_OPERATIONAL_STATES)


def is_full(error: BaseException) -> bool:
    """Whether a disk is full or fails. Nothing was done, and it is no fault of what was written."""
    origin: object = attribute_of(error, "orig") or error
    if attribute_of(origin, "sqlstate") in _FULL_STATES or _number(error) in _FULL:
        return True
    if "no such savepoint" in message_of(origin) and error.__context__ is not None:
        # SQLite rolls the whole transaction back by itself, and the savepoint with it.
        return is_full(error.__context__)
    return "disk is full" in message_of(origin)


def is_unstorable(error: BaseException) -> bool:
    """Whether a database cannot hold a value, for example in an encoding that is not UTF8."""
    return (_sqlstate(error) or "").startswith("22") or _number(error) in _UNSTORABLE


def is_savepoint_gone(error: BaseException) -> bool:
    """Whether a database no longer has a savepoint of SQLAlchemy's, because its transaction has ended."""
    in_mysql, in_sqlite = _SAVEPOINTS
    said = message_of(attribute_of(error, "orig"))
    if _sqlstate(error) == "3B001":
        return "sa_savepoint_" in said
    return (_number(error) == _GONE and in_mysql in said) or in_sqlite in said


def was_deadlock(error: BaseException) -> bool:
    """Whether an error came after one with which MySQL rolls the whole transaction back."""
    seen: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is None or one in seen:
            continue
        seen.append(one)
        if _number(one) in _ROLLED_BACK or (type(one).__module__ != "builtins" and _code(one) in _ROLLED_BACK):
            return True
        left += [one.__context__, one.__cause__]
        if isinstance(one, BaseExceptionGroup):
            left += one.exceptions
    return False


def is_read_only(error: BaseException) -> bool:
    """Whether this is a standby. It gives no verdict until the URL leads to the primary again."""
    return _sqlstate(error) == "25006" or _number(error) in _READ_ONLY


def _sqlstate(error: BaseException) -> str | None:
    origin = attribute_of(error, "orig")
    found = attribute_of(origin, "sqlstate") or attribute_of(origin, "pgcode")
    return found if isinstance(found, str) else None


def _number(error: BaseException) -> int | None:
    """The error number of a MySQL driver."""
    return _code(attribute_of(error, "orig"))


def _code(error: object) -> int | None:
    args = attribute_of(error, "args")
    return args[0] if args and isinstance(args[0], int) else None


def is_of_another(error: BaseException, driver: Any) -> bool:
    """Whether an error in a handler is certainly not that of its own driver's connection.

    False for psycopg, whose connection knows whether a statement failed in it. SQLite's has the
    write lock as long as it is in its transaction, so it waits for no other one.
    """
    if knows_failures(driver) or in_transaction(driver) is False:
        return False
    foreign = isinstance(attribute_of(error, "orig") or error, (psycopg.Error, Error))
    return foreign or (in_transaction(driver) is True and "database is locked" in message_of(error))


def in_transaction(driver: Any) -> bool | None:
    """Whether a driver's connection is in a transaction that can still commit.

    None: the driver does not know. PostgreSQL answers the COMMIT of a failed transaction with a
    rollback and no error. MySQL's drivers do not notice that the server rolled back after a
    deadlock.
    """
    status = _status(driver)
    if status is not None:
        return status == 2
    if isinstance(getattr(driver, "server_status", None), int):
        return None
    inside = getattr(driver, "is_in_transaction", None)  # asyncpg, also if a statement has failed
    if callable(inside):
        return None if not driver.is_closed() and inside() else False
    state = getattr(driver, "in_transaction", None)  # sqlite3, aiosqlite
    return bool(state) if isinstance(state, bool) else None


def block_depth(driver: Any) -> int | None:
    """How many blocks of `transaction()` are open in psycopg. None: an open stream, COPY or pipeline uses it."""
    pgconn = getattr(driver, "pgconn", None)
    if pgconn is not None and (pgconn.transaction_status == 1 or pgconn.pipeline_status):
        return None
    return int(getattr(driver, "_num_transactions", 0))


def knows_failures(driver: Any) -> bool:
    """Whether a driver's connection knows that a statement failed in its transaction."""
    return _status(driver) is not None


def has_failed(driver: Any) -> bool:
    """Whether a driver's connection is in a transaction that can only be rolled back.

    Only PostgreSQL has such transactions.
    """
    return _status(driver) == 3


def _status(driver: Any) -> int | None:
    """The transaction status of libpq. None: the driver is none of PostgreSQL's, or does not know it."""
    pgconn = getattr(driver, "pgconn", None)  # psycopg 3, whose `info` is a new object each time
    found = getattr(getattr(driver, "info", None) if pgconn is None else pgconn, "transaction_status", None)
    return None if found is None else int(found)


def is_autocommit(driver: Any) -> bool:
    """Whether the engine is in autocommit mode: the last statement is committed already."""
    flags = getattr(driver, "server_status", None)
    if isinstance(flags, int):  # pymysql, aiomysql: the last answer's; 1 is "in a transaction"
        return not flags & 1
    return _says_autocommit(driver) or in_transaction(driver) is False


def will_autocommit(mode: object, driver: Any) -> bool:
    """Whether a driver's connection will commit its first statement. `mode`: SQLAlchemy's `autocommit` of it."""
    if isinstance(mode, bool):  # psycopg, and asyncpg, which itself does not know before that statement
        return mode and in_transaction(driver) is False
    return commits_each_statement(driver)


def commits_each_statement(driver: Any) -> bool:
    """Whether a driver's connection, after it has read something, would commit a write at once."""
    flags = getattr(driver, "server_status", None)
    if isinstance(flags, int):  # pymysql, aiomysql; a read does not set 1, and 2 is autocommit mode
        return flags & 3 == 2
    # By default Python's sqlite3 begins a transaction before it writes, and not before it reads.
    begins_later = isinstance(getattr(driver, "isolation_level", None), str)
    return _says_autocommit(driver) or (in_transaction(driver) is False and not begins_later)


def _says_autocommit(driver: Any) -> bool:
    """Whether a driver that shows neither flags nor a state says so when it is asked."""
    mode = getattr(driver, "get_autocommit", None)  # mysqlclient
    if callable(mode):
        return bool(mode())
    inside = getattr(driver, "is_in_transaction", None)  # asyncpg
    return callable(inside) and not inside()


def message_of(error: object) -> str:
    """The text of an error, also of one whose class fails to make it."""
    try:
        return str(error)
    except BaseException:
        return "<no text>"
