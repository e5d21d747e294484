"""`mqpg worker --metrics`: the HTTP server of prometheus_client, and what it serves at each scrape."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from mqpg.status import Source
from mqpg.values.errors import ConfigurationError, Error

from .families import families, metric
from .reading import read_metrics

__all__ = ["BrokerCollector", "serving"]

logger = logging.getLogger(__name__)


class BrokerCollector(Collector):
    """Metrics of one broker, which may be scraped several times at once.

    While the broker does not answer, a scrape has `mqpg_up 0` and nothing about the broker.
    """

    def __init__(self, source: Source) -> None:
        self._source = source

    def collect(self) -> Iterator[Metric]:
        """Read the broker's metrics."""
        began = time.monotonic()
        try:
            found = list(families(read_metrics(self._source.rows)))
        except Error as error:
            logger.warning("scrape failed", extra={"error": error})
            found = []
        yield metric("up", [([], bool(found))])
        yield from found
        yield metric("scrape_seconds", [([], time.monotonic() - began)])

    def describe(self) -> Iterator[Metric]:
        """Name no metric in advance, so that registering it asks no broker."""
        yield from ()


@contextmanager
def serving(address: str, source: Source) -> Iterator[int]:
    """Serve the metrics of a broker and of this process while the block runs, by threads. Yields the port.

    The address is "127.0.0.1:9464" or "[::1]:9464", for example. Port 0: any free one. The server has no
    login: let it listen on loopback, or on a network of the monitoring. The connections of the source
    are closed at the end. Raises ConfigurationError if the address cannot be used.
    """
    host, port = _host_and_port(address)
    registry = CollectorRegistry()
    registry.register(BrokerCollector(source))
    ProcessCollector(registry=registry)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigurationError(f"cannot listen on {address}: {error}") from error
    logger.info("serving metrics", extra={"host": host, "port": server.server_port})
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
        source.close()


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        found = urlsplit(f"//{address}")
        host, port = found.hostname, found.port
    except ValueError:
        host = port = None
    if not host or port is None:
        raise ConfigurationError(f"an address is HOST:PORT, for instance 127.0.0.1:9464, not {address!r}")
    return host, port
