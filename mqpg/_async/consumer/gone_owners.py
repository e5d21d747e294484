"""Pinned queues whose owner is gone, so that no consumer reads them.

In mode pinned a queue stays with the name of its consumer, whatever happens. A process that comes
back under another name, as a container does whose host name is new, gets nothing from these queues.
The broker cannot free them by itself, because the next owner must have the offsets of the last one.
"""

from __future__ import annotations

import logging
import time

from mqpg._async.client.client import AsyncClient
from mqpg.handlers.options import ConsumerOptions
from mqpg.values.choices import Mode
from mqpg.values.errors import Error
from mqpg.values.messages import AbandonedQueues

__all__ = ["GoneOwners"]

logger = logging.getLogger("mqpg")

_PAUSE = 10.0  # seconds between two checks
_SILENCE = 30.0  # after so many seconds without any change an owner counts as gone
_REPEAT = 600.0  # seconds until the same warning is logged again


class GoneOwners:
    """Checks now and then for queues that are blocked by a name that is gone, and logs them.

    `found`: what the last check found.
    """

    def __init__(self, options: ConsumerOptions) -> None:
        self.found: tuple[AbandonedQueues, ...] = ()
        self._options = options
        self._mode: Mode | None = None
        self._next_check = 0.0
        self._logged: tuple[float, list[tuple[str, tuple[int, ...]]]] = (0.0, [])

    async def check(self, mq: AsyncClient) -> None:
        """Check, unless the last check was a moment ago. An error of the broker is not raised."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + _PAUSE
        group, topic = self._options.group, self._options.topic
        try:
            if self._mode is None:
                self._mode = await mq.queries.subscription_mode(group, topic)
            if self._mode == "pinned":
                self.found = await mq.queries.gone_owners(group, topic, self._options.name, _SILENCE)
        except Error as error:
            logger.debug("%s/%s: checking for queues of consumers that are gone: %s", group, topic, error)
        blocked = [(one.consumer, one.queues) for one in self.found]
        if blocked and (blocked != self._logged[1] or now > self._logged[0] + _REPEAT):
            for one in self.found:
                self._log(one)
            self._logged = (now, blocked)
        elif not blocked:
            self._logged = (0.0, [])

    def until_next_check(self) -> float | None:
        """How many seconds a wait may take, so that `found` is not out of date. None: any time."""
        return _PAUSE if self.found else None

    def _log(self, one: AbandonedQueues) -> None:
        group, topic = self._options.group, self._options.topic
        logger.warning(
            "%s/%s: %d messages wait in queues %s, which belong to consumer %s. It did nothing since %s, and this "
            "consumer is %s, so it does not get them. Start a consumer of that name, or if it is gone for good: "
            "mqpg subscription unpin %s %s --consumer %s",
            group, topic, one.lag, ", ".join(map(str, one.queues)), one.consumer,
            one.since.isoformat(sep=" ", timespec="seconds"), self._options.name, group, topic, one.consumer,
        )  # fmt: skip
