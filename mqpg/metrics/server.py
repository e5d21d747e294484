"""`mqpg worker --metrics`: the HTTP server of prometheus_client."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server

from mqpg.status import Source
from mqpg.values.errors import ConfigurationError

from .collector import BrokerCollector

__all__ = ["serving"]

logger = logging.getLogger(__name__)


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
