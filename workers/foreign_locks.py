"""Reports sessions that stop mqpg because they hold its advisory locks without working in it."""

from __future__ import annotations

import logging
import time
from typing import Any

import psycopg
from psycopg.rows import dict_row

from .session import Connection

__all__ = ["ForeignLocks"]

logger = logging.getLogger(__name__)

_FOREIGN = """
select f.pid, f.role, f.application, f.stops, f.remedy, f.lock_class, f.lock_key
from mqpg.foreign_locks f
where f.stops <> 'nothing'
order by f.pid, f.lock_class, f.lock_key
"""
_PAUSE = 0.1  # seconds; a call that has only begun may hold a lock before it reads a table
_SHOWN = 20  # locks in the heartbeat's detail


class ForeignLocks:
    """Reads the view foreign_locks, and logs what is new there.

    `detail` is what the worker reports. Its key `foreign_locks` is a list, absent while there are none.
    """

    def __init__(self, detail: dict[str, Any]) -> None:
        self._detail = detail
        self._known: set[tuple[Any, ...]] = set()

    def report(self, conn: Connection) -> set[tuple[int, int]]:
        """Read it once, and a second time if there is something.

        Returns the two keys of each lock that other sessions hold.
        """
        found = _foreign(conn)
        if found:
            time.sleep(_PAUSE)
            again = _foreign(conn)
            found = {key: row for key, row in found.items() if key in again}
        for key in found.keys() - self._known:
            row = found[key]
            logger.warning(
                "a stranger holds a lock of mqpg",
                extra={name: row[name] for name in ("pid", "role", "application", "stops", "remedy")},
            )
        self._known = set(found)
        self._detail.pop("foreign_locks", None)
        if found:
            names = ("pid", "role", "stops", "remedy")
            self._detail["foreign_locks"] = [
                {name: row[name] for name in names} for row in list(found.values())[:_SHOWN]
            ]
        return {(lock_class, lock_key) for _, lock_class, lock_key in found}


def _foreign(conn: Connection) -> dict[tuple[Any, ...], dict[str, Any]]:
    try:
        rows = conn.cursor(row_factory=dict_row).execute(_FOREIGN).fetchall()
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedTable) as error:
        logger.debug("cannot look for foreign locks: %s", error)
        return {}
    return {(row["pid"], row["lock_class"], row["lock_key"]): row for row in rows}
