"""Why a consumer gets nothing: what somebody has to change, in the consumer's log.

A consumer that gets nothing looks the same whether nothing was sent, the topic is paused, its
filter chooses nothing, or no appender is at work. The broker knows which (`AsyncClient.why`), so
the consumer asks it after a minute without a delivery, and then less and less often. What ends by
itself, such as the wait for a retry, is not logged.
"""

from __future__ import annotations

import logging
import random
import time

from mqpg._async.client.client import AsyncClient
from mqpg.handlers.options import ConsumerOptions
from mqpg.values.cause import Cause
from mqpg.values.cause_sentences import explain
from mqpg.values.errors import Error

__all__ = ["NoDelivery"]

logger = logging.getLogger("mqpg")

_PATIENCE = 60.0  # seconds without a delivery until a cause is logged
_LONGEST = 3600.0  # seconds between two checks at most, and until a cause is logged again
_SHORTEST = 2.0  # seconds of a wait that still asks whether there are unread messages

# What stays until somebody does something, and the fact that changes where messages move all the
# same. A cause is logged only where two checks find it with the same fact. An open transaction of
# the queue is not among them, because it is usually another consumer at work.
_LASTING = {
    "topic_paused": None,
    "group_paused": None,
    "filter_chooses_nothing": None,
    "keys_blocked": None,
    "too_many_deliveries": "delivered_at",
    "waiting_for_consumer": "last_active_at",
    "appender_not_running": "last_append_at",
    "append_locked": "last_append_at",
}
_PAUSES = ("topic_paused", "group_paused")


class NoDelivery:
    """Asks now and then why nothing is delivered, and logs it.

    Make it when the consumer begins. While there are unread messages a check is due whenever the
    silence has doubled. Without them one check an hour is enough, because the waiter notices the
    first unread message.
    """

    def __init__(self, options: ConsumerOptions) -> None:
        self._options = options
        self._since = time.monotonic()  # of the last delivery
        self._next_check = self._since + _PATIENCE / 2
        # Thousands of consumers that are started together must not check at the same moments.
        self._next_idle_check = self._since + _PATIENCE * random.uniform(0.5, 1.0)
        self._suspected: dict[str, object] = {}  # cause -> fact, as the last check found them
        self._logged: dict[str, float] = {}  # cause -> when

    def delivered(self) -> None:
        """Start over, because there was a delivery."""
        self._since = time.monotonic()
        self._next_check = self._since + _PATIENCE / 2
        self._suspected = {}

    async def check(self, mq: AsyncClient, *, unread: bool) -> None:
        """Check, if it is time. An error of the broker is not raised.

        `unread`: whether the group has unread messages, as far as the last wait has learnt.
        """
        now = time.monotonic()
        if now < (self._next_check if unread else self._next_idle_check):
            return
        self._next_check = now + min(max(now - self._since, _PATIENCE / 2), _LONGEST)
        self._next_idle_check = now + _LONGEST * random.uniform(0.8, 1.0)
        found = await self._lasting(mq, unread)
        facts = {word: _fact(cause) for word, cause in found.items()}
        if facts.keys() - self._suspected.keys():
            self._next_check = self._next_idle_check = now + _PATIENCE / 2
        for word, _ in facts.items() & self._suspected.items():
            if now - self._logged.get(word, -_LONGEST) >= _LONGEST:
                self._logged[word] = now
                self._log(found[word])
        self._suspected = facts

    def until_next_check(self) -> float | None:
        """How many seconds a wait may take where a check is due soon. None: any time."""
        left = self._next_idle_check - time.monotonic()
        return max(left, _SHORTEST) if left <= _PATIENCE else None

    async def _lasting(self, mq: AsyncClient, unread: bool) -> dict[str, Cause]:
        """What keeps messages from this consumer until somebody does something."""
        try:
            causes = await mq.why(self._options.group, self._options.topic)
        except Error as error:
            logger.debug("%s/%s: asking why nothing comes: %s", self._options.group, self._options.topic, error)
            return {}
        return {one.cause: one for one in causes if self._concerns(one, unread)}

    def _concerns(self, cause: Cause, unread: bool) -> bool:
        if cause.cause not in _LASTING or (cause.cause in _PAUSES and not unread):
            return False
        return bool(cause.detail.get("member", self._options.name) == self._options.name)

    def _log(self, cause: Cause) -> None:
        group, topic = self._options.group, self._options.topic
        logger.warning("%s/%s: nothing is delivered (%s): %s", group, topic, cause.cause, explain(cause))


def _fact(cause: Cause) -> object:
    """What changes where messages move although there is this cause. None: nothing does."""
    name = _LASTING[cause.cause]
    return cause.detail.get(name) if name else None
