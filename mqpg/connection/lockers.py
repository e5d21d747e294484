"""Who has locked a table of the broker, for those who read it and would wait as long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg

from mqpg.values import errors
from mqpg.values.translation import translate

__all__ = ["reading"]

Transaction = Callable[[], AbstractContextManager[psycopg.Connection[Any]]]

# Sessions that have locked a table, as vacuum full does, or that wait for that and let all others wait behind them.
_LOCKERS = """
select string_agg(format('pid %s (%s) %s the table mqpg.%s', a.pid, coalesce(nullif(a.application_name, ''), 'no name'),
        case
            when k.granted then 'has locked'
            else format('waits for pid %s and then locks', array_to_string(pg_blocking_pids(a.pid), ', '))
        end, c.relname), ', ' order by k.granted desc, a.pid) as said
from pg_locks as k
join pg_class as c on c.oid = k.relation
join pg_stat_activity as a on a.pid = k.pid
where k.locktype = 'relation' and k.mode = 'AccessExclusiveLock' and c.relnamespace = 'mqpg'::regnamespace
    and c.relkind in ('r', 'p') and a.datname = current_database()
"""
_PATIENCE = 5  # seconds that a reader waits for a lock


@contextmanager
def reading(transaction: Transaction, settings: str = "") -> Iterator[psycopg.Connection[Any]]:
    """Open a client's transaction that does not wait long for a lock, and begin it with further `settings`.

    Errors of the block are translated. LockTimeout says who has the lock.
    """
    try:
        with transaction() as conn:
            conn.execute(f"set local lock_timeout = '{_PATIENCE}s'; {settings}", prepare=False)
            yield conn
    except (psycopg.Error, errors.LockTimeout) as error:
        raise _with_lockers(transaction, translate(error)) from error.__cause__ or error


def _with_lockers(transaction: Transaction, error: errors.Error) -> errors.Error:
    if not isinstance(error, errors.LockTimeout):
        return error
    with transaction() as conn:
        row = conn.execute(_LOCKERS.encode()).fetchone()
    return errors.LockTimeout(f"waited {_PATIENCE} s for a lock: {row[0]}") if row and row[0] else error
