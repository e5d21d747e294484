"""The collector: reads a broker at each scrape."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from mqpg.status.source import Source
from mqpg.values import errors

from .families import families, metric
from .reading import read_metrics

__all__ = ["BrokerCollector"]

logger = logging.getLogger(__name__)


class BrokerCollector(Collector):
    """Metrics of one broker. Register it in a registry of prometheus_client.

    Several scrapes may run at once. While the broker does not answer, a scrape has `mqpg_up 0` and
    nothing about the broker.

    Args:
        source: The broker. The role of its DSN needs the right of an operator, an auditor or a
            worker.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def collect(self) -> Iterator[Metric]:
        """Read the broker's metrics."""
        began = time.monotonic()
        try:
            found = list(families(read_metrics(self._source.rows)))
        except errors.Error as error:
            logger.warning("scrape failed", extra={"error": error})
            found = []
        yield metric("up", [([], bool(found))])
        yield from found
        yield metric("scrape_seconds", [([], time.monotonic() - began)])

    def describe(self) -> Iterator[Metric]:
        """Name no metric in advance, so that registering it asks no broker."""
        yield from ()
