"""Reports groups that no consumer reads, although messages wait for them."""

from __future__ import annotations

import logging
import time

from psycopg.rows import dict_row

from mqpg.values.cause import Cause
from mqpg.values.cause_sentences import explain

from .session import Connection

__all__ = ["UnreadGroups"]

logger = logging.getLogger(__name__)

# Groups whose messages have been waiting for so many seconds, while no consumer asked for them. Of a
# consumer that is at work the group moves, or the consumer logs why it does not.
_UNREAD = """
select g.consumer_group, g.topic, g.lag as unread, g.oldest_unread_at as since
from mqpg.group_status g
where g.lag > 0 and not g.paused
    and greatest(g.oldest_unread_at, g.changed_at) < clock_timestamp() - make_interval(secs => %(seconds)s)
    and not exists (
        select from mqpg.worker_status w
        where w.alive and w.role = 'consumer' and w.detail ->> 'topic' = g.topic
            and w.detail ->> 'consumer_group' = g.consumer_group)
order by g.oldest_unread_at
limit 100
"""
_CHECKS = 6  # in the time after which a group is reported


class UnreadGroups:
    """Logs each group that no consumer reads, once.

    A group is reported if its messages have waited for `seconds`. One that is read meanwhile and left alone
    later is logged again.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next_check = 0.0
        self._known: set[tuple[str, str]] = set()

    def report(self, conn: Connection) -> None:
        """Log the groups that are new, if it is time."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + self._seconds / _CHECKS
        rows = conn.cursor(row_factory=dict_row).execute(_UNREAD, {"seconds": self._seconds}).fetchall()
        found = {(row["consumer_group"], row["topic"]): row for row in rows}
        for name in found.keys() - self._known:
            remedy = explain(Cause("waiting_for_consumer", found[name]))
            logger.warning("no consumer reads a group", extra=found[name] | {"remedy": remedy})
        self._known = set(found)
