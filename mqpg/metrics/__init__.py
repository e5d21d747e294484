"""Metrics for Prometheus, and the HTTP endpoints of `mqpg worker --metrics`. Extra: `metrics`."""

from __future__ import annotations

from .address import Address, parse_address
from .health import Health, ask_endpoint, ask_host
from .server import MetricsServer

__all__ = ["Address", "Health", "MetricsServer", "ask_endpoint", "ask_host", "parse_address"]
