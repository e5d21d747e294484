# Generated from mqpg/_async/producer/rows_of_others.py by tools/async_to_sync.py: change that file.
"""What a producer says of rows in its ledger or outbox that wait for a broker which it does not have."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from datetime import timedelta

from mqpg._sync._acompat import Returns
from mqpg.connection.backoff import Backoff

__all__ = ["RowsOfOthers"]

logger = logging.getLogger("mqpg")

_AGE = timedelta(minutes=1)  # younger rows may be those of a producer with other brokers


class RowsOfOthers:
    """Logs how many rows wait for which broker, each time after a longer pause.

    `table` is what it calls the table, and `count` counts the rows of brokers that are none of the given ones.
    """

    def __init__(self, table: str, count: Callable[[Collection[str], timedelta], Returns[dict[str, int]]]) -> None:
        self._table, self._count = table, count
        self._pauses, self._next_look = Backoff(60.0, 3600.0, jitter=0.0), 0.0

    def report(self, brokers: Collection[str]) -> None:
        """Log what waits for other brokers than these, which are all that the producer has."""
        if time.monotonic() < self._next_look:
            return
        others = self._count(brokers, _AGE)
        if not others:
            self._pauses.reset()
        self._next_look = time.monotonic() + self._pauses.next()
        for broker, count in others.items():
            logger.error(
                "%s: %d messages wait for broker %s, which is none of this producer's", self._table, count, broker
            )
