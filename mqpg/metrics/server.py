"""The HTTP server of a worker process: /metrics, /healthz and /readyz."""

from __future__ import annotations

import logging
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

from mqpg.values.errors import ConfigurationError

from .address import Address
from .health import Health

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["MetricsServer"]

logger = logging.getLogger(__name__)

_PLAIN = "text/plain; charset=utf-8"
_SILENT = 10.0  # seconds after which a client that says nothing is left


class MetricsServer:
    """Serves the metrics of a broker and the health of this process, by threads.

    It answers GET and HEAD only, changes nothing, and has no login: let it listen on loopback, or
    on a network of the monitoring.

    Args:
        address: Where to listen.
        health: What /healthz and /readyz ask.

    Raises:
        ConfigurationError: The address cannot be listened on, or prometheus-client is missing.
    """

    def __init__(self, address: Address, health: Health) -> None:
        try:
            from prometheus_client import CollectorRegistry, ProcessCollector

            from .collector import BrokerCollector
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "prometheus_client":
                raise
            raise ConfigurationError("the package prometheus_client is missing: pip install 'mqpg[metrics]'") from error
        registry = CollectorRegistry()
        registry.register(BrokerCollector(health.source))
        ProcessCollector(registry=registry)
        try:
            self._server = _Server(address, health, registry)
        except OSError as error:
            raise ConfigurationError(f"cannot listen on {address.host}:{address.port}: {error}") from error
        self._source = health.source
        self._thread = threading.Thread(target=self._server.serve_forever, name="mqpg-metrics", daemon=True)

    @property
    def address(self) -> Address:
        """Where it listens, with the port that the system chose."""
        host, port = self._server.server_address[:2]
        return Address(str(host), int(port))

    def __enter__(self) -> Self:
        self._thread.start()
        logger.info("serving metrics", extra={"host": self.address.host, "port": self.address.port})
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)
        self._source.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: Address, health: Health, registry: CollectorRegistry) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self.health, self.registry = health, registry
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _SILENT
    server_version, sys_version = "mqpg", ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._metrics()
        elif path in ("/healthz", "/readyz"):
            health = self.server.health
            wrong = health.alive() if path == "/healthz" else health.ready()
            status = HTTPStatus.OK if wrong is None else HTTPStatus.SERVICE_UNAVAILABLE
            self._answer(status, _PLAIN, f"{wrong or 'ok'}\n".encode())
        else:
            self._answer(HTTPStatus.NOT_FOUND, _PLAIN, b"see /metrics, /healthz and /readyz\n")

    do_HEAD = do_GET

    def _metrics(self) -> None:
        from prometheus_client.exposition import choose_encoder

        encode, kind = choose_encoder(self.headers.get("Accept", ""))
        self._answer(HTTPStatus.OK, kind, encode(self.server.registry))

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        logger.debug(format, *args)
