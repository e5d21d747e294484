# Generated from mqpg/_async/consumer/silent_members.py by tools/async_to_sync.py: change that file.
"""Queues that a silent member of the group holds: its session is ended, so that others get them.

In C1 the transaction of the effect holds the queue. If its process is frozen, or its host is gone,
the transaction stays open and the queue stands. A handler that is slow looks the same, so the
member's process shows that it lives (see `LeaseExtender`). Who waits for the queue ends the session
of a member that is silent for longer than a lease. PostgreSQL rolls its transaction back before the
queue is free, so nothing is done twice. Sessions of programs that do not show this are left alone.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from mqpg._sync.client.client import Client
from mqpg._sync.consumer.lease import Lease
from mqpg.handlers.options import ConsumerOptions
from mqpg.values.errors import Error

__all__ = ["SilentMembers"]

logger = logging.getLogger("mqpg")

_PAUSE = 2.0  # seconds between two checks


class SilentMembers:
    """Checks now and then, while messages wait, whether a silent member holds them."""

    def __init__(self, options: ConsumerOptions) -> None:
        self._group, self._topic = options.group, options.topic
        self._lease = Lease(options.lease, "")
        self._next_check = 0.0
        self.report: dict[str, Any] = {}  # whom it ended last, and how many, as heartbeats report it

    def check(self, mq: Client) -> None:
        """Check, unless the last check was a moment ago. An error of the broker is not raised."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + _PAUSE
        try:
            seconds = self._lease.seconds(mq)
            silent = set(mq.queries.silent_sessions(seconds))
            if silent:
                causes = mq.why(self._group, self._topic)
                held_by = silent & {cause.detail.get("pid") for cause in causes}
                for one in mq.queries.end_silent_sessions(seconds, sorted(held_by)):
                    self.report = {"ended_silent": one, "sessions_ended": self.report.get("sessions_ended", 0) + 1}
                    logger.warning(
                        "%s/%s: ended the session of a member that fell silent, pid %s at the server",
                        self._group,
                        self._topic,
                        one["pid"],
                    )
        except Error as error:
            logger.debug("%s/%s: checking for silent members: %s", self._group, self._topic, error)
