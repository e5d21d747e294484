"""Notes on a session since when the disk is full, because no row can be written then."""

from __future__ import annotations

import logging

from .session import Connection

__all__ = ["FullDisk"]

logger = logging.getLogger(__name__)

_LOCK = 1836150848  # see sql/numbers.md
_NOW = "select extract(epoch from clock_timestamp())::int from mqpg._full_disk()"
_NOTE = """
select pg_try_advisory_lock_shared(%(lock)s, %(since)s)
where not exists (
    select from pg_locks as k
    where k.pid = pg_backend_pid() and k.locktype = 'advisory' and k.classid = %(lock)s and k.objid = %(since)s)
"""
_FORGET = "select pg_advisory_unlock_shared(%(lock)s, %(since)s)"


class FullDisk:
    """What a process knows of a full disk: since when. A lock of its session shows that to `mqpg status`.

    It survives a session that is lost, which after a write that failed is the rule.
    """

    def __init__(self) -> None:
        self._since: int | None = None

    def check(self, conn: Connection, suspected: bool) -> None:
        """Ask the server, if it is suspected or was so before, and note or forget it on this session."""
        if not suspected and self._since is None:
            return
        now = conn.execute(_NOW).fetchone()
        if now is not None:
            if self._since is None:
                self._since = now[0]
                logger.error("the disk is full")
            conn.execute(_NOTE, {"lock": _LOCK, "since": self._since})
        elif self._since is not None:
            logger.info("the disk has room again")
            conn.execute(_FORGET, {"lock": _LOCK, "since": self._since})
            self._since = None
